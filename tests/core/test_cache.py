"""The cache: the next process compiles nothing, and never runs code that was edited since."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import maxmargin
from maxmargin.core import cache

FIT = """
import json
import maxmargin
from maxmargin.certificates import bounds
from maxmargin.core import looks, loop

X, y = [[0.0, 1.0], [2.0, 1.0], [3.0, -1.0]], [0, 1, 1]
clf = maxmargin.Perceptron(max_iter=3, shuffle=False).fit(X, y)
print(clf.certificate_)
loops = [loop.learn, loop.maintain, looks.lowest_outputs, looks.first_unusable]
loops.append(bounds._hull_bounds)
stats = [one.cached.stats for one in loops]
print(json.dumps({
    "package": maxmargin.__file__,
    "coef": clf.coef_.tolist(),
    "used": [len(one.cached.signatures) for one in loops],
    "hits": [sum(one.cache_hits.values()) for one in stats],
    "misses": [sum(one.cache_misses.values()) for one in stats],
}))
"""

# One small loop, where any would do: a whole fit takes ten times as long to compile.
LOOK = """
import json
import numpy as np
from maxmargin.core.looks import first_unusable
from maxmargin.core.rows import DenseRows, Tail

found, largest = first_unusable(DenseRows(np.array([[3.0, 4.0], [0.0, np.inf]]), Tail(1.0, 0.0)))
stats = first_unusable.cached.stats
print(json.dumps({
    "found": found,
    "largest": largest,
    "hits": sum(stats.cache_hits.values()),
    "misses": sum(stats.cache_misses.values()),
}))
"""
SEEN = {"found": 1, "largest": 26.0}


def run(script, cache_folder, package=None):
    """What ``script`` prints last, in a process of its own; it must not print any warning."""
    env = os.environ | {"MAXMARGIN_CACHE_DIR": str(cache_folder)}
    env.pop("NUMBA_CACHE_DIR", None)
    if package is not None:
        env["PYTHONPATH"] = str(package)
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A copy of the package, a cache in which a process has left its code, and what it said."""
    copy = tmp_path_factory.mktemp("copy") / "maxmargin"
    shutil.copytree(Path(maxmargin.__file__).parent, copy)
    folder = tmp_path_factory.mktemp("filled")
    first = run(FIT, folder, copy.parent)
    assert Path(first["package"]).parent == copy
    return copy, folder, first


def test_a_second_process_compiles_nothing(filled):
    copy, folder, first = filled
    second = run(FIT, folder, copy.parent)
    assert first["used"] == first["misses"] == [1] * 5
    assert second["hits"] == [1] * 5
    assert second["misses"] == [0] * 5
    assert second["coef"] == first["coef"]


def test_an_edited_rule_gives_the_new_answer(filled):
    copy, folder, before = filled
    source = copy / "algorithms" / "perceptron.py"
    text, times = source.read_text(), (source.stat().st_atime, source.stat().st_mtime)
    old, new = "return 1.0, self.rate", "return 1.0, self.rate * 8"
    assert old in text
    try:
        source.write_text(text.replace(old, new))
        os.utime(source, times)
        after = run(FIT, folder, copy.parent)
    finally:
        source.write_text(text)
        os.utime(source, times)
    assert after["coef"] == [[8 * w for w in before["coef"][0]]]
    assert after["misses"] == [1] * 5


def test_without_a_writable_folder_there_is_no_cache_and_no_complaint(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("a folder cannot be made below a file")
    assert run(LOOK, blocked / "cache") == SEEN | {"hits": 0, "misses": 1}
    assert blocked.read_text() == "a folder cannot be made below a file"


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """`cache.folder` for a cache in ``tmp_path``, as a new process would call it."""
    monkeypatch.setenv("MAXMARGIN_CACHE_DIR", str(tmp_path))
    return cache.folder.__wrapped__


def test_the_folder_is_named_by_the_sources(folder, tmp_path):
    assert folder() == tmp_path / cache.source_hash()
    assert folder().is_dir()
    assert list(folder().iterdir()) == []


def test_no_folder_where_nothing_can_be_written(monkeypatch, folder, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MAXMARGIN_CACHE_DIR", str(tmp_path / "file"))
    assert folder() is None


def make_old(path):
    path.mkdir()
    (path / "content").touch()
    long_ago = time.time() - 2 * cache.STALE_AFTER_SECONDS
    os.utime(path, (long_ago, long_ago))
    return path


def test_folders_of_old_sources_are_dropped_and_recent_ones_kept(folder, tmp_path):
    old, recent = make_old(tmp_path / ("0" * 16)), tmp_path / ("1" * 16)
    recent.mkdir()
    folder()
    assert not old.exists()
    assert recent.exists()


def test_folders_that_are_not_ours_are_left_alone(folder, tmp_path):
    """MAXMARGIN_CACHE_DIR may name a folder that holds other things too."""
    photos = make_old(tmp_path / "photos")
    folder()
    assert (photos / "content").exists()


def test_a_damaged_cache_heals(tmp_path):
    """As after a full disk: compiled files that end too soon."""
    assert run(LOOK, tmp_path) == SEEN | {"hits": 0, "misses": 1}
    assert run(LOOK, tmp_path) == SEEN | {"hits": 1, "misses": 0}
    compiled = list(tmp_path.rglob("*.nbc"))
    assert compiled
    for file in compiled:
        file.write_bytes(file.read_bytes()[:1000])
    for _ in range(2):
        healed = run(LOOK, tmp_path)
        assert {name: healed[name] for name in SEEN} == SEEN
