"""The witness: masses and bounds are those of a naive bookkeeping over a naive learner."""

import numpy as np
import pytest
import reference
from problems import label, linear_model, separable
from scipy import sparse
from sklearn.base import clone

from maxmargin import (
    ALMA,
    AMIRA,
    MICRA,
    NORMA,
    ROMMA,
    DirectionalPerceptron,
    PassiveAggressive,
    Pegasos,
    Perceptron,
    Relaxation,
    TrackingALMA,
)
from maxmargin.training.protocol import state_of

# Each learner with the naive one and its settings. Ours keeps MICRA's w at length 1, so only what
# does not depend on the length of w is compared.
PAIRS = [
    (ALMA(alpha=0.5), reference.alma, {"alpha": 0.5}),
    (AMIRA(epsilon=0.1), reference.amira, {"epsilon": 0.1}),
    (MICRA(), reference.micra, {"beta": None}),
    (
        NORMA(rate=0.3, decay=0.5, margin=0.5),
        reference.norma,
        {"rate": 0.3, "decay": 0.5, "margin": 0.5},
    ),
    (ROMMA(delta=0.1), reference.romma, {"delta": 0.1}),
    (DirectionalPerceptron(beta=0.1), reference.directional_perceptron, {"beta": 0.1}),
    (PassiveAggressive(C=0.1), reference.passive_aggressive, {"C": 0.1}),
    (
        Pegasos(lambda_=0.1, project=True),
        reference.pegasos,
        {"lambda_": 0.1, "project": True},
    ),
    (Perceptron(margin=1.0, rate=0.1), reference.perceptron, {"margin": 1.0, "rate": 0.1}),
    (Relaxation(), reference.relaxation, {}),
    (
        TrackingALMA(rate=0.5, radius=0.7, margin=0.3),
        reference.tracking_alma,
        {"rate": 0.5, "radius": 0.7, "margin": 0.3},
    ),
]
each_pair = pytest.mark.parametrize(
    ("learner", "naive", "settings"), PAIRS, ids=[label(pair[0]) for pair in PAIRS]
)


class NaiveHull:
    """Sums of coefficients and of coefficients times rows, for each class."""

    def __init__(self, width):
        self.mass = {1: 0.0, -1: 0.0}
        self.theta = {1: np.zeros(width), -1: np.zeros(width)}

    def scale(self, factor):
        for sign in self.mass:
            self.mass[sign] *= factor
            self.theta[sign] = factor * self.theta[sign]

    def add(self, sign, amount, x):
        self.mass[sign] += amount
        self.theta[sign] = self.theta[sign] + amount * x

    def copy(self):
        return self - NaiveHull(self.theta[1].size)

    def __sub__(self, other):
        result = NaiveHull(self.theta[1].size)
        for sign in self.mass:
            result.mass[sign] = self.mass[sign] - other.mass[sign]
            result.theta[sign] = self.theta[sign] - other.theta[sign]
        return result

    def bound(self, intercept):
        if intercept:
            if min(self.mass.values()) <= 1e-12:
                return np.inf
            return reference.hull_bound(self.theta[1], self.mass[1], self.theta[-1], self.mass[-1])
        mass = sum(self.mass.values())
        return np.linalg.norm(self.theta[1] - self.theta[-1]) / mass if mass > 1e-12 else np.inf

    def imbalance_bound(self, radius):
        """From |w|, both masses and the largest norm only."""
        if min(self.mass.values()) <= 0:
            return np.inf
        excess = abs(self.mass[1] - self.mass[-1])
        norm = np.linalg.norm(self.theta[1] - self.theta[-1])
        return (norm + radius * excess) / (sum(self.mass.values()) + excess)


def shrink_and_step(w_before, mass_before, w, mass, z, updated):
    """The c and d of ``w = c * w_before + d * z`` and ``mass = c * mass_before + d``."""
    if not updated:
        return (mass / mass_before if mass_before > 0 else 1.0), 0.0
    system = np.column_stack([np.append(w_before, mass_before), np.append(z, 1.0)])
    return np.linalg.lstsq(system, np.append(w, mass), rcond=None)[0]


def naive_hulls(trace, X, y, offset):
    """After each trial the sums, the bound, and the sums since the last snapshot.

    Snapshots are taken when the number of updates has doubled.
    """
    intercept, width = offset > 0, X.shape[1]
    Z = y[:, None] * np.column_stack([X, np.full(len(X), offset)])
    hull, mark = NaiveHull(width), NaiveHull(width)
    w_before, mass_before = np.zeros(width + 1), 0.0
    lowest, updates, next_mark, radius = np.inf, 0, 1, 0.0
    steps = zip(trace.history, trace.mass, trace.updated, Z, X, y, strict=True)
    for w, mass, updated, z, x, sign in steps:
        shrink, step = shrink_and_step(w_before, mass_before, w, mass, z, updated)
        hull.scale(shrink)
        mark.scale(shrink)
        if updated:
            hull.add(sign, step, x)
            updates += 1
            radius = max(radius, np.linalg.norm(x))
        ways = [lowest, hull.bound(intercept), (hull - mark).bound(intercept)]
        if intercept:
            ways.append(hull.imbalance_bound(radius))
        yield hull, min(ways)
        if updated and updates == next_mark:
            lowest, mark, next_mark = min(ways), hull.copy(), 2 * updates
        w_before, mass_before = w, mass


@each_pair
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("offset", [0.0, 0.5, 2.0])
def test_bounds_and_masses_are_the_naive_ones(learner, naive, settings, offset, form):
    X, y = separable(n=60, d=4, gap=0.05)
    trace = naive(np.column_stack([X, np.full(60, offset)]), y, **settings)
    clf = clone(learner).set_params(fit_intercept=offset > 0, intercept_scaling=offset or 1.0)
    rows = form(X)
    for t, (hull, bound) in enumerate(naive_hulls(trace, X, y, offset)):
        clf.partial_fit(rows[t : t + 1], y[t : t + 1], classes=[-1, 1])
        assert clf.certificate_.bound == pytest.approx(bound, rel=1e-8)
        mine = state_of(clf).model.linear.scalars.table[0]
        assert mine.updates == trace.updated[: t + 1].sum()
        share = mine.positive / (mine.positive + mine.negative)
        assert share == pytest.approx(hull.mass[1] / sum(hull.mass.values()), rel=1e-9)
    assert trace.updated.sum() > 8  # there were snapshots


@pytest.mark.parametrize("offset", [0.0, 0.5])
@pytest.mark.parametrize("learner", [ALMA(alpha=0.5), AMIRA(epsilon=0.1), Perceptron(margin=1.0)])
def test_bounds_in_other_norms_approach_those_in_the_euclidean_one(learner, offset):
    """They are summed by other code, snapshots included."""
    X, y = separable(n=60, d=4, gap=0.05)
    plain = clone(learner).set_params(fit_intercept=offset > 0, intercept_scaling=offset or 1.0)
    near = clone(plain).set_params(p=2.0 + 1e-9)
    for t in range(60):
        for clf in (plain, near):
            clf.partial_fit(X[t : t + 1], y[t : t + 1], classes=[-1, 1])
        assert near.certificate_.bound == pytest.approx(plain.certificate_.bound, rel=1e-6)
    assert plain.n_updates_ > 8  # there were snapshots


@each_pair
def test_mass_is_that_of_the_weights(learner, naive, settings):
    """``|w| / mass``, which is all there is to it without an intercept."""
    X, y = separable(n=60, d=4, gap=0.05, shift=0.0)
    trace = naive(X, y, **settings)
    clf = clone(learner).set_params(fit_intercept=False).partial_fit(X, y, classes=[-1, 1])
    hull = state_of(clf).model.hull()
    mine = hull.scalars.table[0]
    ever = hull.norm_over_mass(0, 0.0, (mine.positive, mine.negative), (0.0, 0.0))
    assert ever == pytest.approx(np.linalg.norm(trace.w) / trace.mass[-1], rel=1e-9)


def test_vectors_that_are_switched_off_prove_nothing():
    hull = linear_model(1, 3).hull()
    empty = hull._replace(share=np.zeros((0, 4)), mark=np.zeros((0, 4)))
    assert empty.norm_over_mass(0, 0.0, (1.0, 1.0), (0.0, 0.0)) == np.inf
    plain = empty._replace(split=False)
    assert plain.norm_over_mass(0, 1.0, (1.0, 1.0), (0.0, 0.0)) == np.inf


@pytest.mark.parametrize("masses", [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)])
def test_one_class_alone_proves_nothing_with_an_intercept(masses):
    hull = linear_model(1, 3).hull()
    assert hull.norm_over_mass(0, 0.0, masses, (0.0, 0.0)) == np.inf
