"""Columns of tables as rows of numbers."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction import FeatureHasher
from sklearn.preprocessing import OneHotEncoder

from maxmargin.streams import Recipe
from maxmargin.streams.arrow import labels_of
from maxmargin.streams.recipe_plan import identity_plan

pa = pytest.importorskip("pyarrow")


def encoded(table, kinds, vocabulary=None):
    """The rows of a table without a recipe, and which of them cannot be used."""
    plan, known = identity_plan(kinds, vocabulary or {})
    parts, bad, lacking = plan.encode(table)
    assert lacking is None
    X, _ = plan.prepare(parts, known, learn=False)
    assert X.shape[1] == plan.width(known) == len(plan.feature_names(known))
    return X, bad


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
    X, bad = encoded(table, dict.fromkeys(columns, "number"))
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
    X, _ = encoded(table, kinds, vocabulary)
    left, right = (
        OneHotEncoder().fit_transform(column[:, np.newaxis]) for column in (city, colour)
    )
    empty = np.zeros((50, 4))  # for missing and for other values
    expected = sparse.hstack([number[:, np.newaxis], empty, left, right]).toarray()
    np.testing.assert_array_equal(X.toarray(), expected)
    assert X.has_canonical_format
    assert np.all(X.data != 0)


def test_missing_and_other_values_have_columns():
    table = pa.table({"city": ["Ulm", "unknown", None, "", "Rom"]})
    X, bad = encoded(table, {"city": "text"}, {"city": ["Rom", "Ulm"]})
    expected = [[0, 0, 0, 1], [0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]]
    np.testing.assert_array_equal(X.toarray(), expected)
    assert bad is None


@pytest.mark.parametrize("bits", [1, 5, 18])
def test_hash_equals_feature_hasher(bits):
    rng = np.random.default_rng(1)
    texts = {
        name: rng.choice(["α", "b", "long value"], 40) for name in ("first", "second", "third")
    }
    table = pa.table({"x": np.ones(40), **texts})
    kinds = {"x": "number", **dict.fromkeys(texts, "hashed")}
    recipe = Recipe(kinds, scale=False, hash_bits=bits).fit(table)
    X, running = recipe.transform(table), recipe.running_
    hasher = FeatureHasher(2**bits, alternate_sign=False)
    rows = [{name: values[i] for name, values in texts.items()} for i in range(40)]
    expected = hasher.transform(rows)
    assert running.buckets.tolist() == sorted(set(expected.indices))
    assert (X[:, 1 + running.bucket_columns] != expected[:, running.buckets]).nnz == 0
    np.testing.assert_array_equal(X[:, :1].toarray(), np.ones((40, 1)))


def test_categories_of_numbers_and_dictionaries_are_text():
    codes = pa.array(["b", None, "a", "b"]).dictionary_encode()
    years = pa.array([2001, 2002, 2001, None])
    table = pa.table({"code": pa.chunked_array([codes, codes[:0]]), "year": years})
    vocabulary = {"code": ["a", "b"], "year": ["2001", "2002"]}
    X, _ = encoded(table, {"code": "text", "year": "text"}, vocabulary)
    expected = [
        [0, 0, 0, 0, 0, 1, 1, 0],
        [1, 0, 0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 1, 0, 1, 0],
        [0, 0, 1, 0, 0, 1, 0, 0],
    ]
    np.testing.assert_array_equal(X.toarray(), expected)


@pytest.mark.parametrize("with_text", [False, True])
def test_bad_rows_are_found(with_text):
    columns = {"u": [1.0, None, 3.0, 4.0, 1e100], "v": [1.0, 2.0, np.inf, np.nan, 1e101]}
    kinds = {"u": "number", "v": "number"}
    if with_text:
        columns, kinds = {**columns, "t": list("abcde")}, {**kinds, "t": "text"}
    table = pa.table(columns)
    plan, _ = identity_plan(kinds, {"t": ["a", "b"]})
    _, bad, _ = plan.encode(table)
    assert bad.tolist() == [False, True, True, True, True]
    troubles = [plan.trouble(table, row) for row in (1, 2, 3, 4)]
    missing, infinite = ("the number is missing",), ("the number is infinite",)
    large = ("the number is too large",)
    assert troubles == [("u", missing), ("v", infinite), ("v", missing), ("v", large)]


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
