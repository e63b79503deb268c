"""Iterables of blocks and of dicts as sources."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction import DictVectorizer, FeatureHasher

from maxmargin import Perceptron
from maxmargin.streams import StreamError, iterators
from maxmargin.streams.iterators import IteratorSource


def make_pairs(seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(n, 3)), rng.choice([-1, 1], n)) for n in (4, 1, 7, 2)]


def make_dicts(rows=30, seed=0):
    rng = np.random.default_rng(seed)
    return [
        (
            {
                "city": str(rng.choice(["Ulm", "Rom"])),
                **{f"x{j}": float(rng.normal()) for j in rng.choice(6, 3, replace=False)},
                "zero": 0,
                "open": bool(rng.random() < 0.5),
            },
            str(rng.choice(["no", "yes"])),
        )
        for _ in range(rows)
    ]


class StartsAnew:
    """An iterable that is not a list, and can be read more than once."""

    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return iter(self.items)


def rows_of(source, start=0, width=None):
    blocks = list(source.blocks(start))
    dense = [block.X.toarray() if sparse.issparse(block.X) else block.X for block in blocks]
    width = width or dense[-1].shape[1]
    dense = [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in dense]
    y = None if blocks[0].y is None else np.concatenate([block.y for block in blocks])
    return np.vstack(dense), y


@pytest.mark.parametrize("wrap", [list, StartsAnew, iter])
@pytest.mark.parametrize("as_matrix", [False, True])
def test_blocks_come_as_they_are(wrap, as_matrix):
    pairs = make_pairs()
    given_pairs = [(sparse.csr_matrix(X), y) for X, y in pairs] if as_matrix else pairs
    source = IteratorSource(wrap(given_pairs))
    survey = source.survey()
    assert source.repeatable == (wrap is not iter)
    assert survey.rows == (14 if source.repeatable else None)
    assert (survey.classes.tolist(), survey.width) == ([-1, 1], 3)
    for _ in range(2 if source.repeatable else 1):
        X, y = rows_of(source)
        np.testing.assert_array_equal(X, np.vstack([X for X, _ in pairs]))
        np.testing.assert_array_equal(y, np.concatenate([y for _, y in pairs]))


def test_the_survey_of_what_is_read_once_takes_one_block():
    taken = []

    def numbered():
        for pair in make_pairs():
            taken.append(pair)
            yield pair

    source = IteratorSource(numbered())
    source.survey()
    source.identity()
    assert len(taken) == 1
    assert sum(block.X.shape[0] for block in source.blocks()) == 14


@pytest.mark.parametrize("wrap", [list, iter])
@pytest.mark.parametrize("items", [make_pairs(), make_dicts()])
def test_taken_up_again_after_each_row(wrap, items, monkeypatch):
    monkeypatch.setattr(iterators, "ROWS_AT_ONCE", 7)
    X, y = rows_of(IteratorSource(items))
    blocks = list(IteratorSource(items).blocks())
    for block, follower in pairwise(blocks):
        rest = list(IteratorSource(wrap(items)).blocks(block.end))
        assert rest[0].end == follower.end
    for row in range(len(y)):
        rest, labels = rows_of(IteratorSource(wrap(items)), row, X.shape[1])
        np.testing.assert_array_equal(rest, X[row:])
        np.testing.assert_array_equal(labels, y[row:])


@pytest.mark.parametrize("block_size", [1, 100, 10**6])
@pytest.mark.parametrize("wrap", [list, iter])
def test_dicts_equal_dict_vectorizer(wrap, block_size):
    dicts = make_dicts()
    source = IteratorSource(wrap(dicts), block_size=block_size)
    X, y = rows_of(source)
    names = source.schema()["columns"]
    vectorizer = DictVectorizer(sparse=False, sort=False)
    expected = vectorizer.fit_transform([row for row, _ in dicts])
    assert names == vectorizer.feature_names_
    np.testing.assert_array_equal(X, expected)
    assert y.tolist() == [label for _, label in dicts]


def test_another_iterable_is_read_alike():
    dicts = make_dicts()
    schema = IteratorSource(dicts).schema()
    assert schema.pop("format") == "iterator"
    X, _ = rows_of(IteratorSource(dicts))
    backwards = [dict(reversed({**row, "unknown": 1}.items())) for row, _ in dicts]
    again, y = rows_of(IteratorSource(iter(backwards), **schema))
    np.testing.assert_array_equal(again, X)
    assert y is None


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {},
            optional=dict.fromkeys("abc", st.floats(allow_nan=False, allow_infinity=False))
            | dict.fromkeys("def", st.sampled_from(["u", "v"])),
        ),
        min_size=1,
        max_size=20,
    ),
    block_size=st.integers(1, 100),
)
def test_any_dicts(rows, block_size):
    source = IteratorSource(rows, block_size=block_size)
    X, y = rows_of(source)
    assert y is None
    names = source.schema().get("columns", [])
    read = [{name: row[at] for at, name in enumerate(names) if row[at]} for row in X.tolist()]
    flat = [
        {
            f"{k}={v}" if isinstance(v, str) else k: 1 if isinstance(v, str) else v
            for k, v in r.items()
        }
        for r in rows
    ]
    assert read == [{name: value for name, value in row.items() if value} for row in flat]


GOOD = (np.zeros((2, 3)), np.zeros(2))


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([GOOD, (np.zeros((2, 4)), np.zeros(2))], "block 2: 4 columns, expected 3"),
        ([GOOD, (np.zeros((2, 3)), np.zeros(1))], "block 2: 2 rows, but labels of shape"),
        ([GOOD, np.zeros((3, 3))], r"block 2: expected a pair \(X, y\)"),
        ([GOOD, (np.zeros(3), 1)], "block 2: expected numbers in two dimensions"),
        ([GOOD, (np.zeros((2, 3)), None)], "block 2: some rows have labels, some none"),
        ([7], r"block 1: expected a pair \(X, y\)"),
        ([({"a": 1}, 0), ({"a": None}, 1)], "row 2, column 'a': expected a finite number or text"),
        ([({"a": 1}, 0), ({"a": np.nan}, 1)], "row 2, column 'a': expected a finite number"),
        ([({"a": 1}, 0), ([1], 1)], "row 2: expected a dict and a label"),
        ([({"a": 1}, 0), 5], "row 2: expected a dict and a label"),
        ([({"a": 1}, 0), ({"a": 1}, "b")], "rows 1 to 2: labels must be all numbers or all text"),
        ([({"a": 1}, 0), ({"a": 1}, None)], "rows 1 to 2: labels must be all"),
        ([({"a": 1}, 0.0), ({"a": 1}, np.nan)], "rows 1 to 2: labels must be all"),
    ],
)
@pytest.mark.parametrize("wrap", [list, iter])
def test_bad_items_are_named(items, message, wrap):
    with pytest.raises(StreamError, match=message):
        list(IteratorSource(wrap(items)).blocks())


def test_errors_of_the_iterator_are_its_own():
    def broken():
        yield GOOD
        raise RuntimeError("the line is dead")

    with pytest.raises(RuntimeError, match="the line is dead"):
        list(IteratorSource(broken()).blocks())


@pytest.mark.parametrize("wrap", [list, iter])
def test_nothing_at_all(wrap):
    source = IteratorSource(wrap([]))
    assert source.survey().classes is None
    assert list(source.blocks()) == []


def test_identity_is_that_of_the_first_block():
    pairs = make_pairs()
    known = IteratorSource(pairs).identity()
    assert IteratorSource(iter(pairs)).identity() == known
    assert IteratorSource(make_pairs(1)).identity() != known


def test_names_without_end_in_a_bounded_number_of_columns():
    hasher, names = FeatureHasher(2**10), iter(range(10**6))
    rows = [{f"name {next(names)}": 1.0, f"page {k % 7}": 1.0} for k in range(20_000)]
    y = np.arange(20_000) % 7 < 3
    parts = [slice(k, k + 1000) for k in range(0, 20_000, 1000)]
    clf = Perceptron().fit_stream([(hasher.transform(rows[part]), y[part]) for part in parts])
    assert clf.n_features_in_ == 2**10
    assert clf.score(hasher.transform(rows), y) > 0.9
