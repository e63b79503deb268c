"""Columns of tables as rows of numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction import FeatureHasher
from sklearn.preprocessing import OneHotEncoder

from maxmargin.streams.encoding import Encoder, Hashed, OneHot, labels_of

pa = pytest.importorskip("pyarrow")


def reference_hash(text, seed):
    """MurmurHash3 (Austin Appleby, public domain), x86, 32 bits, in plain Python."""
    data, mask = text.encode(), 0xFFFFFFFF

    def rotate(x, r):
        return ((x << r) | (x >> (32 - r))) & mask

    h = seed
    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        k = rotate(int.from_bytes(data[i : i + 4], "little") * 0xCC9E2D51 & mask, 15)
        h = (rotate(h ^ (k * 0x1B873593 & mask), 13) * 5 + 0xE6546B64) & mask
    if data[whole:]:
        k = rotate(int.from_bytes(data[whole:], "little") * 0xCC9E2D51 & mask, 15)
        h ^= k * 0x1B873593 & mask
    h ^= len(data)
    h = (h ^ (h >> 16)) * 0x85EBCA6B & mask
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - 2**32 if h >= 2**31 else h


def test_numbers_are_columns_of_an_array():
    columns = {
        "whole": pa.array([1, 2**60 + 1, -3], pa.int64()),
        "small": pa.array([1, 2, 255], pa.uint8()),
        "half": pa.array(np.array([0.5, 1.5, -2.0], np.float16)),
        "single": pa.array([0.1, 0.2, 0.3], pa.float32()),
        "yes": pa.array([True, False, True]),
        "money": pa.array(["1.25", "2.50", "3.75"]).cast(pa.decimal128(9, 2)),
    }
    table = pa.table(columns)
    X, bad, _ = Encoder(dict.fromkeys(columns, "number"), OneHot({})).encode(table)
    assert bad is None
    assert X.dtype == np.float64
    expected = [[float(row[name]) for name in columns] for row in table.to_pylist()]
    np.testing.assert_array_equal(X, expected)


def test_one_hot_equals_scikit_learn():
    rng = np.random.default_rng(0)
    city, colour = rng.choice(["Rom", "Paris", "Ulm"], 50), rng.choice(["red", "blue"], 50)
    number = rng.integers(-1, 2, 50).astype(float)
    table = pa.table({"city": city, "number": number, "colour": colour})
    vocabulary = {"city": sorted(set(city)), "colour": sorted(set(colour))}
    kinds = {"city": "text", "number": "number", "colour": "text"}
    X, _, _ = Encoder(kinds, OneHot(vocabulary)).encode(table)
    left, right = (
        OneHotEncoder().fit_transform(column[:, np.newaxis]) for column in (city, colour)
    )
    expected = sparse.hstack([left, number[:, np.newaxis], right]).toarray()
    np.testing.assert_array_equal(X.toarray(), expected)
    assert X.has_canonical_format
    assert np.all(X.data != 0)


def test_values_without_a_column_have_no_entry():
    table = pa.table({"city": ["Ulm", "unknown", None, "", "Rom"]})
    X, bad, _ = Encoder({"city": "text"}, OneHot({"city": ["Rom", "Ulm"]})).encode(table)
    np.testing.assert_array_equal(X.toarray(), [[0, 1], [0, 0], [0, 0], [0, 0], [1, 0]])
    assert bad is None
    X, _, _ = Encoder({"city": "text"}, Hashed(4, 0)).encode(table)
    np.testing.assert_array_equal(X.sum(axis=1).ravel(), [[1, 1, 0, 0, 1]])


@pytest.mark.parametrize("bits", [1, 5, 18])
def test_hash_equals_feature_hasher(bits):
    rng = np.random.default_rng(1)
    texts = {
        name: rng.choice(["α", "b", "long value"], 40) for name in ("first", "second", "third")
    }
    table = pa.table({"first": texts["first"], "x": np.ones(40), **texts})
    kinds = {"first": "text", "x": "number", "second": "text", "third": "text"}
    encoder = Encoder(kinds, Hashed(bits, 0))
    X, _, _ = encoder.encode(table)
    assert X.shape == (40, encoder.width) == (40, 1 + 2**bits)
    hasher = FeatureHasher(2**bits, alternate_sign=False)
    rows = [{name: values[i] for name, values in texts.items()} for i in range(40)]
    assert (X[:, 1:] != hasher.transform(rows)).nnz == 0
    np.testing.assert_array_equal(X[:, :1].toarray(), np.ones((40, 1)))


@settings(max_examples=60, deadline=None)
@given(
    name=st.text(max_size=5),
    values=st.lists(st.text(min_size=1, max_size=9), min_size=1, max_size=6),
    seed=st.integers(0, 2**31 - 1),
    bits=st.integers(1, 20),
)
def test_hash_is_murmurhash(name, values, seed, bits):
    places = Hashed(bits, seed).places(name, values)
    assert places == [abs(reference_hash(f"{name}={v}", seed)) % 2**bits for v in values]


def test_categories_of_numbers_and_dictionaries_are_text():
    codes = pa.array(["b", None, "a", "b"]).dictionary_encode()
    years = pa.array([2001, 2002, 2001, None])
    table = pa.table({"code": pa.chunked_array([codes, codes[:0]]), "year": years})
    spread = OneHot({"code": ["a", "b"], "year": ["2001", "2002"]})
    X, _, _ = Encoder({"code": "text", "year": "text"}, spread).encode(table)
    expected = [[0, 1, 1, 0], [0, 0, 0, 1], [1, 0, 1, 0], [0, 1, 0, 0]]
    np.testing.assert_array_equal(X.toarray(), expected)


@pytest.mark.parametrize("with_text", [False, True])
def test_bad_rows_are_found(with_text):
    columns = {"u": [1.0, None, 3.0, 4.0, 1e308], "v": [1.0, 2.0, np.inf, np.nan, 1e308]}
    kinds = {"u": "number", "v": "number"}
    if with_text:
        columns, kinds = {**columns, "t": list("abcde")}, {**kinds, "t": "text"}
    table = pa.table(columns)
    encoder = Encoder(kinds, Hashed(3, 0))
    _, bad, _ = encoder.encode(table)
    assert bad.tolist() == [False, True, True, True, False]
    troubles = [encoder.trouble(table, row) for row in (1, 2, 3)]
    missing, infinite = ("the number is missing",), ("the number is infinite",)
    assert troubles == [("u", missing), ("v", infinite), ("v", missing)]


def test_large_numbers_are_not_infinite():
    table = pa.table({"u": [1e308, 1e308], "v": [1e308, 1e308]})
    X, bad, _ = Encoder({"u": "number", "v": "number"}, OneHot({})).encode(table)
    assert bad is None
    np.testing.assert_array_equal(X, np.full((2, 2), 1e308))


@pytest.mark.parametrize(
    ("values", "kind", "dtype"),
    [
        ([3, None, -1], "number", np.int64),
        ([True, None, False], "boolean", np.bool_),
        ([0.5, None, 1.5], "number", np.float64),
        (["b", None, "a"], "text", np.str_),
    ],
)
def test_labels_keep_their_type(values, kind, dtype):
    labels, missing = labels_of(pa.chunked_array([pa.array(values)]), kind)
    assert np.issubdtype(labels.dtype, dtype)
    assert missing.tolist() == [False, True, False]
    assert labels[~missing].tolist() == [values[0], values[2]]
