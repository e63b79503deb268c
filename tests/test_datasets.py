import numpy as np
import pytest
from scipy.stats import binom

from maxmargin.datasets import make_r_of_k, make_separable


@pytest.mark.parametrize(("r", "bias"), [(1, 15.0), (4, 9.0), (8, 1.0)])
def test_r_of_k_is_labelled_by_its_rule(r, bias):
    X, y, w, b = make_r_of_k(500, 50, k=16, r=r, random_state=0, return_target=True)
    assert b == bias
    assert np.unique(X).tolist() == [-1.0, 1.0]
    assert sorted(np.unique(w, return_counts=True)[1]) == [16, 34]
    at_least_r = np.sum(X[:, w == 1.0] == 1.0, axis=1) >= r
    np.testing.assert_array_equal(y, np.where(at_least_r, 1, -1))
    np.testing.assert_array_equal(y, np.sign(X @ w + b))


@pytest.mark.parametrize("r", [1, 4, 8, 16])
def test_r_of_k_is_balanced_and_binomial_given_the_class(r):
    n = 20_000
    X, y, w, _ = make_r_of_k(n, 20, k=16, r=r, random_state=0, return_target=True)
    # Four standard deviations of the mean of n coins.
    assert abs(np.mean(y)) < 4 / np.sqrt(n)
    ones = np.sum(X[:, w == 1.0] == 1.0, axis=1)
    counts = np.arange(17)
    for label, possible in ((1, counts >= r), (-1, counts < r)):
        expected = binom.pmf(counts, 16, 0.5) * possible
        expected /= expected.sum()
        observed = np.bincount(ones[y == label], minlength=17) / np.sum(y == label)
        deviation = np.sqrt(expected * (1 - expected) / np.sum(y == label))
        assert np.all(np.abs(observed - expected) <= 5 * deviation)
    # Places of the ones, and the features that do not matter.
    each = np.mean(X, axis=0)
    assert np.ptp(each[w == 1.0]) < 8 / np.sqrt(n)
    assert np.all(np.abs(each[w == 0.0]) < 5 / np.sqrt(n))


def test_r_of_k_hides_where_the_relevant_features_are():
    targets = [make_r_of_k(1, 8, k=2, random_state=s, return_target=True)[2] for s in range(50)]
    assert np.all(np.sum(targets, axis=0) > 0)


def test_separable_respects_the_gap():
    X, y, w, b = make_separable(2000, 6, gap=0.7, random_state=0, return_target=True)
    assert X.shape == (2000, 6)
    assert X.min() >= 0.0
    assert X.max() <= 10.0
    assert np.linalg.norm(w) == pytest.approx(1.0)
    assert np.full(6, 5.0) @ w + b == pytest.approx(0.0, abs=1e-12)
    assert np.min(y * (X @ w + b)) >= 0.7
    # Points are dropped only near the hyperplane, and fill the cube up to there.
    assert np.min(y * (X @ w + b)) < 0.71
    assert abs(np.mean(y)) < 5 / np.sqrt(2000)


def test_separable_without_a_gap_fills_the_cube():
    X, y, w, b = make_separable(4000, 3, gap=0.0, random_state=0, return_target=True)
    assert np.min(y * (X @ w + b)) < 0.01
    np.testing.assert_allclose(X.mean(axis=0), 5.0, atol=5 * 10 / np.sqrt(12 * 4000))


@pytest.mark.parametrize("make", [make_r_of_k, make_separable])
def test_seeds(make):
    first, same, other = (make(30, 20, random_state=seed) for seed in (3, 3, 4))
    for one, two in zip(first, same, strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(first[0], other[0])
    with_target = make(30, 20, random_state=3, return_target=True)
    assert len(first) == 2
    assert len(with_target) == 4
    np.testing.assert_array_equal(first[0], with_target[0])


@pytest.mark.parametrize("make", [make_r_of_k, make_separable])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "'n_samples' parameter"),
        ({"n_features": 0}, "'n_features' parameter"),
        ({"n_samples": 2.5}, "'n_samples' parameter"),
        ({"random_state": "today"}, "'random_state' parameter"),
        ({"return_target": 2}, "'return_target' parameter"),
    ],
)
def test_errors(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "'k' parameter"),
        ({"r": 0}, "'r' parameter"),
        ({"r": 5, "k": 4}, "r <= k <= n_features is needed, got r=5, k=4"),
        ({"k": 11, "n_features": 10}, "r <= k <= n_features is needed, got r=1, k=11"),
    ],
)
def test_errors_of_r_of_k(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_r_of_k(**arguments)


@pytest.mark.parametrize(
    ("gap", "message"), [(-0.1, "'gap' parameter"), (100.0, "'gap' parameter must leave room")]
)
def test_errors_of_separable(gap, message):
    with pytest.raises(ValueError, match=message):
        make_separable(gap=gap)
