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
    """A cache in which one process has left its code, and what that process said."""
    folder = tmp_path_factory.mktemp("filled")
    return folder, run(FIT, folder)


def test_a_second_process_compiles_nothing(filled):
    folder, first = filled
    second = run(FIT, folder)
    assert first["used"] == first["misses"] == [1] * 5
    assert second["hits"] == [1] * 5
    assert second["misses"] == [0] * 5
    assert second["coef"] == first["coef"]


def test_an_edited_rule_gives_the_new_answer(tmp_path):
    copy = tmp_path / "copy" / "maxmargin"
    shutil.copytree(Path(maxmargin.__file__).parent, copy)
    before = run(FIT, tmp_path / "cache", copy.parent)
    assert Path(before["package"]).parent == copy

    source = copy / "algorithms" / "perceptron.py"
    old, new = "return 1.0, self.rate", "return 1.0, self.rate * 8"
    assert old in source.read_text()
    times = source.stat().st_atime, source.stat().st_mtime
    source.write_text(source.read_text().replace(old, new))
    os.utime(source, times)
    after = run(FIT, tmp_path / "cache", copy.parent)
    assert after["coef"] == [[8 * w for w in before["coef"][0]]]
    assert after["misses"] == [1] * 5


def test_without_a_writable_folder_there_is_no_cache_and_no_complaint(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("a folder cannot be made below a file")
    alone = run(FIT, blocked / "cache")
    assert alone["used"] == [1] * 5
    assert alone["hits"] == [0] * 5
    X, y = [[0.0, 1.0], [2.0, 1.0], [3.0, -1.0]], [0, 1, 1]
    expected = maxmargin.Perceptron(max_iter=3, shuffle=False).fit(X, y)
    assert alone["coef"] == expected.coef_.tolist()
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


def test_a_damaged_cache_heals(filled, tmp_path):
    """As after a full disk: compiled files that end too soon."""
    folder, expected = filled
    shutil.copytree(folder, tmp_path / "damaged")
    compiled = list((tmp_path / "damaged").rglob("*.nbc"))
    assert compiled
    for file in compiled:
        file.write_bytes(file.read_bytes()[:1000])
    for _ in range(2):
        assert run(FIT, tmp_path / "damaged")["coef"] == expected["coef"]
