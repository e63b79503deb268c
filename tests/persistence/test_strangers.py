"""Files from strangers take memory in proportion to their size, whatever they say."""

import itertools
import tracemalloc

import numpy as np
import pytest
from campaigns.modelfiles import _places, put_together, samples, taken_apart
from persistence.states import X, fitted, made, streamed, three, two

from maxmargin import NOCA, Perceptron
from maxmargin.persistence import ModelFileError, describe, load, read_file, save, write_file

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
    header, chunks = taken_apart(path.read_bytes())
    chunks = change(header, chunks) or chunks
    path.write_bytes(put_together(header, chunks))


def test_one_long_text_among_many(path):
    def change(header, chunks):
        texts = sorted(["a" * 40_000, *(f"{number:05}" for number in range(10_000))])
        classes = header["content"]["model"]["attributes"]["classes"]
        classes["texts"], classes["length"] = texts, 40_000

    tampered(fitted(made(Perceptron)), path, change)
    assert path.stat().st_size < MEGABYTE
    with pytest.raises(ModelFileError, match="too different lengths"):
        load(path)
    assert is_modest(path)


def test_many_arrays_of_texts_count_together(path):
    texts = {"texts": ["a" * 5_000, *"b" * 1_000], "length": 5_000}

    def change(header, chunks):
        header["content"] = {str(number): texts for number in range(50)}

    tampered(fitted(made(Perceptron)), path, change)
    assert is_modest(path)
    with pytest.raises(ModelFileError, match="too different lengths"):
        load(path)


def test_texts_that_could_not_be_read_are_not_written(path):
    uneven = np.array(["a" * 40_000, *(["b"] * 1_000)])
    with pytest.raises(TypeError, match=r"'uneven' cannot be saved: .* too different lengths"):
        write_file(path, "checkpoint", {"uneven": uneven})
    even = np.array(["a" * 1_000] * 1_000)
    write_file(path, "checkpoint", {"even": even, "few": uneven[:2]})
    np.testing.assert_array_equal(read_file(path, "checkpoint")["even"], even)


@pytest.mark.parametrize("width", HUGE)
@pytest.mark.parametrize("gamma", ["scale", 0.5])
def test_no_rows_of_many_columns(width, gamma, path):
    """An array with a zero in its shape takes no bytes of the file."""

    def change(header, chunks):
        for holder, key in _places(header["content"]):
            if holder[key] == 3 and key in ("features", "width", "columns"):
                holder[key] = width
        for number, entry in enumerate(header["arrays"]):
            for axis, extent in enumerate(entry["shape"]):
                if extent in (3, 4) and len(entry["shape"]) == 2:
                    entry["shape"][axis] = width + extent - 3
                    entry["shape"][1 - axis], chunks[number] = 0, b""
        return chunks

    for learner in (made(Perceptron, kernel="rbf", gamma=gamma), made(NOCA)):
        tampered(fitted(learner), path, change)
        assert is_modest(path)


def test_many_problems_times_many_rows(path):
    def change(header, chunks):
        attributes = header["content"]["model"]["attributes"]
        attributes["classes"] = {"texts": [f"{n:04}" for n in range(8_000)], "length": 4}
        leaves = dict(attributes["model"]["dict"])
        number = leaves["supports.points.X"]["csr"]["indptr"]["array"]
        header["arrays"][number]["shape"] = [20_000]
        kept = int(np.frombuffer(chunks[number], np.int32)[-1])
        chunks[number] = np.array([0] * 19_999 + [kept], np.int32).tobytes()
        return chunks

    from scipy import sparse

    clf = streamed(made(Perceptron, kernel="poly", gamma=0.5), sparse.csr_matrix(X), two)
    tampered(clf, path, change)
    assert is_modest(path)


def test_one_array_for_many_learners(path):
    """Each of them would have weights, and vectors behind its certificate, of its own."""
    rows = np.zeros((2, 20_000))
    rows[0, 0] = 1.0

    def change(header, chunks):
        model = header["content"]["model"]
        more = [{**model, "number": number} for number in range(500)]
        header["content"] = {"model": model, "more": more}

    tampered(made(Perceptron).fit(rows, ["yes", "no"]), path, change)
    assert is_modest(path)
    with pytest.raises(ModelFileError, match="too many places"):
        load(path)


def test_changed_lengths_take_no_memory(path):
    """Numbers in headers and shapes are replaced by huge ones, some at a time."""
    random = np.random.default_rng(5)
    files = []
    for clf in [*samples(), fitted(made(Perceptron), labels=three)]:
        save(clf, path)
        files.append(path.read_bytes())
    taken = 0
    for data, _ in itertools.product(files, range(25)):
        header, chunks = taken_apart(data)
        numbers = [(h, k) for h, k in _places(header) if type(h[k]) is int]
        for choice in random.choice(len(numbers), size=2, replace=False):
            holder, key = numbers[choice]
            same, value = holder[key], HUGE[random.integers(len(HUGE))]
            for holder, key in numbers if random.random() < 0.5 else [numbers[choice]]:
                if holder[key] == same:
                    holder[key] = value
        for number, entry in enumerate(header["arrays"]):
            if max(entry["shape"], default=0) >= HUGE[0] and random.random() < 0.8:
                entry["shape"][random.integers(len(entry["shape"]))] = 0
                chunks[number] = b"" if 0 in entry["shape"] else chunks[number]
        path.write_bytes(put_together(header, chunks))
        assert is_modest(path)
        taken += take_or_refuse(path)
    assert taken > 0  # not all of these numbers are lengths


# --------------------------------------------------------------------------------------- summaries
@pytest.mark.parametrize(
    "summary",
    [
        *(None, [], "a", {"estimator": 3}, {"estimator": "Perceptron"}, {"kind": "x"}),
        {"estimator": "Perceptron", "parameters": {"p": []}},
        {"estimator": "Perceptron", "parameters": {}, "classes": [[]]},
        {"estimator": "Perceptron", "parameters": {}, "classes": {"a": 1}},
        {"estimator": "Perceptron", "parameters": {}, "mistakes": "many"},
        {"estimator": "Perceptron", "parameters": {}, "updates": True},
        {"estimator": "Perceptron", "parameters": {}, "certificate": {"margin": 1.0}},
    ],
    ids=repr,
)
def test_summaries_that_are_none(summary, path):
    def change(header, chunks):
        header["summary"] = summary

    tampered(made(Perceptron), path, change)
    with pytest.raises(ModelFileError, match="summary"):
        describe(path)
