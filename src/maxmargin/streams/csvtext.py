"""CSV text: read by pyarrow where it is sound, and looked at line by line where it is not."""

from __future__ import annotations

import io
import os
import re
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from maxmargin.streams.arrow import WEIGHT, Piece, arrow
from maxmargin.streams.compression import Bytes
from maxmargin.streams.lines import Chunk, LongLine, whole_lines
from maxmargin.streams.source import Position, StreamError, identity_of_file

# Bytes of text that say what kind a column is, whatever the size of blocks.
HEAD = 2**18
# Fields and names are held one by one, which takes several times the room of a line.
LONGEST_ROW, LONGEST_HEADER = 2**24, 2**22
# Of each column, what reads it takes about 7 kB.
MOST_COLUMNS = 100_000
# A column is one of numbers if so many of its values are: the others are mistakes.
ENOUGH_NUMBERS = 0.9
# So many are looked at one by one if there is one among them that cannot be read.
FEW_LINES = 16
MARK = b"\xef\xbb\xbf"  # at the beginning of some UTF-8 files
DELIMITERS = ",\t;|"
NEWLINE, QUOTE = b"\n", b'"'
RETURNS = re.compile(rb"\r+\n")
BLANKS = " \t"
MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None")
TRUE, FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
NUMBER = re.compile(
    r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)", re.ASCII | re.IGNORECASE
)


class NumberedChunk(NamedTuple):
    """Whole lines, and the number of lines before and up to their end."""

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
    """Tables from CSV text.

    A value must not have a newline in it, and a quote stands only around a value or, doubled,
    inside a quoted one. So a line is a row, and one that cannot be read says nothing of the next.

    Parameters
    ----------
    file : path, or binary file that is read once
    header : bool
        Does the first line have the names of the columns? If not, they are "0", "1", ...
    delimiter : str or None
        By default the most frequent one in the first line of comma, tab, semicolon and bar.
    skip : bool
        Leave lines out that cannot be read?
    block_size : int
        Bytes of text in a block, about.
    """

    rows: int | None = None

    def __init__(
        self,
        file: Path | BinaryIO,
        *,
        header: bool,
        delimiter: str | None,
        skip: bool,
        block_size: int,
    ) -> None:
        self._file = file
        self._has_header = header
        self._skip = skip
        self._block_size = block_size
        self.total: int | None = None
        # Of a file that is read once: what was read to know its columns, and the rest.
        self._begun: tuple[Chunk, Generator[Chunk, None, None]] | None = None
        if isinstance(file, Path):
            self.name, self.total = str(file), os.stat(file).st_size
            self.repeatable = True
        else:
            self.name, self.repeatable = str(getattr(file, "name", "<pipe>")), False
        head = self._head()
        first_line = head.partition(NEWLINE)[0]
        self._delimiter = _delimiter_of(first_line) if delimiter is None else delimiter
        if not re.fullmatch(r"[ -~\t]", self._delimiter) or self._delimiter == '"':
            raise StreamError(f"a delimiter is one character, not {self._delimiter!r}.")
        self._header = self._header_of(head)
        self._places = {name: place for place, name in enumerate(self._header.names)}

    def _head(self) -> bytes:
        if not isinstance(self._file, Path):
            chunks = whole_lines(Bytes(self._file, self.name), self._block_size, 0, LONGEST_ROW)
            self._begun = (self._more_than_a_header(chunks), chunks)
            return self._begun[0].text
        with open(self._file, "rb") as file:
            chunks = whole_lines(Bytes(file, self.name), HEAD, 0, LONGEST_ROW)
            return self._more_than_a_header(chunks).text

    def _more_than_a_header(self, chunks: Iterator[Chunk]) -> Chunk:
        """The first chunk, with so many others that something is known of the columns."""
        first = Chunk(b"", 0, 0)
        try:
            first = next(chunks, first)
            while first.text.count(NEWLINE) == 1 and (more := next(chunks, None)):
                first = more._replace(text=first.text + more.text)
        except LongLine as error:
            raise error.at(self.name, 1 + first.text.count(NEWLINE)) from None
        return first

    def _header_of(self, head: bytes) -> Header:
        line = head.partition(NEWLINE)[0]
        mark = len(MARK) if head.startswith(MARK) else 0
        if len(line) > LONGEST_HEADER:
            raise LongLine(LONGEST_HEADER).at(self.name, 1)
        if not line[mark:].strip():
            raise StreamError(f"{self.name}: there is no line with columns at the beginning.")
        if trouble := self._broken(line[mark:]):
            raise StreamError(f"{self.name}, line 1: {trouble}.")
        if (count := self._fields(line[mark:])) > MOST_COLUMNS:
            raise StreamError(
                f"{self.name}, line 1: {count:,} columns, and CSV may have {MOST_COLUMNS:,}; write "
                "such wide rows as svmlight text or as an array."
            )
        names = self._split(line[mark:])
        if not self._has_header:
            return Header([str(place) for place in range(len(names))], mark, 0)
        names = [name.strip() for name in names]
        name, times = Counter(names).most_common(1)[0]
        if times > 1:
            raise StreamError(f"{self.name}: there are {times} columns {name!r}.")
        return Header(names, len(line) + 1, 1)

    def kinds(self) -> dict[str, str | None]:
        """The columns, and what kind they are in the first lines."""
        head = self._head() if self._begun is None else self._begun[0].text
        lines = head[self._header.size :].split(NEWLINE)
        rows = (
            self._split(line)
            for line in lines
            if line.strip() and not self._broken(line) and self._fields(line) == len(self._places)
        )
        columns = zip(*rows, strict=True)
        found = dict(zip(self._places, map(kind_of_values, columns), strict=False))
        return {name: found.get(name, "number") for name in self._places}

    def pieces(
        self, start: Position, kinds: Mapping[str, str]
    ) -> Generator[NumberedChunk, None, None]:
        """Text, to be read by `read`."""
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
            raise error.at(self.name, line + 1) from None

    def _chunks(self, offset: int) -> Generator[Chunk, None, None]:
        if self._begun is not None:
            first, rest = self._begun
            first = first._replace(text=first.text[self._header.size :])
            yield from (chunk for chunk in chain([first], rest) if chunk.text)
            return
        assert isinstance(self._file, Path)
        with open(self._file, "rb") as file:
            text = Bytes(file, self.name)
            text.skip(offset)
            yield from whole_lines(text, self._block_size, offset, LONGEST_ROW)

    def read(self, chunk: NumberedChunk, kinds: Mapping[str, str]) -> Piece:
        """The columns of ``kinds`` as a table."""
        text = chunk.text.replace(b"\r\n", NEWLINE)
        if b"\r" in text:  # line ends that were translated twice
            text = RETURNS.sub(NEWLINE, text)
        tables, skipped = self._tables(text, kinds, chunk.first_line)

        def place(row: int) -> str:
            lines = [number for number, line in enumerate(text.split(NEWLINE), 1) if line]
            return f"line {chunk.first_line + lines[row]}"

        table = arrow().concat_tables(tables)
        return Piece(table, chunk.end, chunk.last_line, chunk.done, skipped, place)

    def _tables(self, text: bytes, kinds: Mapping[str, str], before: int) -> tuple[list[Any], int]:
        """Tables of the lines that can be read, and how many cannot; these are closed in on."""
        table, trouble = self._table(text, kinds)
        if table is not None:
            return [table], 0
        lines = text.count(NEWLINE)
        if lines > FEW_LINES:
            # Before the middle, or else behind the first line: so neither part is empty.
            middle = 1 + max(text.rfind(NEWLINE, 0, len(text) // 2), text.index(NEWLINE))
            first, second = text[:middle], text[middle:]
            tables, skipped = self._tables(first, kinds, before)
            more, others = self._tables(second, kinds, before + first.count(NEWLINE))
            return tables + more, skipped + others
        text, skipped = self._sound_lines(text, kinds, before)
        table, trouble = self._table(text, kinds)
        if table is None:
            raise StreamError(f"{self.name}, lines {before + 1} to {before + lines}: {trouble}")
        return [table], skipped

    def _table(self, text: bytes, kinds: Mapping[str, str]) -> tuple[Any, str]:
        """The columns of sound text, or None and what is wrong with it."""
        pa, pacsv = arrow(), arrow("pyarrow.csv")
        if b"\r" in text or b"\0" in text or not quotes_are_sound(text, self._delimiter):
            return None, "a carriage return, a zero byte or a quote is out of place"
        types = {"number": pa.float64(), "boolean": pa.bool_(), "text": pa.string()}
        types[WEIGHT] = types["number"]
        schema = {name: types[kind] for name, kind in kinds.items()}
        rows = _count_of_rows(text)
        if rows == 0:
            return pa.schema(list(schema.items())).empty_table(), ""
        try:
            table = pacsv.read_csv(
                pa.py_buffer(text),
                # One block, so that nothing is inferred and errors concern these lines.
                read_options=pacsv.ReadOptions(
                    column_names=self._header.names, use_threads=False, block_size=len(text) + 1
                ),
                parse_options=pacsv.ParseOptions(
                    delimiter=self._delimiter, newlines_in_values=True
                ),
                convert_options=pacsv.ConvertOptions(
                    column_types=schema,
                    include_columns=list(schema),
                    null_values=MISSING,
                    true_values=TRUE,
                    false_values=FALSE,
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowException as error:
            if isinstance(error, MemoryError):
                raise  # nothing is wrong with the text
            return None, str(error)
        if table.num_rows != rows:
            return None, "the lines are not one row each"
        return table, ""

    def _sound_lines(self, text: bytes, kinds: Mapping[str, str], before: int) -> tuple[bytes, int]:
        """The lines that can be read, and how many cannot; raise for the first of these."""
        sound, skipped = [], 0
        for number, line in enumerate(text.split(NEWLINE), before + 1):
            trouble = self._trouble(line, kinds) if line else None
            # Nobody can say where the row behind an open quote begins.
            if trouble and (not self._skip or line.count(QUOTE) % 2):
                raise StreamError(f"{self.name}, line {number}{trouble}.")
            if trouble:
                skipped += 1
            else:
                sound.append(self._bare(line, kinds) if line else line)
        return NEWLINE.join(sound), skipped

    def _bare(self, line: bytes, kinds: Mapping[str, str]) -> bytes:
        """A sound line without blanks around truth values, and in place of what is missing.

        Of these pyarrow takes nothing else; around numbers it does.
        """
        fields = self._split(line)
        for name, kind in kinds.items():
            if kind != "text":
                fields[self._places[name]] = fields[self._places[name]].strip(BLANKS)
        bare = self._delimiter.join(_quoted(field, self._delimiter) for field in fields)
        return bare.encode() or b'""'  # nothing at all would be no row

    def _trouble(self, line: bytes, kinds: Mapping[str, str]) -> str | None:
        if broken := self._broken(line):
            return f": {broken}"
        if (count := self._fields(line)) != len(self._places):
            return f": {count} fields, expected {len(self._places)}"
        fields = self._split(line)
        for name, kind in kinds.items():
            value = fields[self._places[name]].strip(BLANKS)
            if not _fits(value, kind):
                hint = f' (kinds={{{name!r}: "text"}} takes the column as text)'
                return (
                    f", column {name!r}: expected a {kind}, found {value[:40]!r}"
                    f"{'' if kind == WEIGHT else hint}"
                )
        return None

    def _broken(self, line: bytes) -> str | None:
        """Why a line cannot be split into fields."""
        if b"\r" in line.rstrip(b"\r"):
            return "there is a carriage return in the line"
        if b"\0" in line:
            return "there is a zero byte in the line"
        try:
            text = line.rstrip(b"\r").decode()
        except UnicodeDecodeError:
            return "the line is not UTF-8"
        if not quotes_are_sound(line.rstrip(b"\r"), self._delimiter):
            if text.count('"') % 2:
                return "a quote is open at the end of the line"
            return "there is a quote that is not around a value"
        return None

    def _split(self, line: bytes) -> list[str]:
        line = line.rstrip(b"\r")
        if QUOTE not in line:
            return line.decode().split(self._delimiter)
        ends = [*self._between(line).tolist(), len(line)]
        begins = [0, *(end + 1 for end in ends)]
        return [
            _unquoted(line[begin:end].decode()) for begin, end in zip(begins, ends, strict=False)
        ]

    def _fields(self, line: bytes) -> int:
        """How many fields a line has."""
        if QUOTE not in line:
            return line.count(self._delimiter.encode()) + 1
        return self._between(line).size + 1

    def _between(self, line: bytes) -> np.ndarray:
        """Where the delimiters are that are not inside of quotes."""
        letters = np.frombuffer(line, np.uint8)
        is_inside = np.logical_xor.accumulate(letters == ord(QUOTE))
        return np.flatnonzero((letters == ord(self._delimiter)) & ~is_inside)

    def identity(self) -> str:
        if not isinstance(self._file, Path):
            first = self._begun[0].text if self._begun else b""
            return identity_of_file(io.BytesIO(first), len(first))
        with open(self._file, "rb") as file:
            return identity_of_file(file, os.stat(self._file).st_size)


def _quoted(field: str, delimiter: str) -> str:
    doubled = field.replace('"', '""')
    return f'"{doubled}"' if '"' in field or delimiter in field else field


def _unquoted(field: str) -> str:
    return field[1:-1].replace('""', '"') if field.startswith('"') else field


def kind_of_values(values: Sequence[str]) -> str:
    """What kind a column with these values is."""
    present = [value for value in map(str.strip, values) if value not in MISSING]
    if present and all(value in TRUE or value in FALSE for value in present):
        return "boolean"
    numbers = sum(NUMBER.fullmatch(value) is not None for value in present)
    return "number" if numbers >= ENOUGH_NUMBERS * len(present) else "text"


def quotes_are_sound(text: bytes, delimiter: str) -> bool:
    """Do quotes stand only around values, and doubled inside of them?"""
    if QUOTE not in text:
        return True
    letters = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(letters == ord(QUOTE))
    if quotes.size % 2:
        return False
    at_edge = np.zeros(256, bool)
    at_edge[[ord(QUOTE), ord(NEWLINE), ord(delimiter)]] = True
    opening, closing = quotes[::2], quotes[1::2]
    before = at_edge[letters[opening - 1]] | (opening == 0)
    behind = at_edge[letters[np.minimum(closing + 1, letters.size - 1)]]
    return bool(before.all() and behind.all())


def _fits(value: str, kind: str) -> bool:
    if kind == "text" or value in MISSING:
        return True
    if kind == "boolean":
        return value in TRUE or value in FALSE
    return NUMBER.fullmatch(value) is not None


def _delimiter_of(line: bytes) -> str:
    return max(DELIMITERS, key=lambda delimiter: line.count(delimiter.encode()))


def _count_of_rows(text: bytes) -> int:
    """Lines that are not empty; the last may have no newline."""
    ends = np.frombuffer(NEWLINE + text + NEWLINE, np.uint8) == ord(NEWLINE)
    return int(np.count_nonzero(ends[1:] & ~ends[:-1]))
