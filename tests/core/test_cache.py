"""The cache: the next process compiles nothing, and runs no code that was edited or is not ours."""

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from backends import only_full
from extent import EVERYTHING, everything_or

import maxmargin
from maxmargin.core.numba_backend import cache

pytestmark = only_full

FIT = """
import json
import maxmargin
from maxmargin.core import loop, row_scans

X, y = [[0.0, 1.0], [2.0, 1.0], [3.0, -1.0]], [0, 1, 1]
clf = maxmargin.Perceptron(max_iter=3, shuffle=False).fit(X, y)
print(clf.certificate_)
loops = [loop.learn, row_scans.lowest_outputs, row_scans.first_unusable]
stats = [one.dispatcher.stats for one in loops]
print(json.dumps({
    "package": maxmargin.__file__,
    "coef": clf.coef_.tolist(),
    "used": [len(one.dispatcher.signatures) for one in loops],
    "hits": [sum(one.cache_hits.values()) for one in stats],
    "misses": [sum(one.cache_misses.values()) for one in stats],
}))
"""

# One small loop, where any would do: a whole fit takes ten times as long to compile.
LOOK = """
import json
import numpy as np
from maxmargin.core.row_scans import first_unusable
from maxmargin.core.rows import DenseRows, Tail

rows = DenseRows(np.array([[3.0, 4.0], [0.0, np.inf]]), Tail(1.0, 0.0))
found, largest = first_unusable(rows)
stats = first_unusable.dispatcher.stats
print(json.dumps({
    "found": found,
    "largest": largest,
    "hits": sum(stats.cache_hits.values()),
    "misses": sum(stats.cache_misses.values()),
}))
"""
SEEN = {"found": 1, "largest": 26.0}
ENTER = LOOK.replace("first_unusable(rows)", "first_unusable.entry(rows)(rows)")
SINGLE = LOOK.replace("np.inf]]", "np.inf]], dtype=np.float32")
BOTH = LOOK + SINGLE

on_posix = pytest.mark.skipif(sys.platform == "win32", reason="other rights than on POSIX")


HERE = Path(maxmargin.__file__).parents[1]


def start(script, cache_folder, package=HERE):
    env = os.environ | {"MAXMARGIN_CACHE_DIR": str(cache_folder), "PYTHONPATH": str(package)}
    command = [sys.executable, "-c", script]
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def end(process):
    """What it prints last, and its complaints."""
    printed, complaints = process.communicate()
    assert process.returncode == 0, complaints
    return json.loads(printed.splitlines()[-1]), complaints


def run(script, cache_folder, package=HERE):
    """What ``script`` prints last, in a process of its own; it must not print any warning."""
    printed, complaints = end(start(script, cache_folder, package))
    assert complaints == ""
    return printed


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
    assert first["used"] == first["misses"] == [1] * 3
    assert second["hits"] == [1] * 3
    assert second["misses"] == [0] * 3
    assert second["coef"] == first["coef"]


@contextlib.contextmanager
def edited(source, old, new):
    """With the times of the file as they were."""
    text, times = source.read_text(), (source.stat().st_atime, source.stat().st_mtime)
    assert old in text
    try:
        source.write_text(text.replace(old, new))
        os.utime(source, times)
        yield
    finally:
        source.write_text(text)
        os.utime(source, times)


def test_an_edited_method_gives_the_new_answer(filled, tmp_path):
    """In another file than the loop that calls it.

    The cache is not the one that others look at: code of sources that are no more is dropped.
    """
    copy, _, _ = filled
    assert run(LOOK, tmp_path, copy.parent) == SEEN | {"hits": 0, "misses": 1}
    square = "self.offset * self.offset"
    with edited(copy / "core" / "rows.py", square, f"8 * {square}"):
        after = run(LOOK, tmp_path, copy.parent)
    assert after == SEEN | {"largest": 33.0, "hits": 0, "misses": 1}


@pytest.mark.skipif(not EVERYTHING, reason="it compiles a whole fit: see make test-all")
def test_an_edited_rule_gives_the_new_answer(filled, tmp_path):
    copy, folder, before = filled
    shutil.copytree(folder, tmp_path / "cache")
    with edited(copy / "algorithms" / "perceptron.py", "1.0, self.rate", "1.0, self.rate * 8"):
        after = run(FIT, tmp_path / "cache", copy.parent)
    assert after["coef"] == [[8 * w for w in before["coef"][0]]]
    assert after["misses"] == [1] * 3


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
    assert names(folder()) == []


def test_without_sources_there_is_no_cache(monkeypatch, folder, tmp_path):
    """Nobody could tell the code of one version from that of the next."""
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "core" / "cache.py"))
    assert folder() is None


def test_no_folder_where_nothing_can_be_written(monkeypatch, folder, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MAXMARGIN_CACHE_DIR", str(tmp_path / "file"))
    assert folder() is None


def forbid(*args, **options):
    raise PermissionError


def test_a_folder_that_can_only_be_read_is_used(monkeypatch, folder):
    made = folder()
    for name in ("mkdir", "touch", "write_bytes", "unlink"):
        monkeypatch.setattr(Path, name, forbid)
    assert folder() == made


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="they have no XDG_CACHE_HOME")
@pytest.mark.parametrize("base", ["", ".", "relative", "../relative"])
def test_a_relative_base_is_ignored(monkeypatch, folder, tmp_path, base):
    """So says the XDG specification: else whatever lies in the current folder would be run."""
    monkeypatch.delenv("MAXMARGIN_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert folder() == tmp_path / "home" / ".cache" / "maxmargin" / cache.source_hash()
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize("variable", ["MAXMARGIN_CACHE_DIR", "HOME"])
def test_a_folder_that_depends_on_the_current_one_is_refused(
    monkeypatch, folder, tmp_path, variable
):
    for name in ("MAXMARGIN_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "relative")
    monkeypatch.chdir(tmp_path)
    with pytest.warns(RuntimeWarning, match="'relative.* depends on the current folder"):
        assert folder() is None
    assert list(tmp_path.iterdir()) == []


def test_a_home_is_found(monkeypatch, folder, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("MAXMARGIN_CACHE_DIR", "~/here")
    assert folder() == tmp_path / "here" / cache.source_hash()


@on_posix
@pytest.mark.parametrize("mask", [0, 0o002])
def test_folders_are_made_for_us_alone(monkeypatch, folder, tmp_path, mask):
    monkeypatch.setenv("MAXMARGIN_CACHE_DIR", str(tmp_path / "one" / "two"))
    before = os.umask(mask)
    try:
        made = folder()
    finally:
        os.umask(before)
    for path in (made, made.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


@on_posix
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707, 0o720, 0o702])
def test_a_folder_that_others_can_write_to_is_refused(folder, mode):
    made = folder()
    made.chmod(mode)
    with pytest.warns(RuntimeWarning, match=f"{made} can be written to by others"):
        assert folder() is None


@on_posix
def test_a_folder_of_another_user_is_refused(monkeypatch, folder):
    made, somebody = folder(), os.geteuid() + 1
    if os.geteuid() == 0:
        os.chown(made, somebody, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: somebody)
    with pytest.warns(RuntimeWarning, match=f"{made} belongs to another user"):
        assert folder() is None


@on_posix
def test_a_process_says_once_that_nothing_is_kept(folder, tmp_path):
    made = folder()
    made.chmod(0o777)
    always = "import warnings; warnings.simplefilter('always')"
    seen, complaints = end(start(f"{always}\n{BOTH}", tmp_path))
    assert seen == SEEN | {"hits": 0, "misses": 2}
    assert complaints.count("RuntimeWarning") == 1
    assert str(made) in complaints
    assert names(made) == []


def make_old(path):
    path.mkdir(mode=0o700)
    (path / f"loop-0{cache.SUFFIX}").touch()
    age(path)
    return path


def age(path):
    long_ago = time.time() - 2 * cache.STALE_AFTER_SECONDS
    os.utime(path, (long_ago, long_ago))


def names(path):
    return sorted(file.name for file in path.iterdir())


def test_folders_of_old_sources_are_dropped_and_recent_ones_kept(folder, tmp_path):
    old, recent = make_old(tmp_path / ("0" * 16)), make_old(tmp_path / ("1" * 16))
    os.utime(recent)
    folder()
    assert not old.exists()
    assert len(names(recent)) == 1


def test_folders_that_are_not_ours_are_left_alone(folder, tmp_path):
    """MAXMARGIN_CACHE_DIR may name a folder that holds other things too."""
    other = make_old(tmp_path / "photos")
    folder()
    assert len(names(other)) == 1


def test_files_that_are_not_ours_are_left_alone(folder, tmp_path):
    old = make_old(tmp_path / ("0" * 16))
    (old / "notes").touch()
    age(old)
    folder()
    assert names(old) == ["notes"]


def test_a_damaged_cache_heals(tmp_path):
    """As after a full disk: compiled files that end too soon. `test_store` has more damages."""
    run(LOOK, tmp_path)
    (compiled,) = tmp_path.rglob(f"*{cache.SUFFIX}")
    for script in everything_or([LOOK], [LOOK, ENTER]):
        compiled.write_bytes(compiled.read_bytes()[:-1000])
        assert run(script, tmp_path) == SEEN | {"hits": 0, "misses": 1}
    assert run(LOOK, tmp_path) == SEEN | {"hits": 1, "misses": 0}


def test_processes_that_compile_at_once_lose_nothing(tmp_path):
    processes = [start(script, tmp_path) for script in (LOOK, SINGLE)]
    for process in processes:
        assert end(process) == (SEEN | {"hits": 0, "misses": 1}, "")
    assert run(BOTH, tmp_path) == SEEN | {"hits": 2, "misses": 0}
