"""Columns of tables as rows of numbers."""

import numpy as np
import pytest
from sklearn.feature_extraction import FeatureHasher
from sklearn.preprocessing import OneHotEncoder

from maxmargin import streams
from maxmargin.streams import Recipe, StreamError
from maxmargin.streams.arrow import labels_of

pa = pytest.importorskip("pyarrow")


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
    X = Recipe(dict.fromkeys(columns, "number"), scale=False).fit_transform(table)
    assert X.dtype == np.float64
    expected = [[float(row[name]) for name in columns] for row in table.to_pylist()]
    np.testing.assert_array_equal(X, expected)


def test_one_hot_equals_scikit_learn():
    rng = np.random.default_rng(0)
    city, colour = rng.choice(["Rom", "Paris", "Ulm"], 50), rng.choice(["red", "blue"], 50)
    number = rng.integers(-1, 2, 50).astype(float)
    table = pa.table({"city": city, "number": number, "colour": colour})
    kinds = {"city": "category", "number": "number", "colour": "category"}
    recipe = Recipe(kinds, scale=False).fit(table)
    X, names = recipe.transform(table), recipe.get_feature_names_out().tolist()
    np.testing.assert_array_equal(X[:, 0].toarray().ravel(), number)
    assert X[:, 1:5].nnz == 0  # for missing and for other values
    encoder = OneHotEncoder().fit(np.column_stack([city, colour]))
    hot = encoder.transform(np.column_stack([city, colour]))
    for place, name in enumerate(encoder.get_feature_names_out(["city", "colour"])):
        mine = X[:, names.index(name.replace("_", "="))]
        np.testing.assert_array_equal(mine.toarray(), hot[:, place].toarray())
    assert X.has_canonical_format
    assert np.all(X.data != 0)


def test_missing_and_other_values_have_columns():
    recipe = Recipe({"city": "category"}).fit(pa.table({"city": ["Rom", "Ulm"]}))
    X = recipe.transform(pa.table({"city": ["Ulm", "unknown", None, "", "Rom"]}))
    expected = [[0, 0, 0, 1], [0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]]
    np.testing.assert_array_equal(X.toarray(), expected)


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
    X = Recipe({"code": "category", "year": "category"}).fit_transform(table)
    expected = [
        [0, 0, 0, 0, 1, 1, 0, 0],
        [1, 0, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 1, 0, 1],
        [0, 0, 1, 0, 1, 0, 0, 0],
    ]
    np.testing.assert_array_equal(X.toarray(), expected)


def test_bad_rows_are_found():
    columns = {"u": [1.0, None, 3.0, 4.0, 1e100], "v": [1.0, 2.0, np.inf, np.nan, 1e101]}
    table = pa.table({**columns, "y": [0, 1, 0, 1, 0]})
    for row, why in (
        (1, "'u': the number is missing"),
        (2, "'v': the number is infinite"),
        (3, "'v': the number is missing"),
        (4, "'v': the number is too large"),
    ):
        for recipe in (None, Recipe(missing="error")):
            source = streams.open(table.slice(row, 1), recipe=recipe)
            with pytest.raises(StreamError, match=f"row 1, column {why}"):
                list(source.blocks())


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
