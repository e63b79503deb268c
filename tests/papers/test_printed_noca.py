"""NOCApm as printed follows the plain reference, and its theorems hold."""

from typing import NamedTuple

import numpy as np
import pytest
import reference_budget as reference
from algorithms.agreement import magnitudes
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from maxmargin_papers.experiments.printed_noca import (
    READINGS,
    PrintedNOCA,
    max_margin_errors,
    max_margin_errors_reestimated,
)

IN_THE_REFERENCE = {
    "variances": {"variance": "raw"},
    "nearest": {"nearest": "any"},
    "variances and nearest": {"variance": "raw", "nearest": "any"},
    "densities": {"output": "literal", "weights": "literal"},
}
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("seed", range(5))
def test_follows_the_reference(reading, seed):
    random = np.random.default_rng(seed)
    y = random.integers(3, size=80)
    X = 2.0 * random.normal(size=(3, 2))[y] + random.normal(size=(80, 2))
    parameters = {"rho": 0.2, "epsilon": 1.5, "floor": 0.5, "max_components": 12}
    trace = reference.noca(X, y, 3, **parameters, **IN_THE_REFERENCE[reading])
    learner = PrintedNOCA(reading=reading, **parameters).partial_fit(X, y, classes=range(3))
    np.testing.assert_array_equal(learner.components_, trace.components.labels)
    np.testing.assert_allclose(learner.means_, trace.components.means, rtol=1e-10)
    np.testing.assert_allclose(learner.variances_, trace.components.variances, rtol=1e-10)
    assert learner.n_margin_errors_ == trace.errors.sum()
    assert learner.n_mistakes_ == np.sum(trace.predictions != y)


def test_a_row_can_join_the_nearest_component_of_any_class():
    learner = PrintedNOCA(reading="nearest", epsilon=9.0, rho=0.0, max_components=2)
    learner.partial_fit([[0.0], [4.0], [1.0]], ["a", "b", "b"], classes=["a", "b"])
    assert learner.components_.tolist() == ["a", "b"]
    assert learner.means_[:, 0].tolist() == [0.5, 4.0]


def test_a_class_may_never_get_a_component_if_rows_join_those_of_any_class():
    learner = PrintedNOCA(reading="nearest", rho=0.1, rho_min=0.09)
    learner.partial_fit([[0.0], [5.0], [10.0], [15.0]], [0, 1, 2, 3], classes=range(4))
    assert learner.components_.tolist() == [0]


def test_variances_as_printed_are_mean_squares():
    learner = PrintedNOCA(reading="variances", epsilon=9.0, rho=0.0)
    learner.partial_fit([[2.0], [6.0], [2.0]], ["a", "b", "a"], classes=["a", "b"])
    assert learner.variances_[:, 0] == pytest.approx([(4.5**2 + 4.0) / 2.0, 4.5**2])


def test_margins_of_densities_have_no_upper_limit():
    learner = PrintedNOCA(reading="densities", rho=4.0, tau=0.5)
    learner.partial_fit([[0.0], [0.0], [0.0]], [1, 1, 1], classes=[0, 1])
    # Widths are 1/2, so that the first component has a density of 0.8 there, and two have 1.6.
    assert (learner.n_margin_errors_, learner.rho_) == (2, 1.0)


def test_infinite_densities_can_be_compared():
    """They have more than 700 digits; once the wrong one is the larger."""
    X = np.zeros((4, 300))
    X[:, 0] = [0.0, 0.01, 0.0001, 0.0099]
    learner = PrintedNOCA(reading="densities", rho=0.0, epsilon=2e-3, floor=1.0)
    learner.partial_fit(X[:2], [0, 1], classes=[0, 1])
    before = learner.n_margin_errors_
    learner.partial_fit(X[2:3], [0])
    assert learner.n_margin_errors_ == before
    learner.partial_fit(X[3:4], [0])
    assert learner.n_margin_errors_ == before + 1


# ------------------------------------------------------------------------------------ the theorems
def density(gaps, variances):
    """Of a Gaussian with these variances at some gaps from its mean."""
    return np.exp(-0.5 * np.sum(gaps**2 / variances, axis=-1)) / np.sqrt(
        np.prod(2 * np.pi * variances * np.ones(gaps.shape[-1]))
    )


class Duel(NamedTuple):
    """A stream of two classes, the width of components and functions to compare with."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    width: float
    seed: int

    def kernel(self, some, others):
        return density(some[:, None] - others, self.width**2)

    def comparisons(self):
        """The norm of g, a margin, and its losses at that margin."""
        random = np.random.default_rng(self.seed)
        for some in (slice(0, 1), slice(0, 4), slice(None)):
            points, weights = self.X[some], self.y[some] * random.uniform(0.5, 1, len(self.y[some]))
            outputs = self.y * (self.kernel(self.X, points) @ weights)
            norm = np.sqrt(weights @ self.kernel(points, points) @ weights)
            for size in (0.3, 1.0, 3.0, 10.0):
                for margin in np.quantile(np.abs(size * outputs), [0.0, 0.2, 0.5, 1.0]):
                    losses = np.maximum(0.0, margin - size * outputs)
                    yield size * norm, margin, losses


def _duel(rows, features, spread, width, seed) -> Duel:
    random = np.random.default_rng(seed)
    centres = 3 * width * random.normal(size=(2, features))
    y = random.choice([-1.0, 1.0], size=rows)
    y[:2] = 1.0, -1.0
    X = centres[(y > 0).astype(int)] + spread * width * random.normal(size=(rows, features))
    return Duel(X, y, width, seed)


duels = st.builds(
    _duel,
    rows=st.integers(2, 50),
    features=st.integers(1, 3),
    spread=st.sampled_from([0.05, 0.5, 2.0]),
    width=magnitudes(0.3, 3.0),
    seed=seeds,
)
rhos, taus = st.floats(0.0, 5.0), st.floats(0.1, 0.95)


@settings(deadline=None, max_examples=100)
@given(duel=duels, rho=rhos, tau=taus)
def test_theorem_2(duel, rho, tau):
    """Where only margin errors change something."""
    errors = reference.noca_without_estimates(duel.kernel(duel.X, duel.X), duel.y, rho=rho, tau=tau)
    for norm, margin, losses in duel.comparisons():
        limit = max_margin_errors(
            norm,
            margin,
            losses[errors].sum(),
            width=duel.width,
            features=duel.X.shape[1],
            rho=rho,
            tau=tau,
        )
        assert errors.sum() <= limit * (1 + 1e-9)


def test_theorem_2_says_something():
    """Two clouds, 2 000 rows: the bound is about the clouds, not about the number of rows."""
    random = np.random.default_rng(0)
    y = np.tile([1.0, -1.0], 1000)
    duel = Duel(2 * y[:, None] + 0.05 * random.normal(size=(2000, 1)), y, 0.5, 0)
    errors = reference.noca_without_estimates(
        duel.kernel(duel.X, duel.X), y, rho=0.1, tau=0.5
    ).sum()
    limit = min(
        max_margin_errors(norm, margin, losses.sum(), width=0.5, features=1, tau=0.5)
        for norm, margin, losses in duel.comparisons()
    )
    assert 2 <= errors <= limit < 6


@settings(deadline=None, max_examples=100)
@given(
    duel=duels,
    rho=rhos,
    tau=taus,
    near=magnitudes(0.1, 10.0),
    floor=st.sampled_from([0.75, 0.9, 1.0, 1.5]),
)
def test_theorem_3(duel, rho, tau, near, floor):
    """The learner itself, with densities as they are."""
    rows, features = duel.X.shape
    parameters = {"width": duel.width, "floor": floor, "rho": rho, "tau": tau}
    learner = PrintedNOCA(
        reading="densities",
        epsilon=near * duel.width,
        max_components=rows,
        shuffle=False,
        **parameters,
    ).fit(duel.X, duel.y)
    errors, components = learner.n_margin_errors_, len(learner.components_)
    known = {"quiet": rows - errors, "components": components, "features": features}
    for norm, margin, losses in duel.comparisons():
        limit = max_margin_errors_reestimated(norm, margin, losses.sum(), **known, **parameters)
        assert errors <= limit * (1 + 1e-9)


@pytest.mark.parametrize("part", [0.6, 0.8, 1.0, 3.0])
def test_lengths_of_components(part):
    """What Theorem 3 rests on: |N(., V)|^2 = N(0; 2 V - width^2), in the space of Theorem 2.

    The norm is the largest sqrt(h' K^-1 h) over values h at finitely many points.
    """
    width = 0.7
    points = width * np.linspace(-8.0, 8.0, 25)[:, None]
    values = density(points, part * width**2)
    K = density(points[:, None] - points, width**2)
    length2 = values @ np.linalg.solve(K, values)
    expected = 1.0 / np.sqrt(2 * np.pi * (2 * part - 1) * width**2)
    assert 0.97 * expected <= length2 <= expected * (1 + 1e-9)


def test_theorems_by_hand():
    peak = 1 / (2 * np.pi)
    known = {"width": 1.0, "features": 2, "rho": 0.1, "tau": 0.5}
    limit = max_margin_errors(2.0, 0.5, 3.0, **known)
    assert limit == pytest.approx((4 + 6 + 0.4) / (1 - peak))
    assert max_margin_errors(2.0, 0.5 * peak, **known) == np.inf
    none = max_margin_errors_reestimated(2.0, 0.5, 3.0, quiet=0, components=4, floor=0.8, **known)
    assert none == limit
    known |= {"quiet": 3, "components": 4}
    # floor^2 = 3/4: W^2 = peak / (2 floor^2 - 1) = 2 peak
    longer = max_margin_errors_reestimated(2.0, 0.5, 3.0, floor=0.75**0.5, **known)
    W = np.sqrt(2 * peak)
    more = 6 * (np.sqrt(2) * 2.0 * W + 4 * W**2 + W**2) / (1 - peak)
    assert longer == pytest.approx(limit + more)
    assert max_margin_errors_reestimated(2.0, 0.5, floor=0.7, **known) == np.inf
