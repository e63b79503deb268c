import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import binom, multivariate_normal

from maxmargin.datasets import make_drifting, make_r_of_k, make_separable, make_switching


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
        make_separable(gap=gap, random_state=0)


# ------------------------------------------------------------------------------ moving mixtures


def posteriors(X, y, means, period, std):
    """The probability of each row's own class."""
    result, gaussian = np.empty(len(X)), multivariate_normal([0.0, 0.0], std**2)
    for i, (x, label, t) in enumerate(zip(X, y, period, strict=True)):
        logs = gaussian.logpdf(x - means[t])
        negative, positive = logsumexp(logs.reshape(2, -1), axis=1)
        result[i] = expit(label * (positive - negative))
    return result


both_moving = pytest.mark.parametrize("make", [make_drifting, make_switching])


@both_moving
def test_moving_shapes(make):
    X, y, means, period = make(47, every=10, n_components=3, random_state=0, return_target=True)
    assert X.shape == (47, 2)
    assert means.shape == (5, 2, 3, 2)
    assert set(y.tolist()) == {-1, 1}
    np.testing.assert_array_equal(period, np.arange(47) // 10)
    for seed, same in ((0, True), (1, False)):
        again = make(47, every=10, n_components=3, random_state=seed)
        assert len(again) == 2
        assert np.array_equal(again[0], X) is same


@both_moving
@pytest.mark.parametrize(
    ("purity", "components", "std"), [(0.5, 2, 0.5), (0.9, 1, 0.5), (0.9, 2, 0.5), (0.99, 3, 0.8)]
)
def test_moving_rows_are_pure(make, purity, components, std):
    given = {"purity": purity, "n_components": components, "std": std}
    X, y, means, period = make(1000, every=20, **given, random_state=0, return_target=True)
    assert np.min(posteriors(X, y, means, period, std)) >= purity - 1e-9


@both_moving
def test_moving_classes_are_equally_likely_and_components_are_too(make):
    n = 10_000
    X, y, means, period = make(n, purity=0.5, std=0.05, random_state=0, return_target=True)
    assert abs(np.mean(y)) < 4 / np.sqrt(n)
    # With so little spread, hardly a row is dropped and the nearest mean is the row's own.
    own = means[period, (y + 1) // 2]
    distances = np.linalg.norm(X[:, None] - own, axis=2)
    assert abs(np.mean(distances.argmin(axis=1)) - 0.5) < 2.5 / np.sqrt(n)
    assert np.mean(distances.min(axis=1) ** 2) == pytest.approx(2 * 0.05**2, rel=0.06)


def test_drifting_means_make_small_steps_in_the_square():
    means = make_drifting(50_000, every=10, random_state=0, return_target=True)[2]
    assert np.abs(means).max() <= 2.0
    steps = np.diff(means, axis=0)
    inside = np.abs(means[:-1]) < 1.5  # five steps from the edge
    n = inside.sum()
    assert np.mean(steps[inside]) == pytest.approx(0.0, abs=5 * 0.1 / np.sqrt(n))
    assert np.std(steps[inside]) == pytest.approx(0.1, rel=5 / np.sqrt(2 * n))
    # Reflection keeps the uniform distribution of the start: the mean of |m| is 1.
    assert np.mean(np.abs(means)) == pytest.approx(1.0, abs=0.1)
    assert np.abs(means).max() > 1.99


@both_moving
def test_points_are_drawn_from_far_away_where_the_means_leave_nothing_pure_nearby(make):
    X, y, means, period = make(200, every=50, std=20.0, random_state=0, return_target=True)
    assert np.min(posteriors(X, y, means, period, 20.0)) >= 0.9 - 1e-9
    assert np.linalg.norm(X, axis=1).min() > 5 * 20.0
    with pytest.raises(ValueError, match="'std' parameter is too large for 'purity'"):
        make(20, std=1e12, random_state=0)


@both_moving
@pytest.mark.parametrize(
    "arguments",
    [
        {"n_samples": 0},
        {"every": 0},
        {"every": 1.5},
        {"n_components": 0},
        {"std": 0.0},
        {"purity": 0.4},
        {"purity": 1.0},
        {"random_state": "today"},
        {"return_target": 2},
    ],
    ids=str,
)
def test_errors_of_moving_mixtures(make, arguments):
    (name,) = arguments
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        make(**arguments)
