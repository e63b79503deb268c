"""CSV text, read by pyarrow if it is valid, and otherwise row by row."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from maxmargin.streams.arrow import WEIGHT, Piece, arrow
from maxmargin.streams.compression import Bytes
from maxmargin.streams.csv_rows import (
    NEWLINE,
    QUOTE,
    RETURN,
    end_of_row,
    ends_of_rows,
    outside_of_quotes,
    quotes_are_sound,
    tidy,
    walk,
)
from maxmargin.streams.files import Stored, stored
from maxmargin.streams.lines import Chunk, LongLine, whole_lines
from maxmargin.streams.option_errors import Message, Option, OptionWarning
from maxmargin.streams.source import Position, StreamError, identity_of_file
from maxmargin.streams.spellings import (
    BLANKS,
    FALSE,
    MISSING,
    TRUE,
    is_number,
    kind_of_values,
    remedies,
)
from maxmargin.streams.text_encoding import Decoder

# The kinds of columns are inferred from so many bytes, independently of the size of blocks.
HEAD = 2**18
# Fields and names take several times the memory of a line.
LONGEST_ROW, LONGEST_HEADER = 2**24, 2**22
# pyarrow needs about 7 kB for each column.
MOST_COLUMNS = 100_000
# A text with an invalid row is halved until it has so few rows, which are then checked one by one:
# a failure of pyarrow takes as long, since it inspects all objects of the process.
FEW_ROWS = 512
DELIMITERS = ",\t;|"
QUOTED = re.compile(rb'"[^"]*"')
# Those that do not begin like numbers, which would make pyarrow slower by a fifth: it knows "-nan",
# and the others are rare enough to be read row by row.
FAST_MISSING = tuple(value for value in MISSING if value[:1] not in ("-", "1"))


class NumberedChunk(NamedTuple):
    """Complete rows, with the numbers of lines before them and up to their end."""

    text: bytes
    end: int
    done: int
    first_line: int
    last_line: int


class Header(NamedTuple):
    """The names of the columns, and the bytes and lines that they take."""

    names: list[str]
    size: int
    lines: int


class CsvReader:
    """Tables from CSV text, with the options of `TableSource`.

    A row ends at a newline outside of quotes. Quotes may only enclose values, or be doubled inside
    of quoted ones. An invalid row does not affect the next one; with ``skip`` it is skipped.
    """

    rows: int | None = None

    def __init__(
        self,
        file: Any,
        *,
        header: bool | None,
        delimiter: str | None,
        skip: bool,
        block_size: int,
        encoding: str = "utf-8",
        decimal: str = ".",
        na_values: Sequence[str] = (),
    ) -> None:
        self._file = file = stored(file)
        self._missing = (*MISSING, *na_values)
        self._null_values = (*FAST_MISSING, *na_values)
        self._skip = skip
        self._block_size = block_size
        self._decoder = Decoder(encoding)
        if decimal not in (".", ","):
            raise StreamError(f"decimal must be '.' or ',', not {decimal!r}.")
        self._decimal = decimal
        self.total: int | None = None
        # Of a pipe: the first rows, from which kinds are inferred, and the rest.
        self._begun: tuple[Chunk, Generator[Chunk, None, None]] | None = None
        if isinstance(file, Stored):
            self.name, self.total = file.name, file.size
            self.repeatable = True
            with file.open() as opened:
                chunk, _ = self._begin(Bytes(opened, self.name), HEAD, delimiter)
        else:
            self.name, self.repeatable = str(getattr(file, "name", "<pipe>")), False
            self._begun = self._begin(Bytes(file, self.name), block_size, delimiter)
            chunk = self._begun[0]
        self._header = self._header_of(chunk.text, header)
        self.has_header = self._header.size > self._mark
        self._places = {name: place for place, name in enumerate(self._header.names)}

    def _begin(
        self, text: Bytes, size: int, delimiter: str | None
    ) -> tuple[Chunk, Generator[Chunk, None, None]]:
        """The first rows after the byte order mark, if there is one, and the rest."""
        start = text.read(HEAD)
        self._mark = self._decoder.mark_of(start, self.name)
        start = start[self._mark :]
        self._delimiter = self._delimiter_of(start) if delimiter is None else delimiter
        if not re.fullmatch(r"[ -~\t]", self._delimiter) or self._delimiter == '"':
            raise StreamError(f"a delimiter is one character, not {self._delimiter!r}.")
        chunks = self._whole_rows(text, size, self._mark, held=start)
        return self._more_than_a_header(chunks), chunks

    def _delimiter_of(self, start: bytes) -> str:
        row = QUOTED.sub(b"", start).partition(NEWLINE)[0]
        candidates = DELIMITERS.replace(self._decimal, "")
        return max(candidates, key=lambda delimiter: row.count(delimiter.encode()))

    def _whole_rows(
        self, text: Bytes, size: int, offset: int, held: bytes = b""
    ) -> Generator[Chunk, None, None]:
        end_of = partial(end_of_row, delimiter=self._delimiter)
        return whole_lines(text, size, offset, LONGEST_ROW, end_of, held)

    def _more_than_a_header(self, chunks: Iterator[Chunk]) -> Chunk:
        """The first chunk, extended until it has a row after the header."""
        first = Chunk(b"", 0, 0)
        try:
            first = next(chunks, first)
            while ends_of_rows(first.text, self._delimiter).size == 1:
                if (more := next(chunks, None)) is None:
                    break
                first = more._replace(text=first.text + more.text)
        except LongLine as error:
            raise self._too_long(error, first.text.count(NEWLINE)) from None
        return first

    def _too_long(self, error: LongLine, before: int) -> StreamError:
        """The error for a row after so many lines that is too long."""
        opened = walk(error.text, self._delimiter).opened
        if opened < 0 or NEWLINE not in error.text[opened:]:
            return error.at(self.name, before + 1 + error.text.count(NEWLINE))
        line = before + 1 + error.text.count(NEWLINE, 0, opened)
        return StreamError(
            f"{self.name}, line {line}: a quote is opened here, and not closed in the next "
            f"{error.limit:,} bytes."
        )

    def _header_of(self, head: bytes, has_names: bool | None) -> Header:
        raw = head[: end_of_row(head, True, self._delimiter) or len(head)]
        if len(raw) > LONGEST_HEADER:
            raise LongLine(LONGEST_HEADER, raw).at(self.name, 1)
        row = self._decoder.as_utf8(raw).rstrip(b"\r\n")
        if not row.strip() and self._delimiter.encode() not in row:
            raise StreamError(f"{self.name}: there is no line with columns at the beginning.")
        if trouble := self._broken(row, 0):
            raise StreamError(f"{self.name}, ", *trouble, ".")
        if (count := self._fields(row)) > MOST_COLUMNS:
            raise StreamError(
                f"{self.name}, line 1: {count:,} columns, and CSV may have {MOST_COLUMNS:,}; write "
                "such wide rows as svmlight text or as an array."
            )
        names = [name.strip() for name in self._split(row)]
        if has_names is None:
            has_names = self._begins_with_names(names)
        if not has_names:
            return Header([str(place) for place in range(len(names))], self._mark, 0)
        name, times = Counter(names).most_common(1)[0]
        if times > 1:
            raise StreamError(
                f"{self.name}: there are {times} columns {name!r}; if the first line has no "
                "names, use ",
                Option("header", False),
                ".",
            )
        return Header(names, self._mark + len(raw), raw.count(NEWLINE))

    def _begins_with_names(self, cells: list[str]) -> bool:
        """Whether the first row has the names of the columns; a guess issues a warning.

        pandas writes positions as names, after an empty one if there is an index.
        """
        first = 1 if cells[0] == "" else 0
        places = [*[""] * first, *map(str, range(len(cells) - first))]
        present = [cell for cell in cells if cell not in self._missing]
        numbers = [cell for cell in present if is_number(cell, self._decimal)]
        named = {cell for cell, place in zip(cells, places, strict=True) if cell == place}
        if not numbers or (named.issuperset(numbers) and len(numbers) < len(present)):
            return True
        is_data = len(numbers) == len(present) and cells != places
        if is_data:
            found = "the first line has only numbers: it is read as data, and columns are '0', ..."
        else:
            odd = next((each for each in numbers if each not in named), numbers[0])
            found = f"the first line is read as names of columns, though {odd!r} is a number"
        warnings.warn(
            OptionWarning(
                f"{self.name}: {found}; use ",
                Option("header", True),
                " if it has the names, and ",
                Option("header", False),
                " if it is data.",
            ),
            stacklevel=2,
        )
        return not is_data

    def kinds(self) -> dict[str, str | None]:
        """The columns, and their kinds in the first rows."""
        head = self._head()[self._header.size - self._mark :]
        tables, _, _ = self._tables(head, None, dict.fromkeys(self._places, "text"), 0)
        columns = (column.to_pylist() for column in arrow().concat_tables(tables).columns)
        kinds = (kind_of_values(values, self._decimal, self._missing) for values in columns)
        return dict(zip(self._places, kinds, strict=True))

    def _head(self) -> bytes:
        if self._begun is not None:
            return self._begun[0].text
        with self._file.open() as file:
            return self._begin(Bytes(file, self.name), HEAD, self._delimiter)[0].text

    def _rows_of(self, text: bytes, before: int) -> Iterator[tuple[bytes, int]]:
        """Rows that are not empty, without their ends, and the number of lines before each."""
        begin = 0
        for end in chain(ends_of_rows(text, self._delimiter).tolist(), [len(text)]):
            row = self._decoder.as_utf8(text[begin:end])
            if bare := row.rstrip(b"\r\n"):
                yield bare, before
            before, begin = before + row.count(NEWLINE), end

    def pieces(
        self, start: Position, kinds: Mapping[str, str]
    ) -> Generator[NumberedChunk, None, None]:
        offset = max(start.offset, self._header.size)
        line = max(start.line, self._header.lines)
        try:
            for chunk in self._chunks(offset):
                if chunk.end <= offset:
                    continue
                lines = chunk.text.count(NEWLINE)
                yield NumberedChunk(chunk.text, chunk.end, chunk.done, line, line + lines)
                line += lines
        except LongLine as error:
            raise self._too_long(error, line) from None

    def _chunks(self, offset: int) -> Generator[Chunk, None, None]:
        if self._begun is not None:
            first, rest = self._begun
            first = first._replace(text=first.text[self._header.size - self._mark :])
            yield from (chunk for chunk in chain([first], rest) if chunk.text)
            return
        with self._file.open() as file:
            text = Bytes(file, self.name)
            text.skip(offset)
            yield from self._whole_rows(text, self._block_size, offset)

    def read(self, chunk: NumberedChunk, kinds: Mapping[str, str]) -> Piece:
        tables, lost, error = self._tables(chunk.text, None, kinds, chunk.first_line)

        def place(number: int) -> str:
            _, before = next(islice(self._rows_of(chunk.text, chunk.first_line), number, None))
            return f"line {before + 1}"

        table = arrow().concat_tables(tables)
        return Piece(table, chunk.end, chunk.last_line, chunk.done, lost, place, error)

    def _tables(
        self, text: bytes, ends: np.ndarray | None, kinds: Mapping[str, str], before: int
    ) -> tuple[list[Any], list[int], StreamError | None]:
        """Tables of valid rows, the indices of skipped ones, and the error that ends them.

        ``ends`` are the ends of the rows, if known, and ``before`` is the number of lines before
        the text.
        """
        table, _ = self._table(self._decoder.as_utf8(text), kinds)
        if table is not None:
            return [table], [], None
        if ends is None:
            ends = ends_of_rows(text, self._delimiter)
        if ends.size > FEW_ROWS:
            half = ends.size // 2
            cut = int(ends[half - 1])
            tables, lost, error = self._tables(text[:cut], ends[:half], kinds, before)
            if error is not None:
                return tables, lost, error
            rows = sum(table.num_rows for table in tables) + len(lost)
            line = before + text.count(NEWLINE, 0, cut)
            more, others, error = self._tables(text[cut:], ends[half:] - cut, kinds, line)
            return tables + more, lost + [rows + row for row in others], error
        last = before + text.count(NEWLINE)
        text, lost, error = self._sound_rows(text, kinds, before)
        table, reason = self._table(text, kinds)
        if table is None:
            raise error or StreamError(f"{self.name}, lines {before + 1} to {last}: {reason}")
        return [table], lost, error

    def _table(self, text: bytes, kinds: Mapping[str, str]) -> tuple[Any, str]:
        """The columns of valid text, or None and the reason why it is invalid."""
        pa, pacsv = arrow(), arrow("pyarrow.csv")
        tidied = None if b"\0" in text else tidy(text, self._delimiter)
        if tidied is None:
            return None, "a carriage return, a zero byte or a quote is out of place"
        text, rows = tidied
        types = {"number": pa.float64(), "boolean": pa.bool_(), "text": pa.string()}
        types[WEIGHT] = types["number"]
        schema = {name: types[kind] for name, kind in kinds.items()}
        if rows == 0:
            return pa.schema(list(schema.items())).empty_table(), ""
        try:
            table = pacsv.read_csv(
                pa.py_buffer(text),
                # One block, so that nothing is inferred and errors refer to these lines.
                read_options=pacsv.ReadOptions(
                    column_names=self._header.names, use_threads=False, block_size=len(text) + 1
                ),
                parse_options=pacsv.ParseOptions(
                    delimiter=self._delimiter, newlines_in_values=True
                ),
                convert_options=pacsv.ConvertOptions(
                    column_types=schema,
                    include_columns=list(schema),
                    null_values=self._null_values,
                    true_values=TRUE,
                    false_values=FALSE,
                    strings_can_be_null=False,
                    decimal_point=self._decimal,
                ),
            )
        except pa.ArrowException as error:
            if isinstance(error, MemoryError):
                raise  # the text may be valid
            return None, str(error)
        if table.num_rows != rows:
            return None, "there are more or fewer rows than ends of rows"
        return table, ""

    def _sound_rows(
        self, text: bytes, kinds: Mapping[str, str], before: int
    ) -> tuple[bytes, list[int], StreamError | None]:
        """The valid rows, the indices of skipped ones, and the error that ends them."""
        sound, lost = list[bytes](), list[int]()
        for row, line in self._rows_of(text, before):
            trouble = self._trouble(row, kinds, line)
            if trouble is None:
                sound.append(self._normalized(row, kinds))
            elif self._skip and walk(row, self._delimiter).opened < 0:
                lost.append(len(sound) + len(lost))
            else:  # after an open quote, the next row cannot be found
                error = StreamError(f"{self.name}, ", *trouble, ".")
                return b"".join(sound), lost, error
        return b"".join(sound), lost, None

    def _normalized(self, row: bytes, kinds: Mapping[str, str]) -> bytes:
        """A valid row whose values pyarrow can read, ended by a newline.

        Blanks around booleans are removed, and missing values are empty.
        """
        fields, line = self._split(row), io.StringIO()
        for name, kind in kinds.items():
            if kind != "text":
                value = fields[self._places[name]].strip(BLANKS)
                fields[self._places[name]] = "" if value in self._missing else value
        csv.writer(line, delimiter=self._delimiter).writerow(fields)
        return line.getvalue().encode()

    def _trouble(self, row: bytes, kinds: Mapping[str, str], before: int) -> Message | None:
        """Why the row after so many lines is invalid, and where; None if it is valid."""
        if broken := self._broken(row, before):
            return broken
        where = f"line {before + 1}"
        if (count := self._fields(row)) != len(self._places):
            return (f"{where}: {count} fields, expected {len(self._places)}{_extent(row, before)}",)
        fields = self._split(row)
        for name, kind in kinds.items():
            value = fields[self._places[name]].strip(BLANKS)
            if value not in self._missing and not _fits(value, kind, self._decimal):
                found = f"{where}, column {name!r}: expected a {kind}, found {value[:40]!r}"
                if kind == WEIGHT:
                    return (found,)
                return (found, *remedies(name, value))
        return None

    def _broken(self, row: bytes, before: int) -> Message | None:
        """Why the row after so many lines cannot be split into fields, and where."""
        where = f"line {before + 1}"
        if b"\0" in row:
            return (f"{where}: there is a zero byte in the line",)
        try:
            row.decode()
        except UnicodeDecodeError:
            return (f"{where}: ", *self._decoder.trouble())
        if QUOTE in row and (opened := walk(row, self._delimiter).opened) >= 0:
            line = before + 1 + row.count(NEWLINE, 0, opened)
            return (f"line {line}: a quote is opened here, and never closed",)
        letters = np.frombuffer(row, np.uint8)
        quotes = np.flatnonzero(letters == ord(QUOTE))
        if quotes.size % 2 or not quotes_are_sound(letters, quotes, self._delimiter):
            misplaced = "there is a quote that is not around a value"
            return (f"{where}: {misplaced}{_extent(row, before)}",)
        if RETURN in row and outside_of_quotes(row, RETURN).size:
            return (f"{where}: there is a carriage return in the line",)
        return None

    def _split(self, row: bytes) -> list[str]:
        """The fields of a valid row."""
        if QUOTE not in row:
            return row.decode().split(self._delimiter)
        ends = [-1, *outside_of_quotes(row, self._delimiter).tolist(), len(row)]
        fields = [row[begin + 1 : end].decode() for begin, end in pairwise(ends)]
        return [
            field[1:-1].replace('""', '"') if field.startswith('"') else field for field in fields
        ]

    def _fields(self, row: bytes) -> int:
        """The number of fields of a valid row."""
        if QUOTE not in row:
            return row.count(self._delimiter.encode()) + 1
        return outside_of_quotes(row, self._delimiter).size + 1

    def identity(self) -> str:
        if isinstance(self._file, Stored):
            return self._file.identity()
        first = self._begun[0].text if self._begun else b""
        return identity_of_file(io.BytesIO(first), len(first))


def _extent(row: bytes, before: int) -> str:
    """A hint for a row of several lines, in which a closing quote may be missing."""
    more = row.count(NEWLINE)
    return f" (a quote makes one row of lines {before + 1} to {before + 1 + more})" if more else ""


def _fits(value: str, kind: str, decimal: str) -> bool:
    if kind == "boolean":
        return value in TRUE or value in FALSE
    return kind == "text" or is_number(value, decimal)
