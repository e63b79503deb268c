"""Random tables as Python's csv writes them: what we read must be what Python's csv reads.

python tests/campaigns/csvtables.py 20000 1
"""

from __future__ import annotations

import csv
import io
import random
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from maxmargin.streams import START, Position, StreamError
from maxmargin.streams.csv_text import CsvReader
from maxmargin.streams.spellings import MISSING

PARTS = ("a", "b c", "\n", "\r\n", "\r", '"', '""', ",", ";", "\t", "|", " ", "é", "NA", "?", "0")
WIDE = ("漢", "\N{GRINNING FACE}", "\u2028", "\x85")
NUMBERS = ("0", "1", "-2.5", "1e3", ".5", "7.", "+4", "4.9e-324", *MISSING)


class Table(NamedTuple):
    """A file, how to read it, and what must be read."""

    content: bytes
    options: dict[str, Any]
    kinds: dict[str, str]
    rows: list[list[Any]]
    ragged: tuple[int, int] | None  # the line where such a row begins, and its fields


def fuzz_tables(count: int, seed: int, folder: Path) -> int:
    """Read ``count`` tables, of which an assertion names a wrong one; how many were ragged."""
    chance = random.Random(seed)
    ragged = 0
    for number in range(count):
        table = random_table(chance)
        ragged += table.ragged is not None
        path = folder / "table.csv"
        path.write_bytes(table.content)
        block_size = chance.choice((chance.randint(1, 60), chance.randint(1, 1000)))
        try:
            check(table, path, block_size)
            if chance.random() < 0.2:
                check(table, io.BytesIO(table.content), block_size)
        except Exception as error:
            told = f"table {number} of seed {seed}, blocks of {block_size}: {table}"
            raise AssertionError(told) from error
    return ragged


def random_table(chance: random.Random) -> Table:
    delimiter, end = chance.choice(",;\t|"), chance.choice(("\n", "\r\n"))
    encoding = chance.choice(("utf-8", "utf-8", "utf-8-sig", "latin-1"))
    width, has_header = chance.randint(1, 4), chance.random() < 0.7
    parts = (*PARTS, *(WIDE if encoding != "latin-1" else ()))
    names = [f"{place}{chance.choice(parts)}n".strip() for place in range(width)]
    header = [names] if has_header else []
    rows = [
        [chance.choice(NUMBERS), *(_text(chance, parts) for _ in names[1:])]
        for _ in range(chance.choice((1, 2, 2, 3, 3, 3, 4, 12)))
    ]
    bad = chance.randrange(len(rows)) if chance.random() < 0.2 and len(rows) > 1 else 0
    if bad and chance.random() < 0.5 and width > 1:
        rows[bad].pop()
    elif bad:
        rows[bad].append(_text(chance, parts))
    text, ragged = io.StringIO(), None
    quoting = chance.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    if end == "\n":  # then Python does not quote carriage returns
        quoting = csv.QUOTE_ALL
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting)
    for row in header + rows:
        if bad and row is rows[bad]:
            ragged = (text.getvalue().count("\n") + 1, len(row))
        writer.writerow(row)
        if chance.random() < 0.1:
            text.write(end)
    written = text.getvalue()
    if chance.random() < 0.3:
        written = written.removesuffix(end)
    read = [row for row in _read(written, delimiter) if row][has_header:]
    names = names if has_header else [str(place) for place in range(width)]
    kinds = {name: "text" if place else "number" for place, name in enumerate(names)}
    expected = [
        [None if row[0] in MISSING else float(row[0]), *row[1:]]
        for row in read
        if len(row) == width
    ]
    options = {"header": has_header, "delimiter": delimiter}
    options["encoding"] = "latin-1" if encoding == "latin-1" else "utf-8"
    return Table(written.encode(encoding), options, kinds, expected, ragged)


def _text(chance: random.Random, parts: tuple[str, ...]) -> str:
    return "".join(chance.choices(parts, k=chance.choice((0, 1, 1, 2, 3, 8))))


def _read(text: str, delimiter: str) -> Any:
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)


def check(table: Table, file: Any, block_size: int) -> None:
    def reader(skip: bool) -> CsvReader:
        if isinstance(file, io.BytesIO):
            file.seek(0)
        return CsvReader(file, skip=skip, block_size=block_size, **table.options)

    if table.ragged is not None:
        line, fields = table.ragged
        told = f"line {line}: {fields} fields, expected {len(table.kinds)}"
        with pytest.raises(StreamError, match=f", {told}"):
            read_all(reader(skip=False), table.kinds)
    source = reader(skip=table.ragged is not None)
    rows, skipped = read_all(source, table.kinds)
    assert rows == table.rows, rows
    assert skipped == (table.ragged is not None)
    if source.repeatable:
        pieces = list(source.pieces(START, table.kinds))
        assert [piece.last_line for piece in pieces[:-1]] == [p.first_line for p in pieces[1:]]
        for at, piece in enumerate(pieces, 1):
            rest = source.pieces(Position(piece.end, 0, piece.last_line), table.kinds)
            # Of the bytes read from the disk, some may be those of the next piece.
            assert [p._replace(done=0) for p in rest] == [p._replace(done=0) for p in pieces[at:]]


def read_all(reader: CsvReader, kinds: dict[str, str]) -> tuple[list[list[Any]], int]:
    rows, skipped = list[list[Any]](), 0
    for raw in reader.pieces(START, kinds):
        piece = reader.read(raw, kinds)
        if piece.error is not None:
            raise piece.error
        columns = [piece.table[name].to_pylist() for name in kinds]
        values = zip(*columns, strict=True)
        rows += [[None if value != value else value for value in row] for row in values]
        skipped += len(piece.lost)
    return rows, skipped


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(fuzz_tables(int(sys.argv[1]), int(sys.argv[2]), Path(folder)), "were ragged")
