"""Mutated svmlight texts, read by the reader and by a slow one that anybody can check."""

import io
import math
import random
from typing import NamedTuple

import numpy as np

from maxmargin import streams
from maxmargin.streams.files import OPENERS

LARGEST_COLUMN = 2**31 - 2

TOKENS = [
    *(b"\n", b"\r\n", b"\r", b" ", b"\t", b"  ", b"#", b":", b"::", b"qid:3", b" qid:", b"\x00"),
    *(b":2", b":-1", b":-0", b":0.5", b":1e999", b":-1e-999", b":4.9e-324", b"\n1:3", b"\n:1"),
    *(b"+1", b"-1", b"0", b"-0", b"1e5", b"e", b"E-", b".", b"..", b"-", b"+", b"_", b"\x0b"),
    *(b"\x0c", b"nan", b"inf", b"-inf", b"0x1p3", b"1e999", b"1e-999", b"1_000", b"\xff"),
    *(b"\xc3\xa9", b"\xa0", b" 0:1", b" 1:1", b" 7:", b" :7", b" 3:4:5", b" 2147483646:1"),
    *(b" 2147483647:1", b" 4294967297:1", b" 18446744073709551617:2", b"9007199254740993"),
    *(b"2.2250738585072011e-308", b"4.9e-324", b"1.7976931348623158e308"),
    *(b"1.797693134862315807937289714053103e308", b"1.79769313486231580e308"),
    *(b"0.500000000000000166533453693773481063544750213623046875", b"00000000000000000000000001"),
    *(b"123456789012345678901234567890", b".000000000000000000000000000000001", b"\n\n", b" # x\n"),
]


class Malformed(Exception):
    """A line that cannot be read."""


class Report(NamedTuple):
    """What was read: files, rows in them, lines that cannot be read, and files refused."""

    files: int
    rows: int
    bad_lines: int
    refused: int


def slow_number(token):
    if not token or set(token) - set(b"0123456789+-.eE"):
        raise Malformed
    try:
        number = float(token)
    except ValueError:
        raise Malformed from None
    if math.isinf(number):
        raise Malformed
    return number


def slow_line(line, first_column):
    """Label, weight, columns and values of a line; None if there is nothing in it."""
    tokens = line.split(b"#")[0].replace(b"\t", b" ").replace(b"\r", b" ").split(b" ")
    tokens = [token for token in tokens if token]
    if not tokens:
        return None
    label, colon, weight = tokens[0].partition(b":")
    label, entries = slow_number(label), tokens[1:]
    if weight.startswith(b"-"):
        raise Malformed
    weight = slow_number(weight) if colon else None
    if entries and entries[0].startswith(b"qid:") and entries[0][4:].isdigit():
        entries = entries[1:]
    columns, values = [], []
    for entry in entries:
        column, colon, value = entry.partition(b":")
        if not colon or not column.isdigit() or not first_column <= int(column) <= LARGEST_COLUMN:
            raise Malformed
        if columns and int(column) <= columns[-1]:
            raise Malformed
        columns.append(int(column))
        values.append(slow_number(value))
    return label, weight, columns, values


def slow_lines(text, first_column):
    """The rows of a text, and the numbers of the lines that cannot be read."""
    rows, bad = [], []
    for number, line in enumerate(text.split(b"\n"), start=1):
        try:
            row = slow_line(line, first_column)
        except Malformed:
            bad.append(number)
        else:
            rows += [] if row is None else [row]
    return rows, bad


def slow_read(text, zero_based):
    """Labels, weights, row sizes, columns from 0, values; and the lines that cannot be read."""
    rows, bad = slow_lines(text, 1 if zero_based is False else 0)
    if zero_based == "auto":
        zero_based = any(columns and columns[0] == 0 for _, _, columns, _ in rows)
    shift = 0 if zero_based else 1
    labels = [label for label, _, _, _ in rows]
    weights = [1.0 if weight is None else weight for _, weight, _, _ in rows]
    sizes = [len(columns) for _, _, columns, _ in rows]
    columns = [column - shift for _, _, columns, _ in rows for column in columns]
    values = [value for _, _, _, values in rows for value in values]
    return (bits(labels), bits(weights), sizes, columns, bits(values)), bad


def bits(numbers):
    return np.array(numbers, dtype=np.float64).view(np.int64).tolist()


def read(source):
    """The same of a source."""
    labels, weights, sizes, columns, values = [], [], [], [], []
    for block in source.blocks():
        assert block.X.shape[0] == len(block.y)
        weights += bits(np.ones(len(block.y)) if block.weight is None else block.weight)
        assert block.X.indices.size == 0 or block.X.indices.max() < block.X.shape[1]
        labels += bits(block.y)
        sizes += np.diff(block.X.indptr).tolist()
        columns += block.X.indices.tolist()
        values += bits(block.X.data)
    return labels, weights, sizes, columns, values


def valid_text(rng):
    """A few lines that can be read."""
    lines, share_of_weights = [], rng.choice([0.0, 0.0, 0.3, 1.0])
    for _ in range(rng.randrange(1, 8)):
        columns = sorted(rng.sample(range(rng.randrange(2), 30), rng.randrange(6)))
        query = f"qid:{rng.randrange(9)} " if rng.random() < 0.1 else ""
        entries = " ".join(f"{column}:{a_number(rng)}" for column in columns)
        comment = " # note" if rng.random() < 0.1 else ""
        weight = f":{a_number(rng).lstrip('-')}" if rng.random() < share_of_weights else ""
        lines.append(f"{a_number(rng)}{weight} {query}{entries}{comment}")
    newline = rng.choice(["\n", "\n", "\r\n"])
    return (newline.join(lines) + rng.choice([newline, ""])).encode()


def a_number(rng):
    kind = rng.randrange(5)
    if kind == 0:
        return rng.choice(["1", "-1", "+1", "0"])
    if kind == 1:
        return repr(rng.gauss(0.0, 1.0))
    if kind == 2:
        return f"{rng.getrandbits(64)}e{rng.randrange(-345, 290)}"
    if kind == 3:
        return f"{rng.getrandbits(80)}.{rng.getrandbits(40)}"
    return f"{rng.uniform(-9, 9):.{rng.randrange(6)}f}"


def mutated(text, other, rng):
    """``text`` with one change."""
    at = rng.randrange(len(text) + 1)
    until = min(at + rng.randrange(1, 12), len(text))
    kind = rng.randrange(7)
    if kind == 0 and at < len(text):
        return text[:at] + bytes([text[at] ^ (1 << rng.randrange(8))]) + text[at + 1 :]
    if kind == 1:
        return text[:at] + text[until:]
    if kind == 2:
        return text[:at] + rng.choice(TOKENS) + text[at:]
    if kind == 3:
        return text[:at] + rng.choice(TOKENS) + text[until:]
    if kind == 4:
        return text[:at] + other[rng.randrange(len(other) + 1) :]
    if kind == 5:
        return text[:at] + text[at:until] * 2 + text[until:]
    return text[:at]


def check(text, zero_based, block_size):
    """Read a text both ways; number of rows, and of lines that cannot be read."""
    options = {"zero_based": zero_based, "block_size": block_size}
    expected, bad = slow_read(text, zero_based)
    source = streams.open(io.BytesIO(text), format="svmlight", on_error="skip", **options)
    assert (read(source), source.skipped) == (expected, len(bad)), (text, options)
    message, found = "", None
    try:
        found = read(streams.open(io.BytesIO(text), format="svmlight", **options))
    except streams.StreamError as error:
        message = str(error)
    if bad:
        assert f", line {bad[0]}, column " in message, (text, options, message)
    else:
        assert found == expected, (text, options, message)
    return len(expected[0]), len(bad)


def fuzz_svmlight(count, seed):
    """Read ``count`` mutated texts, and compare.

    Raises
    ------
    AssertionError
        With the text and the options that are read differently.
    """
    rng = random.Random(seed)
    files = rows = bad_lines = refused = 0
    other = valid_text(rng)
    while files < count:
        text = valid_text(rng)
        for _ in range(rng.randrange(5)):
            text = mutated(text, other, rng)
        if text.startswith(tuple(OPENERS)):  # it happens to look compressed
            continue
        # Only of what is in the first block is it known how columns are counted.
        zero_based = rng.choice([True, False, "auto"])
        whole = zero_based == "auto" or rng.random() < 0.5
        block_size = 2**21 if whole else rng.randrange(1, 100)
        some_rows, some_bad = check(text, zero_based, block_size)
        rows, bad_lines, refused = rows + some_rows, bad_lines + some_bad, refused + (some_bad > 0)
        files += 1
        other = text or other
    return Report(files, rows, bad_lines, refused)
