"""A file that changes while it is read is an error: versions of it are never mixed."""

import os
import sys

import numpy as np
import pytest
from streamed import saved_bytes
from streams.versions import CHANGED, CHANGES, FORMATS, opened, read, rewrite, rows_of, write

import maxmargin
from maxmargin import AMIRA, streams
from maxmargin.cli import main
from maxmargin.cli.counted import Counted
from maxmargin.evaluate import progressive
from maxmargin.streams.tables import TableSource


class Changing(Counted):
    """A source during whose first, second, ... block something happens."""

    def __init__(self, source, at, happens):
        super().__init__(source)
        self.at, self.happens = at, happens

    def blocks(self, start=0):
        for k, block in enumerate(super().blocks(start)):
            if k == self.at:
                self.happens()
            yield block


@pytest.mark.parametrize("moment", ["before", "during", "between"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", FORMATS)
def test_local_files(name, change, moment, tmp_path):
    path = write(tmp_path / name, 0)
    source = opened(path)
    if moment == "before":
        change(path)
    elif moment == "between":
        np.testing.assert_array_equal(read(source), rows_of(0))
        change(path)
    else:
        source = Changing(source, 1, lambda: change(path))
    with pytest.raises(streams.StreamError, match=f"{path} {CHANGED}"):
        read(source)


def test_a_file_of_a_folder(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for k in range(3):
        write(folder / f"{k}.parquet", k)
    source = opened(folder)
    read(source)
    rewrite(folder / "2.parquet")
    with pytest.raises(streams.StreamError, match=f"2.parquet {CHANGED}"):
        read(source)


def test_the_message(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,label\n" + b"1,2\n" * 28)
    source = streams.open(path)
    os.truncate(path, 90)
    with pytest.raises(streams.StreamError) as raised:
        source.survey()
    assert str(raised.value) == (
        f"{path} changed while it was being read (its size was 120 bytes and is now 90). Read it "
        "again from the start, or copy it first."
    )


def test_labels_and_weights_of_an_array(tmp_path):
    X = rows_of(0)[:, :-1].astype(float)
    for name, array in (("X", X), ("y", rows_of(0)[:, -1]), ("w", np.ones(len(X)))):
        np.save(tmp_path / f"{name}.npy", array)
    for changed in ("y.npy", "w.npy"):
        y, weight = tmp_path / "y.npy", tmp_path / "w.npy"
        source = streams.open(tmp_path / "X.npy", y=y, weight=weight)
        os.utime(tmp_path / changed, ns=(2 * 10**18, 2 * 10**18))
        with pytest.raises(streams.StreamError, match=f"{changed} {CHANGED}"):
            read(source)


@pytest.mark.parametrize("name", FORMATS)
def test_a_learner_and_its_checkpoint_hold_rows_of_one_version(name, tmp_path):
    path, checkpoint = write(tmp_path / name, 0), tmp_path / "checkpoint"
    clf = AMIRA().fit_stream(opened(path), passes=2)
    expected = saved_bytes(clf, tmp_path)
    for learner, kept in ((clf, None), (AMIRA(), checkpoint)):
        source = Changing(opened(write(path, 0)), 3, lambda: write(path, 1))
        with pytest.raises(streams.StreamError, match=CHANGED):
            learner.fit_stream(source, passes=2, checkpoint=kept, every=1)
    assert saved_bytes(clf, tmp_path) == expected
    with pytest.raises(ValueError, match="The checkpoint is one of another source"):
        AMIRA().fit_stream(opened(path), passes=2, checkpoint=checkpoint)
    write(path, 0)
    clf = AMIRA().fit_stream(opened(path), passes=2, checkpoint=checkpoint)
    assert saved_bytes(clf, tmp_path) == expected


def test_progressive(tmp_path):
    path = write(tmp_path / "rows.csv", 0)
    source = Changing(opened(path), 2, lambda: rewrite(path))
    with pytest.raises(streams.StreamError, match=CHANGED):
        progressive(AMIRA(), source)


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_commands(command, tmp_path, monkeypatch, capsys):
    path = write(tmp_path / "rows.csv", 0)
    real = TableSource.blocks
    maxmargin.save(AMIRA().fit_stream(path), tmp_path / "model")

    def blocks(self, start=0):
        for block in real(self, start):
            rewrite(path)
            yield block

    monkeypatch.setattr(TableSource, "blocks", blocks)
    monkeypatch.setattr(sys, "argv", ["maxmargin", command, str(tmp_path / "model"), str(path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code != 0
    assert CHANGED in " ".join(capsys.readouterr().err.split())


def test_memory_of_fsspec():
    files = pytest.importorskip("fsspec").filesystem("memory")
    files.pipe_file("/rows.csv", FORMATS["rows.csv"](0))
    try:
        source = opened("memory://rows.csv")
        np.testing.assert_array_equal(read(source), rows_of(0))
        files.pipe_file("/rows.csv", FORMATS["rows.csv"](1))
        with pytest.raises(streams.StreamError, match=CHANGED):
            read(source)
    finally:
        files.rm("/rows.csv")
