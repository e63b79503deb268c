"""CSV text, read by pyarrow."""

from __future__ import annotations

import codecs
import contextlib
import csv
import hashlib
import io
import re
import warnings
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from maxmargin.streams.arrow import (
    FALSE,
    MISSING,
    TRUE,
    WEIGHT,
    Piece,
    TableReader,
    arrow,
    is_number,
    kind_of_values,
    remedies,
)
from maxmargin.streams.files import Files, Pipe, Prefixed, as_damage, text_of
from maxmargin.streams.source import BLOCK_SIZE, StreamError

# The delimiter, the names and the kinds of columns are inferred from so many bytes.
HEAD = 2**18
DELIMITERS = ",\t;|"
QUOTED = re.compile(r'"[^"]*"')
OTHER_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Those that do not begin like numbers, which would make pyarrow slower by a fifth.
FAST_MISSING = (*(value for value in MISSING if value[:1] not in ("-", "1")), " ")
IN_COLUMN = re.compile(
    r"In CSV column #(\d+): (?:Row #(\d+): )?.* to (\w+): invalid value '(.*)'", re.DOTALL
)
IN_ROW = re.compile(r"(?:CSV parse error: |In CSV column #\d+: )(?:Row #(\d+): )?(.*)", re.DOTALL)


class Header(NamedTuple):
    """The columns of a file."""

    delimiter: str
    names: list[str]
    lines: int  # before the first row


class CsvReader(TableReader):
    """Tables from one or several files, or from a pipe.

    With ``skip``, rows that cannot be split into columns are skipped, and columns with other values
    than numbers remain text.
    """

    def __init__(
        self,
        file: Files | Pipe,
        *,
        header: bool | None,
        delimiter: str | None,
        skip: bool,
        block_size: int,
        encoding: str = "utf-8",
        decimal: str = ".",
        na_values: Sequence[str] = (),
    ) -> None:
        if decimal not in (".", ","):
            raise StreamError(f"decimal must be '.' or ',', not {decimal!r}.")
        if delimiter is not None and (not re.fullmatch(r"[ -~\t]", delimiter) or delimiter == '"'):
            raise StreamError(f"a delimiter is one character, not {delimiter!r}.")
        try:
            codecs.lookup(encoding)
        except LookupError:
            raise StreamError(f"encoding {encoding!r} is not known.") from None
        self._file, self._skip, self._decimal, self._encoding = file, skip, decimal, encoding
        self._block_size = max(block_size, BLOCK_SIZE)
        self._missing, self._null_values = (*MISSING, *na_values), (*FAST_MISSING, *na_values)
        self.repeatable = isinstance(file, Files)
        self.name = str(file) if isinstance(file, Files) else file.source
        self.total = file.size if isinstance(file, Files) else None
        self._paths = file.paths if isinstance(file, Files) else [""]
        with self._opened(self._paths[0]) as (text, _):
            head = text.read(HEAD if self.repeatable else BLOCK_SIZE)
            while head.count(b"\n") < 2 and len(head) < BLOCK_SIZE and (more := text.read(HEAD)):
                head += more
        self._pipe = None if self.repeatable else io.BufferedReader(Prefixed(head, file))
        head_text = self._decoded(head)
        self._header = self._header_of(head_text, header, delimiter)
        self.has_header = self._header.lines > 0
        self._head, self._raw_head = head_text, head
        self._identity = hashlib.sha256(head).hexdigest()

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[tuple[Any, Any]]:
        """The text, and the file as it is stored."""
        if not isinstance(self._file, Files):
            yield self._file, None
            return
        with self._file.open(path) as file, as_damage(self.name):
            yield text_of(file), file

    def _decoded(self, head: bytes) -> str:
        if head.startswith(OTHER_MARKS) and self._encoding.lower() in ("utf-8", "utf8"):
            raise StreamError(f'{self.name}: the text is not UTF-8; use encoding="utf-16".')
        return head.decode(self._encoding, "replace").removeprefix("\ufeff")

    def _header_of(self, head: str, has_names: bool | None, delimiter: str | None) -> Header:
        if delimiter is None:
            first = QUOTED.sub("", head.lstrip("\r\n")).partition("\n")[0]
            delimiter = max(DELIMITERS.replace(self._decimal, ""), key=first.count)
        rows = csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)
        try:
            cells = next((row for row in rows if row), [])
        except csv.Error as error:
            raise StreamError(f"{self.name}, line 1: {error}.") from None
        names, lines = [name.strip() for name in cells], rows.line_num
        if not any(names):
            raise StreamError(
                f"{self.name}: the first line has neither names nor values of columns."
            )
        if not (self._begins_with_names(names) if has_names is None else has_names):
            return Header(delimiter, [str(place) for place in range(len(names))], 0)
        name, times = Counter(names).most_common(1)[0]
        if times > 1:
            raise StreamError(
                f"{self.name}: there are {times} columns {name!r}; if the first line has no "
                "names, use header=False."
            )
        return Header(delimiter, names, lines)

    def _begins_with_names(self, cells: list[str]) -> bool:
        """Whether the first line has names of columns: not if it has only numbers."""
        present = [cell for cell in cells if cell not in self._missing]
        if not all(is_number(cell, self._decimal) for cell in present):
            return True
        warnings.warn(
            f"{self.name}: the first line has only numbers: it is read as data, and columns are "
            "'0', ...; use header=True if it has the names, and header=False if it is data.",
            stacklevel=2,
        )
        return False

    def kinds(self) -> dict[str, str | None]:
        """The columns, and their kinds in the first rows."""
        head = self._head
        if len(self._raw_head) >= HEAD:  # the last line may be cut
            end = head.rfind("\n", 0, HEAD)
            head = head[: end if "\n" in head[:end] else head.rfind("\n")] + "\n"
        options = self._options(dict.fromkeys(self._header.names, "text"), self._header, "utf-8")
        options["parse_options"].invalid_row_handler = lambda row: "skip"
        options["read_options"].block_size = max(4 * len(head), HEAD)
        columns = {name: list[str]() for name in self._header.names}
        with contextlib.suppress(arrow().ArrowInvalid):  # there is no row
            table = arrow("pyarrow.csv").read_csv(io.BytesIO(head.encode()), **options)
            columns = table.to_pydict()
        return {
            name: kind_of_values(values, self._decimal, self._missing)
            for name, values in columns.items()
        }

    def _options(
        self, kinds: Mapping[str, str], header: Header, encoding: str = ""
    ) -> dict[str, Any]:
        """The options of pyarrow to read these columns."""
        pa, pacsv = arrow(), arrow("pyarrow.csv")
        types = {"number": pa.float64(), "boolean": pa.bool_(), WEIGHT: pa.float64()}
        as_text = dict.fromkeys(types, pa.string()) if self._skip else {}
        types = {"text": pa.string(), **types, **as_text}
        return {
            "read_options": pacsv.ReadOptions(
                column_names=header.names,
                skip_rows=header.lines,
                use_threads=False,  # errors have the numbers of rows
                block_size=self._block_size,
                encoding=encoding or self._encoding,
            ),
            "parse_options": pacsv.ParseOptions(
                delimiter=header.delimiter, newlines_in_values=True
            ),
            "convert_options": pacsv.ConvertOptions(
                column_types={name: types[kind] for name, kind in kinds.items()},
                include_columns=list(kinds),
                null_values=self._null_values,
                true_values=TRUE,
                false_values=FALSE,
                strings_can_be_null=False,
                decimal_point=self._decimal,
            ),
        }

    def first(self, kinds: Mapping[str, str], rows: int) -> Generator[Piece, None, None]:
        if self.repeatable:
            yield from self.pieces(kinds, rows)
            return
        whole = self._raw_head[: self._raw_head.rfind(b"\n") + 1] or self._raw_head
        head = self._raw_head if len(self._raw_head) < BLOCK_SIZE else whole
        yield from self._pieces_of(io.BytesIO(head), None, kinds, self._header, 0, 0)

    def pieces(self, kinds: Mapping[str, str], rows: int) -> Generator[Piece, None, None]:
        before, stored = 0, 0
        for path in self._paths:
            if self._pipe is not None:
                yield from self._pieces_of(self._pipe, None, kinds, self._header, 0, 0)
                return
            with self._opened(path) as (text, file):
                header = self._header
                if path != self._paths[0]:
                    header = self._header_of(
                        self._decoded(text.read(HEAD)), self.has_header, header.delimiter
                    )
            with self._opened(path) as (text, file):
                for piece in self._pieces_of(text, file, kinds, header, before, stored):
                    yield piece
                    before += piece.table.num_rows
                stored += file.tell() if file is not None else 0

    def _pieces_of(
        self,
        text: Any,
        file: Any,
        kinds: Mapping[str, str],
        header: Header,
        before: int,
        stored: int,
    ) -> Generator[Piece, None, None]:
        pa, pacsv = arrow(), arrow("pyarrow.csv")
        options, waiting, seen = self._options(kinds, header), list[int](), before

        def skip(row: Any) -> str:
            waiting.append(before + row.number - header.lines - 1)
            return "skip"

        if self._skip:
            options["parse_options"].invalid_row_handler = skip
        try:
            for batch in pacsv.open_csv(text, **options):
                lost, seen = list[int](), seen + batch.num_rows
                while waiting and waiting[0] < seen:
                    lost.append(waiting.pop(0))
                    seen += 1
                table = pa.Table.from_batches([batch])
                if self._skip:
                    table = _with_numbers(table, kinds, self._decimal)
                done = file.tell() if file is not None else 0
                yield Piece(table, stored + done, lost)
        except pa.ArrowInvalid as error:
            if isinstance(error, MemoryError):
                raise  # the text may be valid
            if str(error).startswith(("Could not skip initial", "Empty CSV")):
                return  # there is a header and no row
            raise self._error(str(error), header, before) from None
        if waiting:
            yield Piece(pa.table({name: [] for name in kinds}), stored, waiting)

    def _error(self, message: str, header: Header, before: int) -> StreamError:
        """An error of pyarrow, with names of rows and columns."""

        def row(number: str | None) -> str:
            return f", row {before + int(number) - header.lines}" if number else ""

        if (found := IN_COLUMN.match(message)) is not None:
            column, number, kind, value = found.groups()
            name = header.names[int(column)]
            kind = "boolean" if kind == "bool" else "number"
            where = f"{self.name}{row(number)}, column {name!r}"
            wrong = f"expected a {kind}, found {value[:40]!r}"
            return StreamError(f"{where}: {wrong}{remedies(name, value)}.")
        if (found := IN_ROW.match(message)) is not None:
            number, message = found.groups()
            where = f"{self.name}{row(number)}"
            if "UTF8" in message:
                latin = 'use encoding="latin-1" if that is its encoding'
                return StreamError(f"{where}: the text is not UTF-8 ({latin}).")
            return StreamError(f"{where}: {message[:200]}.")
        if "straddling" in message:
            return StreamError(
                f"{self.name}: a row is longer than a block of {self._block_size:,} bytes, or a "
                "quote is never closed; for long rows use a larger block_size."
            )
        return StreamError(f"{self.name}: {message[:200]}")

    def identity(self) -> str:
        return self._file.identity() if isinstance(self._file, Files) else self._identity


def _with_numbers(table: Any, kinds: Mapping[str, str], decimal: str) -> Any:
    """The table with columns of numbers, where all values are some."""
    pa, pc = arrow(), arrow("pyarrow.compute")
    missing = pa.array([*MISSING, " "])
    for place, (name, kind) in enumerate(kinds.items()):
        if kind in ("number", WEIGHT):
            texts = pc.utf8_trim_whitespace(table[name])
            texts = pc.if_else(pc.is_in(texts, missing), pa.scalar(None, pa.string()), texts)
            texts = pc.replace_substring(texts, decimal, ".")
            with contextlib.suppress(pa.ArrowInvalid):
                table = table.set_column(place, name, texts.cast(pa.float64()))
    return table
