"""Small files that stand for endless lines are refused, with file and line, in little memory."""

import gzip
import json
import lzma
import os
import random
import subprocess
import sys
from functools import partial

import pytest
from extent import everything_or

from maxmargin import load, streams
from maxmargin.persistence import ModelFileError, describe, read_file
from maxmargin.streams import csv_text

pytest.importorskip("pyarrow")
zstandard = pytest.importorskip("zstandard")

OPENERS = {
    "gz": partial(gzip.open, mode="wb", compresslevel=1),
    "xz": partial(lzma.open, mode="wb", preset=0),
    "zst": partial(zstandard.open, mode="wb"),
}
# What lines without end are made of.
UNITS = {
    "csv": (b"a", b",", b'""', b'"",', b"1,", b"a,b;", b"\0", b"\r", b"\xff", b" "),
    "svm": (b"1", b"1 ", b":", b"1:1 ", b":1 ", b" ", b"#", b"\0", b"\r", b"0"),
}
HEADS = {"csv": (b"", b"a,y\n", b"a,y\n1,2\n", b"a,y\n1,2\n" * 2), "svm": (b"", b"1 1:1\n-1 1:2\n")}
MEGABYTE = 2**20
ENDLESS = 150 * MEGABYTE
# Several copies of the longest line, and what its fields take: far less than the text.
LARGEST_GROWTH = 350 * MEGABYTE

READ_ALL = """
import json, os, resource, sys
from maxmargin import streams


def read(path, **options):
    try:
        for block in streams.open(path, **options).blocks():
            pass
    except streams.StreamError as error:
        return str(error)


def largest():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


sound, *paths = sys.argv[1:]
read(sound)
for path in paths:
    if os.fork() == 0:  # each file in a process of its own
        before = largest()
        message = read(path, on_error="skip" if len(path) % 2 else "raise")
        print(json.dumps([path, message, largest() - before]), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
"""


def written(folder, seed):
    """A file of a text without end, and the number of its line."""
    chance = random.Random(seed)
    kind = chance.choice(sorted(UNITS))
    head, unit = chance.choice(HEADS[kind]), chance.choice(UNITS[kind])
    suffix = chance.choice(sorted(OPENERS))
    path = folder / f"{seed}.{kind}.{suffix}"
    with OPENERS[suffix](path) as file:
        file.write(head)
        for _ in range(ENDLESS // MEGABYTE):
            file.write(unit * (MEGABYTE // len(unit)))
    assert path.stat().st_size < MEGABYTE
    return path, 1 + head.count(b"\n")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no module resource")
def test_lines_without_end(tmp_path):
    sound = tmp_path / "sound.csv"
    sound.write_text("a,y\n1,2\n3,4\n")
    files = dict(written(tmp_path, seed) for seed in everything_or(range(5), range(12)))
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, sound, *files], capture_output=True, text=True, check=True
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == len(files)
    lines = {str(path): line for path, line in files.items()}
    for path, message, growth in told:
        assert message.startswith(f"{path}, line {lines[path]}: longer than "), message
        assert growth < LARGEST_GROWTH, path


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("block_size", [100, 2**22])
def test_limits_of_csv(header, block_size, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_text, "LONGEST_HEADER", 1_000)
    monkeypatch.setattr(csv_text, "LONGEST_ROW", 2_000)
    path = tmp_path / "wide.csv"

    def trouble(text):
        path.write_bytes(text)
        with pytest.raises(streams.StreamError) as caught:
            list(streams.open(path, header=header, label=0, block_size=block_size).blocks())
        return str(caught.value)

    assert trouble(b"a" * 1_500 + b",y\n1,2\n") == f"{path}, line 1: longer than 1,000 bytes."
    if block_size < 2_000:
        long = b"1,2\n" * 3 + b'"' + b"a" * 3_000 + b'",2\n'
        assert trouble(long) == f"{path}, line 4: longer than 2,000 bytes."
    monkeypatch.setattr(csv_text, "MOST_COLUMNS", 10)
    assert trouble(b",".join(b"%d" % n for n in range(11)) + b"\n").startswith(
        f"{path}, line 1: 11 columns, and CSV may have 10; "
    )


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
def test_models_are_not_read_from_pipes_and_devices(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        for read in (load, describe, lambda path: read_file(path, "checkpoint")):
            with pytest.raises(ModelFileError, match=f"{path}: not a plain file"):
                read(path)
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
