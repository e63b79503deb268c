"""The store of compiled code: it gives back what was saved, or nothing, whatever lies there."""

import os
import random
import shutil
import stat
import sys
import tempfile

import numpy as np
import pytest
from backends import skip_module_unless_full
from extent import EVERYTHING

from maxmargin.core.numba_backend import Compiled, cache

skip_module_unless_full()

VALUES = np.array([1.0, 2.0, 4.0])


def total(values):
    """Small, so that it compiles quickly."""
    found = 0.0
    for value in values:
        found += value
    return found


def product(values):
    found = 1.0
    for value in values:
        found *= value
    return found


def call(loop):
    return loop(VALUES)


def enter(loop):
    return loop.entry(VALUES)(VALUES)


WAYS = (call, enter)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A folder of its own for everything that is made a `Compiled` in the test."""
    place = tmp_path / "store"
    place.mkdir(mode=0o700)
    monkeypatch.setattr(cache, "folder", lambda: place)
    return place


def files(folder):
    return sorted(path for path in folder.iterdir() if path.is_file())


def is_found(loop):
    stats = loop.dispatcher.stats
    hits, misses = sum(stats.cache_hits.values()), sum(stats.cache_misses.values())
    assert hits + misses == 1
    return hits == 1


@pytest.mark.parametrize("way", WAYS)
def test_what_was_saved_is_found(folder, way):
    first, second = Compiled(total), Compiled(total)
    assert way(first) == way(second) == 7.0
    assert not is_found(first)
    assert is_found(second)


def test_each_function_and_each_type_has_a_file_that_nobody_else_writes(folder):
    Compiled(total)(VALUES)
    (one,) = files(folder)
    before = one.read_bytes(), one.stat().st_mtime_ns
    Compiled(product)(VALUES)
    Compiled(total)(VALUES.astype(np.float32))
    assert len(files(folder)) == 3
    assert (one.read_bytes(), one.stat().st_mtime_ns) == before


def test_types_of_the_same_name_are_told_apart(folder, monkeypatch):
    monkeypatch.setattr(
        "maxmargin.core.numba_backend.cache.Store._file_name", lambda store, key: "the same"
    )
    assert Compiled(total)(VALUES) == 7.0
    other = Compiled(total)
    assert other(VALUES.astype(np.float32)) == 7.0
    assert not is_found(other)


def test_code_with_addresses_of_this_process_is_not_saved(folder):
    large = np.ones(200_000)

    def with_an_address(values):
        return values[0] + large[0]

    assert Compiled(with_an_address)(VALUES) == 2.0
    assert files(folder) == []


@pytest.mark.skipif(sys.platform == "win32", reason="other rights than on POSIX")
def test_files_are_for_us_alone(folder):
    before = os.umask(0)
    try:
        Compiled(total)(VALUES)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in files(folder)] == [0o600]


def forbid(*args, **options):
    raise PermissionError


def test_a_store_that_can_only_be_read_is_read(folder, monkeypatch):
    Compiled(total)(VALUES)
    monkeypatch.setattr(tempfile, "mkstemp", forbid)
    loop, new = Compiled(total), Compiled(product)
    assert loop(VALUES) == 7.0
    assert is_found(loop)
    assert new(VALUES) == 8.0
    assert len(files(folder)) == 1


def test_a_full_disk_leaves_nothing_behind(folder, monkeypatch):
    monkeypatch.setattr(os, "replace", forbid)
    assert Compiled(total)(VALUES) == 7.0
    assert files(folder) == []


def test_a_store_that_was_deleted_is_no_error(folder):
    shutil.rmtree(folder)
    assert Compiled(total)(VALUES) == 7.0
    assert not folder.exists()


def test_without_a_folder_everything_is_compiled(monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: None)
    loop = Compiled(total)
    assert loop(VALUES) == 7.0
    assert not is_found(loop)


@pytest.mark.parametrize("error", [ImportError, KeyError, MemoryError, RuntimeError, TypeError])
def test_whatever_loading_raises_the_function_is_compiled(folder, monkeypatch, error):
    def fail(*args):
        raise error

    Compiled(total)(VALUES)
    with monkeypatch.context() as patch:
        patch.setattr("numba.core.compiler.CompileResult._rebuild", fail)
        for way in WAYS:
            assert way(Compiled(total)) == 7.0
    healed = Compiled(total)
    healed(VALUES)
    assert is_found(healed)


# Each damages one file, of which there is a second beside it; `chance` has a seed.
def truncate(file, other, chance):
    file.write_bytes(file.read_bytes()[: chance.randrange(file.stat().st_size)])


def flip(file, other, chance):
    content = bytearray(file.read_bytes())
    for _ in range(chance.choice([1, 1, 10, 1000])):
        content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
    file.write_bytes(content)


def blank(file, other, chance):
    """As a crash may leave it: a piece that was never written."""
    content = file.read_bytes()
    start = chance.randrange(len(content))
    end = chance.randrange(start, len(content)) + 1
    file.write_bytes(content[:start] + bytes(end - start) + content[end:])


def swap(file, other, chance):
    one, two = file.read_bytes(), other.read_bytes()
    file.write_bytes(two)
    other.write_bytes(one)


def empty(file, other, chance):
    file.write_bytes(b"")


DAMAGES = {truncate: 25, flip: 25, blank: 10, swap: 2, empty: 2}


@pytest.mark.parametrize("damage", DAMAGES)
def test_any_damage_heals(folder, damage):
    assert Compiled(total)(VALUES) == 7.0
    assert Compiled(product)(VALUES) == 8.0
    two, one = files(folder)
    assert one.name.startswith("total")
    whole = {path: path.read_bytes() for path in (one, two)}
    chance = random.Random(damage.__name__)
    for number in range(DAMAGES[damage] if EVERYTHING else min(DAMAGES[damage], 6)):
        damage(one, two, chance)
        loop = Compiled(total)
        assert WAYS[number % 2](loop) == 7.0
        assert not is_found(loop)
        assert Compiled(product)(VALUES) == 8.0
        healed = Compiled(total)
        assert WAYS[number % 2](healed) == 7.0
        assert is_found(healed)
        for path, content in whole.items():
            path.write_bytes(content)
