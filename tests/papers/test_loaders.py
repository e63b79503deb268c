"""The loaders on small files that the tests write, and on the real ones where they are at hand."""

import gzip
import os
from dataclasses import replace

import numpy as np
import pytest
from extent import everything_or
from sklearn.utils import Bunch

from maxmargin.datasets import (
    load_adult,
    load_electricity,
    load_ionosphere,
    load_mnist,
    load_usps,
    load_votes,
)
from maxmargin_papers.data import adult, benchmark_sets, data_files

REAL_DATA = os.environ.get("MAXMARGIN_DATA")
needs_real_data = pytest.mark.skipif(not REAL_DATA, reason="MAXMARGIN_DATA names no folder")


@pytest.fixture(autouse=True)
def _no_folder_and_no_net(monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("there is no net")

    monkeypatch.delenv("MAXMARGIN_DATA", raising=False)
    monkeypatch.setattr(data_files, "fetch_openml", fail)


@pytest.fixture
def openml(monkeypatch):
    """A function that says what OpenML is to answer; returns the list of questions."""

    def answer(**content):
        asked = []

        def fetch(name, **options):
            asked.append((name, options["version"]))
            return Bunch(**({"categories": {}, "feature_names": []} | content))

        monkeypatch.setattr(data_files, "fetch_openml", fetch)
        return asked

    return answer


def write(folder, file, content):
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def shrink(monkeypatch, module, name, counts, n_features=None):
    """Let a source expect a small file: `counts` of one source, or of every part."""

    def smaller(old, counts):
        return replace(old, counts=counts, n_features=n_features or old.n_features)

    old = getattr(module, name)
    if isinstance(old, dict):
        small = {part: smaller(old[part], counts[part]) for part in old}
    else:
        small = smaller(old, counts)
    monkeypatch.setattr(module, name, small)


# Two rows of the form of Ionosphere, with the numbers 0, .5, ..., 16.5 and their negatives.
IONOSPHERE_X = np.outer([1.0, -1.0], np.arange(34) / 2)
IONOSPHERE_FILE = "".join(
    ",".join(map(str, row)) + f",{label}\n" for row, label in zip(IONOSPHERE_X, "gb", strict=True)
).encode()


@pytest.fixture
def two_returns(monkeypatch):
    shrink(monkeypatch, benchmark_sets, "IONOSPHERE", {"b": 1, "g": 1})


# Finding files


@pytest.mark.usefixtures("two_returns")
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("by", ["argument", "text", "variable"])
def test_files_are_found(tmp_path, monkeypatch, suffix, by):
    write(tmp_path, f"ionosphere/ionosphere.data{suffix}", IONOSPHERE_FILE)
    if by == "variable":
        monkeypatch.setenv("MAXMARGIN_DATA", str(tmp_path))
        X, y = load_ionosphere()
    else:
        X, y = load_ionosphere(data_home=tmp_path if by == "argument" else str(tmp_path))
    np.testing.assert_array_equal(X, IONOSPHERE_X)
    assert X.dtype == np.float64
    assert y.tolist() == ["g", "b"]
    assert y.dtype == "<U1"


@pytest.mark.usefixtures("two_returns")
def test_the_argument_comes_before_the_variable(tmp_path, monkeypatch):
    write(tmp_path, "ionosphere/ionosphere.data", IONOSPHERE_FILE)
    monkeypatch.setenv("MAXMARGIN_DATA", str(tmp_path / "elsewhere"))
    assert load_ionosphere(data_home=tmp_path)[0].shape == (2, 34)
    with pytest.raises(FileNotFoundError, match="elsewhere"):
        load_ionosphere()


@pytest.mark.parametrize(
    ("load", "file", "name"),
    [
        (load_ionosphere, "ionosphere/ionosphere.data", "'ionosphere', version 1"),
        (load_votes, "house-votes-84/house-votes-84.data", "'vote', version 1"),
        (load_usps, "usps/zip.train", "'USPS', version 2"),
        (load_mnist, "mnist/train-labels-idx1-ubyte", "'mnist_784', version 1"),
        (load_electricity, "electricity/elecNormNew.arff", "'electricity', version 1"),
    ],
)
def test_what_is_said_if_nothing_works(tmp_path, load, file, name):
    with pytest.raises(FileNotFoundError) as caught:
        load(data_home=tmp_path)
    said = str(caught.value)
    for part in (f"{file}[.gz] not found", str(tmp_path), "data_home", "MAXMARGIN_DATA", name):
        assert part in said
    assert "there is no net" in said
    with pytest.raises(FileNotFoundError, match="no folder is named"):
        load()


def test_only_missing_files_are_asked_for(tmp_path):
    write(tmp_path, "mnist/t10k-images-idx3-ubyte", b"")
    with pytest.raises(FileNotFoundError) as caught:
        load_mnist("test", data_home=tmp_path)
    assert "mnist/t10k-labels-idx1-ubyte[.gz]" in str(caught.value)
    assert "images" not in str(caught.value)


def test_binary_adult_is_never_downloaded(openml):
    asked = openml()
    with pytest.raises(FileNotFoundError, match=r"a9a/a9a\.t\[\.gz\] not found.*LIBSVM.*no downl"):
        load_adult("test")
    assert asked == []


# Damaged files


@pytest.mark.usefixtures("two_returns")
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"\xff\xfe",
        IONOSPHERE_FILE[:-40],
        IONOSPHERE_FILE.replace(b"0.5", b"half"),
        IONOSPHERE_FILE.splitlines()[0],
        IONOSPHERE_FILE * 2,
        IONOSPHERE_FILE.replace(b",g", b",x"),
        IONOSPHERE_FILE.replace(b"16.5,", b""),
    ],
)
def test_damaged_text_names_the_file(tmp_path, content):
    path = write(tmp_path, "ionosphere/ionosphere.data", content)
    with pytest.raises(ValueError, match="damaged") as caught:
        load_ionosphere(data_home=tmp_path)
    assert str(path) in str(caught.value)


@pytest.mark.usefixtures("two_returns")
@pytest.mark.parametrize("damage", ["cut", "changed", "not compressed"])
def test_damaged_compression_names_the_file(tmp_path, damage):
    path = write(tmp_path, "ionosphere/ionosphere.data.gz", IONOSPHERE_FILE)
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(
        {
            "cut": content[:middle],
            "changed": content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :],
            "not compressed": IONOSPHERE_FILE,
        }[damage]
    )
    with pytest.raises(ValueError, match="damaged") as caught:
        load_ionosphere(data_home=tmp_path)
    assert str(path) in str(caught.value)


# Parsing


VOTES_FILE = b"republican," + b",".join([b"n", b"y", b"?"] + [b"y"] * 13) + b"\n"


def test_votes(tmp_path, monkeypatch):
    shrink(monkeypatch, benchmark_sets, "VOTES", {"republican": 1})
    write(tmp_path, "house-votes-84/house-votes-84.data", VOTES_FILE)
    X, y = load_votes(data_home=tmp_path)
    assert X.tolist() == [[-1.0, 1.0, 0.0] + [1.0] * 13]
    assert y.tolist() == ["republican"]
    path = write(tmp_path, "house-votes-84/house-votes-84.data", VOTES_FILE.replace(b"?", b"!"))
    with pytest.raises(ValueError, match="damaged") as caught:
        load_votes(data_home=tmp_path)
    assert str(path) in str(caught.value)


def test_usps(tmp_path, monkeypatch):
    shrink(monkeypatch, benchmark_sets, "USPS", {"train": {3: 1, 6: 1}, "test": {9: 1}})
    values = np.linspace(-1.0, 1.0, 256)
    text = " ".join(map(str, values.tolist()))
    write(tmp_path, "usps/zip.train.gz", f"6.0000 {text} \n3 {text}\n".encode())
    write(tmp_path, "usps/zip.test", f"9 {text}\n".encode())
    X, y = load_usps(data_home=tmp_path)
    np.testing.assert_array_equal(X, [values, values])
    assert X.flags["C_CONTIGUOUS"]
    assert y.tolist() == [6, 3]
    assert y.dtype.kind == "i"
    assert load_usps("test", data_home=tmp_path)[1].tolist() == [9]
    write(tmp_path, "usps/zip.test", f"9 {text} 1\n".encode())
    with pytest.raises(ValueError, match=r"zip\.test: damaged"):
        load_usps("test", data_home=tmp_path)


def idx(values):
    header = np.array([0x0800 + values.ndim, *values.shape], dtype=">i4")
    return header.tobytes() + values.astype(np.uint8).tobytes()


IMAGES = np.arange(2 * 784).reshape(2, 28, 28) % 256


def write_mnist(folder, images, labels):
    write(folder, "mnist/train-images-idx3-ubyte.gz", images)
    write(folder, "mnist/train-labels-idx1-ubyte", labels)


def test_mnist(tmp_path, monkeypatch):
    shrink(monkeypatch, benchmark_sets, "MNIST", {"train": {0: 1, 7: 1}, "test": {}})
    write_mnist(tmp_path, idx(IMAGES), idx(np.array([7, 0])))
    X, y = load_mnist(data_home=tmp_path)
    np.testing.assert_array_equal(X, IMAGES.reshape(2, 784))
    assert X.dtype == np.float32
    assert y.tolist() == [7, 0]
    assert y.dtype.kind == "i"


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (idx(IMAGES)[:-1], idx(np.array([7, 0]))),
        (idx(IMAGES)[:7], idx(np.array([7, 0]))),
        (idx(IMAGES[:1]), idx(np.array([7, 0]))),
        (idx(IMAGES[:, :27]), idx(np.array([7, 0]))),
        (idx(IMAGES), idx(np.array([7]))),
        (idx(np.array([7, 0])), idx(IMAGES)),
    ],
    ids=["cut", "cut header", "too few images", "small images", "too few labels", "exchanged"],
)
def test_damaged_mnist(tmp_path, monkeypatch, images, labels):
    shrink(monkeypatch, benchmark_sets, "MNIST", {"train": {0: 1, 7: 1}, "test": {}})
    write_mnist(tmp_path, images, labels)
    with pytest.raises(ValueError, match=r"images-idx3.* and .*labels-idx1-ubyte: damaged"):
        load_mnist(data_home=tmp_path)


@pytest.mark.parametrize("mark", [b"@data\n", b"@DATA\r\n"])
def test_electricity(tmp_path, monkeypatch, mark):
    shrink(monkeypatch, benchmark_sets, "ELECTRICITY", {"DOWN": 1, "UP": 1})
    rows = b"0,2,0,0.1,0.2,0.3,0.4,0.5,UP\n0,3,0.5,0,0,0,0,1,DOWN"
    write(tmp_path, "electricity/elecNormNew.arff", b"@relation x\n\n" + mark + rows)
    X, y = load_electricity(data_home=tmp_path)
    assert X.tolist() == [[0, 2, 0, 0.1, 0.2, 0.3, 0.4, 0.5], [0, 3, 0.5, 0, 0, 0, 0, 1]]
    assert y.tolist() == ["UP", "DOWN"]
    write(tmp_path, "electricity/elecNormNew.arff", rows)
    with pytest.raises(ValueError, match=r"elecNormNew\.arff: damaged.*no line @data"):
        load_electricity(data_home=tmp_path)


def test_binary_adult(tmp_path, monkeypatch):
    shrink(monkeypatch, adult, "BINARY", {"train": {-1: 1, 1: 1}, "test": {1: 1}})
    write(tmp_path, "a9a/a9a.gz", b"-1 3:1 11:1 \n+1 1:1 123:1 \n")
    write(tmp_path, "a9a/a9a.t", b"+1 2:1 \n")
    X, y = load_adult(data_home=tmp_path)
    assert X.format == "csr"
    assert X.shape == (2, 123)
    assert [row.tolist() for row in X.nonzero()] == [[0, 0, 1, 1], [2, 10, 0, 122]]
    assert y.tolist() == [-1, 1]
    assert y.dtype.kind == "i"
    assert load_adult("test", data_home=tmp_path)[0].shape == (1, 123)
    for damaged in (b"+1 124:1\n", b"+1 2:one\n", b"?\n", b"", b"+1 1:1\n+1 1:1\n"):
        write(tmp_path, "a9a/a9a.t", damaged)
        with pytest.raises(ValueError, match=r"a9a\.t: damaged"):
            load_adult("test", data_home=tmp_path)


ADULT_FILE = b"""\
39, State-gov, 10, Bachelors, 13, Single, Sales, Wife, White, Male, 0, 0, 40, Cuba, <=50K
50, Private, 30, 11th, 7, Married, Care, Husband, White, Female, 5, 1, 13, Peru, >50K
90, Private, 20, 11th, 9, Married, ?, Wife, White, Male, 5, 1, 20, Peru, >50K
20, Private, 20, Bachelors, 9, Married, Tech, Wife, Black, Male, 10, 4, 20, Peru, >50K

"""
ADULT_TEST_FILE = b"""\
|1x3 Cross validator
60, State-gov, 20, 11th, 13, Single, ?, Wife, White, Male, 0, 0, 40, Peru, >50K.
58, Private, 20, 11th, 13, Single, Sales, Wife, White, Male, 0, 0, 40, Peru, <=50K.
"""


@pytest.fixture
def small_adult(tmp_path, monkeypatch):
    shrink(monkeypatch, adult, "RAW", {"train": {-1: 1, 1: 3}, "test": {-1: 1, 1: 1}})
    write(tmp_path, "adult/adult.data.gz", ADULT_FILE)
    write(tmp_path, "adult/adult.test", ADULT_TEST_FILE)
    return tmp_path


def test_integer_adult(small_adult):
    X, y = load_adult(encoding="integer", data_home=small_adult)
    # Such as occupation: ? < Care < Sales < Tech.
    assert X.tolist() == [
        [39, 1, 10, 1, 13, 1, 2, 1, 1, 1, 0, 0, 40, 0],
        [50, 0, 30, 0, 7, 0, 1, 0, 1, 0, 5, 1, 13, 1],
        [90, 0, 20, 0, 9, 0, 0, 1, 1, 1, 5, 1, 20, 1],
        [20, 0, 20, 1, 9, 0, 3, 1, 0, 1, 10, 4, 20, 1],
    ]
    assert X.dtype == np.float64
    assert y.tolist() == [-1, 1, 1, 1]
    X, y = load_adult("test", encoding="integer", data_home=small_adult)
    assert X.tolist() == [
        [60, 1, 20, 0, 13, 1, 0, 1, 1, 1, 0, 0, 40, 1],
        [58, 0, 20, 0, 13, 1, 2, 1, 1, 1, 0, 0, 40, 1],
    ]
    assert y.tolist() == [1, -1]


def test_rows_with_unknown_values_are_left_out(small_adult):
    options = {"encoding": "integer", "drop_missing": True, "data_home": small_adult}
    X, y = load_adult(**options)
    assert X[:, 0].tolist() == [39, 50, 20]
    # The codes are those of all rows.
    assert X[:, 6].tolist() == [2, 1, 3]
    assert y.tolist() == [-1, 1, 1]
    X, y = load_adult("test", **options)
    assert X[:, 0].tolist() == [58]
    assert y.tolist() == [-1]


@pytest.mark.parametrize(("drop_missing", "oldest"), [(False, 90), (True, 50)])
def test_scaling_is_that_of_the_training_part(small_adult, drop_missing, oldest):
    options = {"encoding": "integer", "drop_missing": drop_missing, "data_home": small_adult}
    X, _ = load_adult(scale=True, **options)
    assert X.min(axis=0).tolist() == [0.0] * 14
    assert X.max(axis=0).tolist() == [1.0] * 14
    assert X[0, 0] == (39 - 20) / (oldest - 20)
    X, _ = load_adult("test", scale=True, **options)
    assert X[-1, 0] == (58 - 20) / (oldest - 20)


def test_damaged_integer_adult(small_adult):
    write(small_adult, "adult/adult.test", ADULT_TEST_FILE.replace(b"Peru", b"Atlantis"))
    with pytest.raises(ValueError, match=r"adult\.test has .*Atlantis"):
        load_adult("test", encoding="integer", data_home=small_adult)
    for damaged in (
        ADULT_FILE.replace(b"39", b"old"),
        ADULT_FILE.replace(b"<=50K", b"poor"),
        ADULT_FILE.replace(b"Cuba, ", b""),
        ADULT_FILE[:-20],
        b"|1x3 Cross validator",
        b"",
    ):
        write(small_adult, "adult/adult.data.gz", damaged)
        with pytest.raises(ValueError, match=r"adult\.data\.gz: damaged"):
            load_adult(encoding="integer", data_home=small_adult)


# Arguments


@pytest.mark.parametrize("load", [load_adult, load_usps, load_mnist])
def test_unknown_parts(load):
    with pytest.raises(ValueError, match="'subset' parameter"):
        load("validation")


def test_arguments_of_adult():
    with pytest.raises(ValueError, match="'encoding' parameter"):
        load_adult(encoding="one-hot")
    for option in ("drop_missing", "scale"):
        with pytest.raises(ValueError, match="need encoding='integer'"):
            load_adult(**{option: True})


# OpenML, as scikit-learn gives it without pandas: nominal features as codes, NaN if missing


@pytest.mark.usefixtures("two_returns")
def test_ionosphere_of_openml(tmp_path, openml):
    asked = openml(data=IONOSPHERE_X, target=np.array(["g", "b"], dtype=object))
    X, y = load_ionosphere(data_home=tmp_path)
    assert asked == [("ionosphere", 1)]
    np.testing.assert_array_equal(X, IONOSPHERE_X)
    assert y.tolist() == ["g", "b"]
    assert y.dtype == "<U1"


def test_votes_of_openml(monkeypatch, openml):
    shrink(monkeypatch, benchmark_sets, "VOTES", {"democrat": 2})
    names = [f"vote {i}" for i in range(16)]
    # The order of the categories differs from feature to feature.
    categories = {name: ["n", "y"] if i % 2 else ["y", "n"] for i, name in enumerate(names)}
    data = np.array([[0.0] * 16, [np.nan, *[1.0] * 15]])
    openml(
        data=data,
        target=np.array(["democrat"] * 2, dtype=object),
        feature_names=names,
        categories=categories,
    )
    X, _ = load_votes()
    assert X.tolist() == [[1.0, -1.0] * 8, [0.0, 1.0] + [-1.0, 1.0] * 7]


def test_digits_of_openml(monkeypatch, openml):
    shrink(monkeypatch, benchmark_sets, "USPS", {"train": {0: 1, 9: 1}, "test": {4: 1}})
    shrink(monkeypatch, benchmark_sets, "MNIST", {"train": {1: 2}, "test": {5: 1}}, n_features=256)
    data = np.arange(3.0 * 256).reshape(3, 256)
    asked = openml(data=data, target=np.array(["10", "1", "5"], dtype=object))
    X, y = load_usps()
    np.testing.assert_array_equal(X, data[:2])
    assert y.tolist() == [9, 0]
    X, y = load_usps("test")
    np.testing.assert_array_equal(X, data[2:])
    assert y.tolist() == [4]
    assert asked == [("USPS", 2)] * 2

    asked = openml(data=data, target=np.array(["1", "1", "5"], dtype=object))
    X, y = load_mnist("test")
    np.testing.assert_array_equal(X, data[2:])
    assert X.dtype == np.float32
    assert y.tolist() == [5]
    assert asked == [("mnist_784", 1)]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]], ids=["train first", "test first"])
def test_adult_of_openml(openml, monkeypatch, order):
    shrink(monkeypatch, adult, "RAW", {"train": {-1: 2}, "test": {1: 1}})
    names = [f"column {i}" for i in range(14)]
    data = np.zeros((3, 14))
    data[:, 0] = [39, 50, 60]
    data[:, 1] = [1, np.nan, 1]
    asked = openml(
        data=data[order],
        target=np.array(["<=50K", "<=50K", ">50K"], dtype=object)[order],
        feature_names=names,
        categories={name: ["b", "a"] for i, name in enumerate(names) if i not in adult.NUMBERS},
    )
    X, y = load_adult(encoding="integer")
    assert asked == [("adult", 2)]
    assert X[:, 0].tolist() == [39, 50]
    # '?' < 'a'
    assert X[:, 1].tolist() == [1, 0]
    assert y.tolist() == [-1, -1]
    X, y = load_adult("test", encoding="integer")
    assert X[:, :2].tolist() == [[60, 1]]
    assert y.tolist() == [1]
    X, y = load_adult(encoding="integer", drop_missing=True)
    assert X[:, 0].tolist() == [39]


@pytest.mark.usefixtures("two_returns")
@pytest.mark.parametrize(("rows", "labels"), [(2, "gg"), (2, "gx"), (3, "ggg")])
def test_unexpected_data_of_openml(openml, rows, labels):
    openml(data=np.zeros((rows, 34)), target=np.array(list(labels), dtype=object))
    with pytest.raises(ValueError, match="OpenML's data set 'ionosphere', version 1: damaged"):
        load_ionosphere()


# The real data
LARGE_PARTS = [
    (load_usps, {"subset": "train"}, (7291, 256), -1, 1),
    (load_mnist, {"subset": "train"}, (60000, 784), 0, 255),
    (load_adult, {"subset": "train"}, (32561, 123), 0, 1),
    (load_adult, {"encoding": "integer", "scale": True}, (32561, 14), 0, 1),
]


@needs_real_data
@pytest.mark.parametrize(
    ("load", "arguments", "shape", "low", "high"),
    [
        (load_ionosphere, {}, (351, 34), -1, 1),
        (load_votes, {}, (435, 16), -1, 1),
        (load_electricity, {}, (45312, 8), 0, 7),
        (load_usps, {"subset": "test"}, (2007, 256), -1, 1),
        (load_mnist, {"subset": "test"}, (10000, 784), 0, 255),
        (load_adult, {"subset": "test"}, (16281, 123), 0, 1),
        *everything_or([], LARGE_PARTS),
    ],
)
def test_real_data(load, arguments, shape, low, high):
    # The numbers of rows by class are checked by the loaders.
    X, y = load(data_home=REAL_DATA, **arguments)
    assert X.shape == shape
    assert y.shape == shape[:1]
    assert X.min() == low
    assert X.max() == high


@needs_real_data
def test_real_votes_that_are_not_known():
    X, _ = load_votes(data_home=REAL_DATA)
    assert np.sum(X == 0) == 392
    assert np.flatnonzero(~X.any(axis=1)).tolist() == [248]


@needs_real_data
@pytest.mark.parametrize(
    ("subset", "nnz", "complete", "positive"),
    [("test", 225731, 15060, 3700), *everything_or([], [("train", 451592, 30162, 7508)])],
)
def test_real_adult(subset, nnz, complete, positive):
    X, y = load_adult(subset, data_home=REAL_DATA)
    assert X.nnz == nnz
    raw, raw_y = load_adult(subset, encoding="integer", data_home=REAL_DATA)
    np.testing.assert_array_equal(raw_y, y)
    assert raw.shape == (y.size, 14)
    kept, kept_y = load_adult(
        subset, encoding="integer", drop_missing=True, scale=True, data_home=REAL_DATA
    )
    assert kept.shape == (complete, 14)
    assert np.sum(kept_y == 1) == positive
