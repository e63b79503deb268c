"""Checkpoints under faults: torn files, full disks, killed processes, two at a time."""

import errno
import os
import subprocess
import sys

import numpy as np
import pytest
from streamed import (
    PASSES,
    Breaking,
    opened,
    resumed,
    saved_bytes,
    stopped,
)

from maxmargin import (
    AMIRA,
    PUMMA,
)
from maxmargin.persistence import ModelFileError, container
from maxmargin.persistence.checkpoints import CheckpointFile
from maxmargin.training.stream_run import RunProgress


def torn_in_many_ways(whole):
    """Truncated, or with zeros at the end."""
    for at in np.linspace(0, len(whole) - 1, 12).astype(int):
        yield whole[:at]
        yield whole[:at] + bytes(len(whole) - at) if any(whole[at:]) else whole[:at]


def test_a_torn_checkpoint_is_an_error(data, tmp_path):
    checkpoint = tmp_path / "c"
    stopped(AMIRA(), opened(data), 6, checkpoint)
    for torn in torn_in_many_ways(checkpoint.read_bytes()):
        checkpoint.write_bytes(torn)
        with pytest.raises(ModelFileError, match=r"c: .*Delete it, or use another file, to begin"):
            resumed(AMIRA(), opened(data), checkpoint)
        assert checkpoint.read_bytes() == torn
    checkpoint.unlink()
    expected = saved_bytes(AMIRA().fit_stream(opened(data), passes=PASSES), tmp_path)
    assert saved_bytes(resumed(AMIRA(), opened(data), checkpoint), tmp_path) == expected


def test_lack_of_memory_is_not_damage(data, tmp_path, monkeypatch):
    """The checkpoint is valid, so the error does not advise to start again."""
    checkpoint = tmp_path / "c"
    stopped(AMIRA(), opened(data), 6, checkpoint)
    before = checkpoint.read_bytes()

    def out_of_memory(*_, **__):
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(container.StoredArray, "__array__", out_of_memory)
        with pytest.raises(MemoryError, match="no room"):
            resumed(AMIRA(), opened(data), checkpoint)
    assert checkpoint.read_bytes() == before
    expected = saved_bytes(AMIRA().fit_stream(opened(data), passes=PASSES), tmp_path)
    assert saved_bytes(resumed(AMIRA(), opened(data), checkpoint), tmp_path) == expected


def test_a_deleted_checkpoint_is_begun_anew(data, tmp_path):
    """Also by another learner."""
    stopped(AMIRA(), opened(data), 6, tmp_path / "c")
    (tmp_path / "c").unlink()
    resumed(PUMMA(), opened(data), tmp_path / "c")


class Killed(BaseException):
    """What the process would not have survived."""


@pytest.mark.parametrize("at", range(6))
def test_killed_while_writing(at, data, tmp_path, monkeypatch):
    """At the n-th operation on files: nothing after it happens, not even tidying up."""
    checkpoint = tmp_path / "c"
    expected = saved_bytes(AMIRA().fit_stream(opened(data), passes=PASSES), tmp_path)
    stopped(AMIRA(), opened(data), 3, checkpoint)
    count = 0

    def deadly(operation):
        def run(*args, **kwargs):
            nonlocal count
            count += 1
            if count > at:
                raise Killed
            return operation(*args, **kwargs)

        return run

    with monkeypatch.context() as patch:
        for name in ("fsync", "replace", "unlink"):
            patch.setattr(os, name, deadly(getattr(os, name)))
        with pytest.raises(Killed):
            resumed(AMIRA(), opened(data), checkpoint)
    assert saved_bytes(resumed(AMIRA(), opened(data), checkpoint), tmp_path) == expected


def test_what_killed_processes_left_is_deleted_later(data, tmp_path):
    left = [tmp_path / f".c.{number:016x}.tmp" for number in range(2)]
    others = [
        tmp_path / name for name in ("c.tmp", ".c.tmp", ".c.123.tmp", ".ac.0123456789abcdef.tmp")
    ]
    for path in (left[0], *others):
        path.write_bytes(b"the beginning of a file")
    left[1].write_bytes(b"")  # the process was killed before the first byte
    resumed(AMIRA(), opened(data), tmp_path / "c")
    assert all(path.exists() for path in left), "they may be those of a process at work"
    for path in (*left, *others):
        os.utime(path, (0, 0))
    resumed(AMIRA(), opened(data), tmp_path / "c")
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in others)


def test_a_full_disk_does_not_stop_learning(data, tmp_path, monkeypatch):
    checkpoint = tmp_path / "c"
    expected = saved_bytes(AMIRA().fit_stream(opened(data), passes=PASSES), tmp_path)
    stopped(AMIRA(), opened(data), 3, checkpoint)
    before = checkpoint.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.warns(
            RuntimeWarning, match=r"No space left .* row \d+ of pass \d; learning goes on"
        ):
            clf = resumed(AMIRA(), opened(data), checkpoint)
        with pytest.raises(OSError, match=r"No space left on device: .*other"):
            resumed(AMIRA(), Breaking(opened(data), 0), tmp_path / "other")
    assert saved_bytes(clf, tmp_path) == expected
    assert checkpoint.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if "c" in path.name] == ["c"]
    assert saved_bytes(resumed(AMIRA(), opened(data), checkpoint), tmp_path) == expected


# ------------------------------------------------------------------------------------ two at a time
TWO_AT_A_TIME = """
import sys
import maxmargin
from maxmargin import AMIRA, streams

data, checkpoint, model = sys.argv[1:]
source = streams.open(data, block_size=1)
print("ready", flush=True)
sys.stdin.readline()
maxmargin.save(AMIRA().fit_stream(source, checkpoint=checkpoint, every=1, passes=2), model)
"""


def test_two_processes_with_one_checkpoint(data, tmp_path):
    expected = saved_bytes(AMIRA().fit_stream(data, passes=2), tmp_path)
    models = [tmp_path / f"model{number}.mm" for number in range(2)]
    runs = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", TWO_AT_A_TIME, data, tmp_path / "c", model],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for model in models
    ]
    for run in runs:
        assert run.stdout.readline() == "ready\n"
    for run in runs:
        run.stdin.write("go\n")
        run.stdin.flush()
    for run, model in zip(runs, models, strict=True):
        run.communicate()
        assert run.returncode == 0
        assert model.read_bytes() == expected
    assert CheckpointFile(tmp_path / "c").read(RunProgress.of).passes == 2
    assert not list(tmp_path.glob("*c.*"))
