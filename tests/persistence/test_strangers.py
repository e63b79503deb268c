"""Files from strangers take memory in proportion to their size, whatever they say."""

import itertools
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from campaigns.modelfiles import _places, put_together, samples, taken_apart
from persistence.states import fitted, made, three

from maxmargin import Perceptron
from maxmargin.persistence import ModelFileError, load, read_file, save, write_file

MEGABYTE = 2**20
# A tree of JSON in memory is some 25 times as large as its text; working memory comes to it.
LARGEST_GROWTH = 100
# The slots of a budget have room for products with a block of rows; texts may be padded.
ALWAYS_ALLOWED = 100 * MEGABYTE
HUGE = [2**24, 2**27, 2**29, 2**31 - 2, 2**40, 2**61]


def peak_of(action):
    """The largest number of bytes that were allocated at one time."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def take_or_refuse(path):
    try:
        load(path)
    except ModelFileError:
        return False
    return True


def is_modest(path):
    """Does loading the file take no more than it may?"""
    allowed = ALWAYS_ALLOWED + LARGEST_GROWTH * path.stat().st_size
    return peak_of(lambda: take_or_refuse(path)) < allowed


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.mm"


def tampered(clf, path, change):
    """Save ``clf`` with a header that ``change`` has changed."""
    save(clf, path)
    header, arrays = taken_apart(path.read_bytes())
    change(header)
    path.write_bytes(put_together(header, arrays))


def test_texts_of_different_lengths_come_back(path):
    uneven = np.array(["a" * 40_000, *(["b"] * 1_000)])
    write_file(path, "checkpoint", {"uneven": uneven})
    assert path.stat().st_size < MEGABYTE
    np.testing.assert_array_equal(read_file(path, "checkpoint")["uneven"], uneven)


def test_characters_that_do_not_exist(path):
    save(fitted(made(Perceptron)), path)
    header, arrays = taken_apart(path.read_bytes())
    arrays["classes"].view(np.uint32)[0] = 0x110000
    path.write_bytes(put_together(header, arrays))
    with pytest.raises(ModelFileError, match="characters that do not exist"):
        load(path)


def with_weights(path, shape, zeros):
    """Replace the weights in the file by zeros, compressed, and state a shape."""
    header, arrays = taken_apart(path.read_bytes())
    header["content"]["model"]["attributes"]["model.linear.weights"]["shape"] = shape
    arrays["model.linear.weights"] = np.zeros(zeros)
    path.write_bytes(put_together(header, arrays, zipfile.ZIP_DEFLATED))


def test_a_large_array_is_not_read_where_a_small_one_belongs(path):
    save(fitted(made(Perceptron)), path)
    with_weights(path, [1, 2**25], 2**25)
    assert path.stat().st_size < MEGABYTE
    with pytest.raises(ModelFileError, match=r"linear\.weights has the shape \(1, 33554432\)"):
        load(path)
    assert is_modest(path)


@pytest.mark.parametrize("shape", [[1, 2**40], [2**20, 2**40], [0, 2**40], [-1, 4]])
def test_shapes_that_are_not_those_of_the_bytes(shape, path):
    save(fitted(made(Perceptron)), path)
    with_weights(path, shape, 4)
    with pytest.raises(ModelFileError, match=r"the shape|rows of the empty array"):
        load(path)
    assert is_modest(path)


def test_sizes_that_bytes_cannot_expand_to(path):
    save(fitted(made(Perceptron)), path)
    path.write_bytes(put_together(*taken_apart(path.read_bytes())))
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("model.linear.weights.npy").file_size
    place = data.rindex(struct.pack("<II", size, size), 0, data.rindex(b"model.linear.weights.npy"))
    path.write_bytes(data[: place + 4] + struct.pack("<I", 2**31) + data[place + 8 :])
    with pytest.raises(ModelFileError, match="smaller than it states"):
        load(path)


def test_small_arrays_of_other_sizes(path):
    save(fitted(made(Perceptron)), path)
    header, _ = taken_apart(path.read_bytes(), small=False)
    header["content"]["model"]["attributes"]["model.linear.weights"]["shape"] = [1, 2**40]
    path.write_bytes(put_together(header, {}))
    with pytest.raises(ModelFileError, match="not those of the shape"):
        load(path)
    assert is_modest(path)


def test_a_header_that_is_almost_empty(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("maxmargin.json", " " * 2**24 + "{}")
    with pytest.raises(ModelFileError, match="header is compressed"):
        load(path)


def test_changed_numbers_take_no_memory(path):
    """Numbers in headers are replaced by huge ones, some at a time."""
    random = np.random.default_rng(5)
    files = []
    for clf in [*samples(), fitted(made(Perceptron), labels=three)]:
        save(clf, path)
        files.append(path.read_bytes())
    taken = 0
    for data, _ in itertools.product(files, range(12)):
        header, arrays = taken_apart(data)
        numbers = [(h, k) for h, k in _places(header) if type(h[k]) is int]
        for choice in random.choice(len(numbers), size=2, replace=False):
            holder, key = numbers[choice]
            same, value = holder[key], HUGE[random.integers(len(HUGE))]
            for holder, key in numbers if random.random() < 0.5 else [numbers[choice]]:
                if holder[key] == same:
                    holder[key] = value
        path.write_bytes(put_together(header, arrays))
        assert is_modest(path)
        taken += take_or_refuse(path)
    assert taken > 0  # not all of these numbers are lengths
