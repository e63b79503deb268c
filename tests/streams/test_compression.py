"""Compressed text and pipes give what plain files give."""

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from extent import everything_or
from streams.rows import assert_same, everything, read

from maxmargin import streams

pa = pytest.importorskip("pyarrow")


def zstd(content):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as file:
        file.write(content)
    return sink.getvalue().to_pybytes()


COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstd,
}


def some_text(rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    lines = []
    for label in rng.choice([-1, 1], rows):
        columns = np.sort(rng.choice(50, 4, replace=False)) + 1
        entries = zip(columns, rng.standard_normal(4), strict=True)
        lines.append(
            f"{label} " + " ".join(f"{c}:{v!r}" for c, v in ((c, float(v)) for c, v in entries))
        )
    return ("\n".join(lines) + "\n").encode()


TEXT = some_text()


@contextmanager
def a_pipe(*pieces):
    """The reading end of a pipe into which pieces are written, one after another."""
    begin, end = os.pipe()

    def write():
        with os.fdopen(end, "wb", buffering=0) as file:
            for piece in pieces:
                file.write(piece)

    writer = threading.Thread(target=write)
    writer.start()
    with os.fdopen(begin, "rb") as file:
        yield file
    writer.join()


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("block_size", [1000, 2**21])
def test_same_as_plain(tmp_path, kind, block_size):
    path = tmp_path / f"some.txt.{kind}"
    path.write_bytes(COMPRESS[kind](TEXT))
    source = streams.open(path, block_size=block_size)
    blocks = list(source.blocks())
    assert_same(everything(blocks), read(TEXT))
    assert blocks[-1].done == source.total == path.stat().st_size
    assert [block.done for block in blocks] == sorted(block.done for block in blocks)


@pytest.mark.parametrize("kind", COMPRESS)
def test_several_streams_in_one_file(tmp_path, kind):
    path = tmp_path / "some.txt"  # known by its content, not by its name
    path.write_bytes(
        COMPRESS[kind](TEXT[:1234]) + COMPRESS[kind](b"") + COMPRESS[kind](TEXT[1234:])
    )
    assert_same(everything(streams.open(path).blocks()), read(TEXT))


@pytest.mark.parametrize("kind", COMPRESS)
def test_taken_up_again(tmp_path, kind):
    path = tmp_path / "some.txt"
    path.write_bytes(COMPRESS[kind](TEXT))
    blocks = list(streams.open(path, block_size=50_000).blocks())
    assert len(blocks) > 3
    for number in (0, 1, len(blocks) - 1):
        rest = streams.open(path, block_size=50_000).blocks(blocks[number].end)
        assert_same(everything(rest), everything(blocks[number + 1 :]))


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
def test_cut_short(tmp_path, kind, share):
    compressed = COMPRESS[kind](TEXT)
    path = tmp_path / "cut.txt"
    path.write_bytes(compressed[: min(max(int(share * len(compressed)), 7), len(compressed) - 1)])
    with pytest.raises(streams.StreamError, match=r"cut\.txt: damaged: "):
        list(streams.open(path, block_size=1000).blocks())
    with pytest.raises(streams.StreamError, match=r"cut\.txt: damaged: "):
        list(streams.open(path, block_size=1000, on_error="skip").blocks())


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])  # which have checksums
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_damaged(tmp_path, kind, share):
    compressed = bytearray(COMPRESS[kind](TEXT))
    compressed[int(share * len(compressed))] ^= 0x55
    path = tmp_path / "damaged.txt"
    path.write_bytes(compressed)
    with pytest.raises(streams.StreamError, match=r"damaged.txt: damaged: "):
        list(streams.open(path).blocks())


def test_zstd_needs_a_package(tmp_path, monkeypatch):
    path = tmp_path / "some.txt.zst"
    path.write_bytes(COMPRESS["zst"](TEXT))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(streams.StreamError, match="zstd need pyarrow"):
        list(streams.open(path).blocks())


@pytest.mark.parametrize("kind", [None, *COMPRESS])
@pytest.mark.parametrize("first", [1, 3, 1000])
def test_pipes(kind, first):
    content = COMPRESS[kind](TEXT) if kind else TEXT
    with a_pipe(content[:first], content[first:]) as file:
        source = streams.open(file, block_size=20_000)
        assert source.name == "<pipe>"
        assert not source.repeatable
        blocks = list(source.blocks())
    assert_same(everything(blocks), read(TEXT))


def test_of_a_pipe_the_first_block_is_looked_at():
    with a_pipe(b"1 1:1\n2 2:1\n", b"3 9:1\n", b"4 3:1\n") as file:
        source = streams.open(file, block_size=12)
        survey = source.survey()
        assert survey.classes.tolist() == [1, 2]
        assert (survey.width, survey.rows) == (2, None)
        blocks = list(source.blocks())
    assert [block.X.shape for block in blocks] == [(2, 2), (2, 9)]
    assert np.concatenate([block.y for block in blocks]).tolist() == [1, 2, 3, 4]
    assert source.schema()["least_width"] == 9


def test_later_rows_of_a_pipe_are_not_narrower():
    source = streams.open(io.BytesIO(b"1 1:1\n1 9:1\n1 2:1\n"), block_size=1)
    assert [block.X.shape for block in source.blocks()] == [(1, 1), (1, 9), (1, 9)]


def test_a_last_line_without_newline_is_looked_at():
    with a_pipe(b"1 1:1\n-1 2:1") as file:
        survey = streams.open(file).survey()
    assert survey.classes.tolist() == [-1, 1]
    assert survey.width == 2


def test_a_column_0_that_comes_late():
    source = streams.open(io.BytesIO(b"1 1:1\n1 0:1\n"), block_size=1)
    with pytest.raises(streams.StreamError, match="line 2, column 3: there is a column 0"):
        list(source.blocks())


def test_more_columns_than_n_features_in_a_pipe():
    source = streams.open(io.BytesIO(b"1 1:1\n1 9:1\n"), block_size=1, n_features=5)
    with pytest.raises(streams.StreamError, match=r"there is a column 9, more than n_features=5"):
        list(source.blocks())


def test_a_pipe_is_read_once():
    source = streams.open(io.BytesIO(TEXT), block_size=1000)
    assert everything(source.blocks())[1].size == 3000
    with pytest.raises(streams.StreamError, match="can be read only once"):
        list(source.blocks())


def test_a_pipe_taken_up_by_another_reader():
    blocks = list(streams.open(io.BytesIO(TEXT), block_size=50_000).blocks())
    for surveyed in (False, True):
        with a_pipe(TEXT) as file:
            source = streams.open(file, block_size=50_000)
            if surveyed:
                source.survey()
            rest = list(source.blocks(blocks[1].end))
        assert [block.end for block in rest] == [block.end for block in blocks[2:]]
        assert_same(everything(rest), everything(blocks[2:]))


def test_pipes_are_known_by_their_beginning():
    identities = [streams.open(io.BytesIO(text)).identity() for text in (TEXT, TEXT, TEXT[:-9])]
    assert identities[0] == identities[1] != identities[2]
    source = streams.open(io.BytesIO(TEXT))
    source.identity()
    assert everything(source.blocks())[1].size == 3000


SCRIPT = """
import sys
from maxmargin import streams
rows = total = 0
for block in streams.open("-", block_size=10_000).blocks():
    rows, total = rows + len(block.y), total + block.X.sum()
print(rows, repr(float(total)))
"""


@pytest.mark.parametrize("kind", everything_or(["gz"], [None, "gz"]))
def test_standard_input_of_another_process(kind):
    text = b"".join(b"1 %d:%d\n" % (row % 7 + 1, row) for row in range(20_000))
    content = COMPRESS[kind](text) if kind else text
    command = [sys.executable, "-c", SCRIPT]
    ran = subprocess.run(command, input=content, capture_output=True, check=True, timeout=120)
    assert ran.stdout.split() == [b"20000", repr(float(sum(range(20_000)))).encode()]


def test_an_error_in_standard_input_names_it():
    command = [sys.executable, "-c", SCRIPT]
    ran = subprocess.run(command, input=b"1 1:1\nx\n", capture_output=True, timeout=120)
    assert ran.returncode == 1
    assert b"StreamError: <stdin>, line 2, column 1: expected a label" in ran.stderr
