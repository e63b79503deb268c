"""Damaged CSV files: an error, or the numbers that Python's own csv and float give."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxmargin.streams import StreamError
from maxmargin.streams.column_kinds import LARGEST_NUMBER
from maxmargin.streams.csv_text import MISSING
from maxmargin.streams.tables import TableSource

NUMBERS = ("0", "1", "-2.5", "1e3", ".5", "7.", "+4", "123456789012345678901", "4.9e-324", "-0.0")
ODD_NUMBERS = ("", "NA", "nan", "inf", "1e999", "0x1F", "1_0", "--1", "1e", "1.2.3", " 3 ", "1\t")
TEXTS = ("a", "b", "c d", '"x,y"', '"say ""no"""', "", "é", "NA")
SPECIALS = (b",", b'"', b"\n", b"\r", b"\r\n", b";", b"\x00", b"\xff", b" ", b"e", b"-", b"9", b"")
NAMES = ("u", "v", "city", "flag", "y")


class Outcome(NamedTuple):
    """How many files were refused, and how many read."""

    refused: int
    read: int


def fuzz_csv(count: int, seed: int, folder: Path) -> Outcome:
    """Read ``count`` damaged files; an assertion fails for one that is read wrongly."""
    chance = random.Random(seed)
    refused = 0
    for number in range(count):
        text = damaged(chance, sound_text(chance))
        options: dict[str, Any] = {
            "header": True,
            "on_error": chance.choice(("raise", "skip")),
            "block_size": chance.choice((1, 30, 200, 10_000)),
        }
        if chance.random() < 0.5:
            options["kinds"] = {"u": "number", "v": "number", "city": "text"}
        source: Any = io.BufferedReader(io.BytesIO(text))
        if chance.random() < 0.5:
            source = folder / "damaged.csv"
            source.write_bytes(text)
        try:
            check(text, source, options)
        except StreamError:
            refused += 1
        except Exception as error:
            raise AssertionError(
                f"file {number} of seed {seed}: {text!r} with {options}"
            ) from error
    return Outcome(refused, count - refused)


def sound_text(chance: random.Random) -> bytes:
    lines = [",".join(NAMES)]
    for _ in range(chance.randint(1, chance.choice((12, 60)))):
        number = NUMBERS if chance.random() < 0.9 else ODD_NUMBERS
        fields = (chance.choice(number), chance.choice(NUMBERS), chance.choice(TEXTS))
        lines.append(
            ",".join((*fields, chance.choice(("true", "False")), chance.choice(("1", "-1"))))
        )
    end = chance.choice(("\n", "\r\n"))
    return (end.join(lines) + chance.choice(("", end))).encode()


def damaged(chance: random.Random, text: bytes) -> bytes:
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        at = chance.randrange(len(text) + 1)
        end = min(len(text), at + chance.choice((0, 0, 1, 1, 3, 20)))
        text = text[:at] + chance.choice(SPECIALS) + text[end:]
    return text


def check(text: bytes, file: Any, options: dict[str, Any]) -> None:
    source = TableSource(file, "csv", label="y", delimiter=",", **options)
    schema = source.schema()
    blocks = list(source.blocks())
    given = [
        (row, label)
        for block in blocks
        for row, label in zip(_dense(block.X), block.y.tolist(), strict=True)
    ]
    if options["on_error"] == "raise":
        rows = [
            line for line in csv.reader(io.StringIO(text.decode("utf-8-sig"), newline="")) if line
        ]
        names = [name.strip() for name in rows[0]]
        assert given == [expected(dict(zip(names, row, strict=True)), schema) for row in rows[1:]]
        return
    header, *rows = rows_of(text.removeprefix(b"\xef\xbb\xbf"))
    names = [name.strip() for name in next(csv.reader(io.StringIO(header.decode(), newline="")))]
    # Zero bytes and quotes in odd places may be refused; all else that Python reads must be read.
    possible = [
        (read_row(row, names, schema), b'"' not in row and b"\0" not in row) for row in rows
    ]
    assert len(given) + source.skipped == len(rows)
    rest = iter(given)
    row = next(rest, None)
    for known, must in possible:
        if known is not None and known == row:
            row = next(rest, None)
        else:
            assert known is None or not must, known
    assert row is None, row


def rows_of(text: bytes) -> list[bytes]:
    """Rows that are not empty, without what ends them: letter by letter, as the format says."""
    rows, row, state = list[bytes](), bytearray(), "start of a field"
    for letter in map("{:c}".format, text):
        if state == "quoted":
            state = "quote" if letter == '"' else "quoted"
        elif state == "quote" and letter == '"':
            state = "quoted"
        elif letter == "\n":
            rows.append(bytes(row.rstrip(b"\r")))
            row, state = bytearray(), "start of a field"
            continue
        elif letter == ",":
            state = "start of a field"
        else:
            state = "quoted" if (state, letter) == ("start of a field", '"') else "plain"
        row += letter.encode("latin-1")
    rows.append(bytes(row.rstrip(b"\r")))
    return [row for row in rows if row]


def read_row(row: bytes, names: list[str], schema: dict[str, Any]) -> Any:
    """The values of a row, None if Python cannot read it."""
    try:
        (fields,) = csv.reader(io.StringIO(row.decode(), newline=""), strict=True)
        return expected(dict(zip(names, fields, strict=True)), schema)
    except (ValueError, csv.Error):
        return None


def expected(fields: dict[str, str], schema: dict[str, Any]) -> tuple[list[float], Any]:
    kinds = {name: schema["kinds"][name] for name in schema["columns"]}
    row = [float(value_of(fields[name], kind)) for name, kind in kinds.items() if kind != "text"]
    values = list[float]()
    for name in (name for name, kind in kinds.items() if kind == "text"):
        word, known = fields[name].strip(), schema["vocabulary"][name]
        is_missing = word in MISSING
        row += [float(is_missing), float(not is_missing and word not in known)]
        values += [float(word == value) for value in known]
    return row + values, value_of(fields["y"], schema["kinds"]["y"])


def value_of(text: str, kind: str) -> Any:
    if kind == "text":
        if not text:
            raise ValueError
        return text
    if kind == "boolean":
        return ("false", "true").index(text.strip().lower()) == 1
    value = float(text)
    # Python reads 1_0 as 10, which is no number in any other program.
    if not abs(value) <= LARGEST_NUMBER or "_" in text:
        raise ValueError
    return value


def _dense(X: Any) -> list[list[float]]:
    return (X if isinstance(X, np.ndarray) else X.toarray()).tolist()
