"""Certificates: never above the truth, at any moment, for any learner."""

import functools
import math
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
import reference
from extent import everything_or
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import (
    label,
    learners,
    overlapping_sets,
    separable,
    separable_sets,
    three_classes,
    with_intercept,
)
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from maxmargin import AMIRA, ROMMA, Certificate, PassiveAggressive, Perceptron, Relaxation
from maxmargin.core.rule import rule
from maxmargin.estimator import KernelClassifier
from maxmargin.models import linear_model
from maxmargin.training.protocol import state_of

FORMS = [np.asarray, sparse.csr_matrix]
# None: no intercept; otherwise the intercept_scaling.
INTERCEPTS = [None, 0.1, 1.0, 10.0]

# Rows that are sparse, and problems of several classes, are compiled anew for each rule, and are no
# business of it: these stand for all.
FEW = [ROMMA(delta=0.1), AMIRA(intercept="pair", multiclass="ovr"), Perceptron(average=True)]
# The weights of diagonal learners are no sum of rows: nothing is followed that would prove a bound.
BOUNDED = [one for one in learners() if one.get_params().get("scaling") is None]
SOME = everything_or(FEW, BOUNDED)


def every_learner_and_rows(scalings):
    """Dense rows of each learner with every intercept; sparse ones of some of them with one."""
    dense = product(BOUNDED, [np.asarray], scalings)
    few = [*dense, *product(SOME, [sparse.csr_matrix], [1.0])]
    return pytest.mark.parametrize(
        ("learner", "form", "scaling"),
        everything_or(few, list(product(BOUNDED, FORMS, scalings))),
        ids=_name,
    )


def _name(given):
    return getattr(given, "__name__", None) or label(given)


def best_margin(X, y, intercept):
    """The exact optimum: infinite if any margin can be had, 0 if none."""
    if intercept and abs(np.sum(y)) == len(y):
        return np.inf
    best = reference.max_margin(np.asarray(X, dtype=float), y, intercept)[0]
    return 0.0 if math.isnan(best) else best


@functools.cache
def stream_and_optima(seed, intercept):
    """Rows, labels, and the best margin on the rows up to each one."""
    X, y = separable(n=24, d=3, gap=0.3, shift=1.5 if intercept else 0.0, seed=seed)
    if not intercept:
        X[:, 0] += 0.5 * y
    optima = [best_margin(X[: t + 1], y[: t + 1], intercept) for t in range(24)]
    assert 0 < optima[-1] < np.inf
    return X, y, optima


# ------------------------------------------------------------------------------------- soundness
@every_learner_and_rows(INTERCEPTS)
def test_sound_at_every_moment_of_a_stream(learner, scaling, form):
    """For the rows seen so far, row by row in the first pass, then after 100 further passes."""
    for seed in range(2):
        X, y, optima = stream_and_optima(seed, scaling is not None)
        rows, clf = form(X), with_intercept(learner, scaling)
        for t, optimum in enumerate(optima):
            clf.partial_fit(rows[t : t + 1], y[t : t + 1], classes=[-1, 1])
            assert clf.certificate_.bound >= optimum
        for passes in everything_or([1, 1, 2, 4, 8, 16, 32, 36], 100 * [1]):
            again = np.tile(np.arange(y.size), passes)
            clf.partial_fit(rows[again], y[again])
            assert clf.certificate_.bound >= optima[-1]
        assert clf.certificate_.bound < np.inf


@settings(deadline=None, max_examples=200)
@given(
    data=separable_sets() | overlapping_sets(),
    learner=st.sampled_from(learners()),
    scaling=st.sampled_from(INTERCEPTS),
    passes=st.integers(0, 60),
)
def test_sound_on_any_data(data, learner, scaling, passes):
    X, y = data
    intercept = scaling is not None
    clf = with_intercept(learner, scaling)
    for t in range(len(X)):
        clf.partial_fit(X[t : t + 1], y[t : t + 1], classes=[-1, 1])
        if t % 5 == 0:
            optimum = best_margin(X[: t + 1], y[: t + 1], intercept)
            assert clf.certificate_.bound >= optimum
    optimum = best_margin(X, y, intercept)
    assert clf.certificate_.bound >= optimum
    for _ in range(passes):
        clf.partial_fit(X, y)
        assert clf.certificate_.bound >= optimum


@pytest.mark.parametrize(
    ("learner", "scaling", "shape"),
    [
        (PassiveAggressive(), 1.0, (2, 3, 0.4515528601377755, -1.2017286567756913, 22101949)),
        (AMIRA(epsilon=0.0), 1.0, (2, 3, 0.4515528601377755, -1.2017286567756913, 22101949)),
        (ROMMA(delta=0.0), 1.0, (2, 1, 0.2255828137544783, -2.848603463372193, 631610952)),
        (ROMMA(delta=0.0), None, (6, 2, 0.28692678234965135, -0.885926159163648, 19163083)),
        (
            PassiveAggressive(C=1.0, loss="squared_hinge"),
            None,
            (5, 1, 0.6024711453537624, 0.3715481441708466, 510777604),
        ),
    ],
)
def test_sound_when_hardly_anything_is_left_to_learn(learner, scaling, shape):
    """The last updates are so small that rounding is much of what they leave in the weights."""
    X, y = separable(*shape)
    optimum = best_margin(X, y, scaling is not None)
    clf = with_intercept(learner, scaling)
    for _ in range(300):
        clf.partial_fit(X, y, classes=[-1, 1])
        assert clf.certificate_.bound >= optimum


@pytest.mark.parametrize(
    "learner", [AMIRA(), PassiveAggressive(), Relaxation(), ROMMA(delta=0.1)], ids=label
)
def test_sound_for_rows_of_very_different_length(learner):
    """A short row brings a mass beside which those of long rows are lost to rounding."""
    X = np.array([[3e-7, 5e-7], [-1750.0, -6170.0], [-1280.0, -7200.0]])
    y = np.array([1, 1, -1])
    optimum = best_margin(X, y, True)
    clf = with_intercept(learner, 1e-6)
    for _ in range(30):
        clf.partial_fit(X, y, classes=[-1, 1])
        assert clf.certificate_.bound >= optimum


def test_sound_after_a_million_updates():
    X, y = np.array([[1000.0, 1.0], [1003.7, -1.0]]), np.array([1, -1])
    optimum = best_margin(X, y, True)
    clf = Perceptron(margin=1e12, rate=0.1)
    rows, labels = np.tile(X, (10_000, 1)), np.tile(y, 10_000)
    for _ in range(50):
        clf.partial_fit(rows, labels, classes=[-1, 1])
        # One update more than at a snapshot leaves the smallest difference to it.
        clf.partial_fit(X, y)
        assert clf.certificate_.bound >= optimum
    assert clf.n_updates_ > 1_000_000


@every_learner_and_rows([None, 0.1, 1.0, "max"])
def test_fit_is_sound_and_its_margin_is_the_true_one(learner, scaling, form):
    X, y, optima = stream_and_optima(0, scaling is not None)
    clf = with_intercept(learner, scaling).set_params(max_iter=200, random_state=0).fit(form(X), y)
    certificate, outputs = clf.certificate_, y * (X @ clf.coef_[0] + clf.intercept_[0])
    margin = outputs.min() / np.linalg.norm(clf.coef_[0])
    assert certificate.margin == pytest.approx(margin, rel=1e-9)
    assert certificate.margin <= optima[-1] * (1 + 1e-9)
    assert certificate.bound >= optima[-1]
    assert certificate.ratio <= 1 + 1e-9
    assert certificate.ratio <= max(margin, 0.0) / optima[-1] * (1 + 1e-9)
    if scaling is None:
        assert clf.intercept_[0] == 0.0


@pytest.mark.parametrize(
    ("learner", "form"),
    [*product(SOME, [np.asarray]), *product(everything_or(FEW[:1], SOME), [sparse.csr_matrix])],
    ids=_name,
)
@pytest.mark.parametrize("scaling", [None, 1.0])
def test_each_class_has_a_sound_certificate(learner, scaling, form):
    X, y = three_classes(n=30, d=3)
    signs = [np.where(y == c, 1, -1) for c in range(3)]
    optima = [best_margin(X, sign, scaling is not None) for sign in signs]
    assert min(optima) > 0
    if "multiclass" in learner.get_params():
        learner = clone(learner).set_params(multiclass="ovr")
    rows, stream = form(X), with_intercept(learner, scaling)
    for t in range(30):
        stream.partial_fit(rows[t : t + 1], y[t : t + 1], classes=[0, 1, 2])
    clf = with_intercept(learner, scaling).set_params(max_iter=100, random_state=0).fit(rows, y)
    for certificate in (stream.certificate_, clf.certificate_):
        assert len(certificate.classes) == 3
        for one, optimum in zip(certificate.classes, optima, strict=True):
            assert one.bound >= optimum
    for c, one in enumerate(clf.certificate_.classes):
        outputs = signs[c] * (X @ clf.coef_[c] + clf.intercept_[c])
        assert one.margin == pytest.approx(outputs.min() / np.linalg.norm(clf.coef_[c]), rel=1e-9)
    ratios = [one.ratio for one in clf.certificate_.classes]
    assert clf.certificate_.ratio == min(ratios)


def test_certificates_of_classes_are_sound_at_every_moment():
    X, y = three_classes(n=20, d=2, seed=1)
    for learner in SOME:
        clf = clone(learner)
        for t in range(20):
            clf.partial_fit(X[t : t + 1], y[t : t + 1], classes=[0, 1, 2])
            for c, one in enumerate(clf.certificate_.classes):
                assert one.bound >= _best_for_class(t, c)


@functools.cache
def _best_for_class(t, c):
    X, y = three_classes(n=20, d=2, seed=1)
    return best_margin(X[: t + 1], np.where(y[: t + 1] == c, 1, -1), True)


def test_warm_start_on_other_data():
    """The certificate is about the data of the last fit, wherever the weights come from."""
    narrow, wide = np.array([[0.0, 0.0], [0.1, 0.0]]), np.array([[0.0, 0.0], [0.0, 10.0]])
    for learner in (Perceptron(), AMIRA(), ROMMA(delta=0.01)):
        clf = clone(learner).set_params(warm_start=True, random_state=0)
        clf.fit(narrow, [0, 1]).fit(wide, [0, 1])
        assert clf.certificate_.bound >= 5.0


# ------------------------------------------------------------------------------------- strength
def shifted_cloud(seed):
    return separable(n=150, d=8, gap=0.25, shift=1.5, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_romma_certifies_nearly_all_that_it_reaches(seed):
    clf = ROMMA(delta=0.01, intercept_scaling="max", max_iter=100_000, random_state=0)
    clf.fit(*shifted_cloud(seed))
    assert clf.converged_
    assert clf.certificate_.ratio >= 0.98


@pytest.mark.parametrize("seed", range(3))
def test_snapshots_lift_the_certificate_of_amira(seed):
    """Its first, bad coefficients never shrink, and without snapshots they spoil the bound."""
    clf = AMIRA(epsilon=0.01, intercept_scaling="max", max_iter=100_000, random_state=0)
    clf.fit(*shifted_cloud(seed))
    assert clf.converged_
    assert clf.certificate_.ratio >= 0.85
    hull = state_of(clf).model.hull()
    mine = hull.scalars.table[0]
    ever = hull.norm_over_mass(0, 0.0, (mine.positive, mine.negative), (0.0, 0.0))
    assert clf.certificate_.margin / ever < 0.75


@rule
class ContraryRule(NamedTuple):
    shrink: float
    length: float
    between: float

    def active(self, seen):
        return seen.margin <= 0.0

    def step(self, seen):
        # Among others, so that they are not all negative, which proves nothing anyway.
        return self.shrink, self.length if seen.k % 3 == 2 else 1.0

    def rest(self, seen):
        return self.between


@dataclass(eq=False, repr=False, kw_only=True)
class Contrary(KernelClassifier):
    """A learner whose weights need not be a sum with non-negative coefficients."""

    shrink: float = 1.0
    length: float = 1.0
    between: float = 1.0

    def _rule(self, p):
        return ContraryRule(self.shrink, self.length, self.between)


@pytest.mark.parametrize(
    "changed", [{"shrink": -0.5}, {"length": -1.0}, {"between": -1.0}], ids=str
)
def test_negative_coefficients_prove_nothing(changed):
    X, y = separable()
    assert Contrary().partial_fit(X, y, classes=[-1, 1]).certificate_.bound < np.inf
    for scaling in (None, 1.0):
        clf = with_intercept(Contrary(**changed, random_state=0), scaling)
        clf.partial_fit(X, y, classes=[-1, 1])
        assert clf.certificate_.bound == np.inf
        assert clf.set_params(max_iter=2).fit(X, y).certificate_.ratio == 0.0


@pytest.mark.parametrize("learner", BOUNDED, ids=label)
def test_many_weights_fall_back_to_the_imbalance_bound(monkeypatch, learner):
    monkeypatch.setattr(linear_model, "MOST_WITNESSED_WEIGHTS", 0)
    for scaling in (None, 1.0):
        X, y, optima = stream_and_optima(0, scaling is not None)
        clf = with_intercept(learner, scaling)
        for t, optimum in enumerate(optima):
            clf.partial_fit(X[t : t + 1], y[t : t + 1], classes=[-1, 1])
            assert clf.certificate_.bound >= optimum
        for _ in range(20):
            clf.partial_fit(X, y)
            assert clf.certificate_.bound >= optima[-1]
        witness = state_of(clf).model.linear.witness
        assert witness.share.size == witness.mark.size == witness.mark_share.size == 0
        # Nothing but the largest norm, which any hyperplane satisfies, would be no bound at all.
        assert clf.certificate_.bound < np.linalg.norm(X, axis=1).max()


# ------------------------------------------------------------------------------------- stopping
@pytest.mark.parametrize("tol", [0.5, 0.2, 0.1])
@pytest.mark.parametrize("learner", [ROMMA(delta=0.0), AMIRA(epsilon=0.01)], ids=label)
def test_tol_stops_as_soon_as_the_margin_is_certified(learner, tol):
    """It is looked at after each pass, and later when the passes have grown by an eighth."""
    X, y, optima = stream_and_optima(0, True)
    alike = clone(learner).set_params(intercept_scaling="max", shuffle=False)
    clf = clone(alike).set_params(tol=tol).fit(X, y)
    assert clf.converged_
    assert clf.certificate_.ratio >= 1 - tol
    assert clf.certificate_.margin >= (1 - tol) * optima[-1]
    looks = [1]
    while looks[-1] < clf.n_iter_:
        looks.append(looks[-1] + max(1, looks[-1] // 8))
    assert len(looks) > 1
    assert looks[-1] == clf.n_iter_
    earlier = alike.set_params(max_iter=looks[-2]).fit(X, y)
    assert earlier.certificate_.ratio < 1 - tol


def test_a_tol_that_is_not_reached_is_said():
    X, y = separable()
    with pytest.warns(ConvergenceWarning, match=r"certifies .* less than the 0\.9990"):
        clf = ROMMA(delta=0.0, tol=0.001, max_iter=2, random_state=0).fit(X, y)
    assert not clf.converged_
    assert clf.certificate_.ratio < 0.999


# ------------------------------------------------------------------------------------- printing
@pytest.mark.parametrize(
    ("margin", "bound", "sentence"),
    [
        (
            0.98,
            1.0,
            "margin 0.98, certified to be at least 98.00 % of the best possible (at most 1)",
        ),
        (
            -0.5,
            1.0,
            "margin -0.5, the data are not separated; the best possible margin is at most 1",
        ),
        (
            0.0,
            math.inf,
            "margin 0, the data are not separated; nothing is proved about the best possible one",
        ),
        (0.5, math.inf, "margin 0.5; nothing is proved about the best possible one"),
        (math.nan, 2.0, "margin not known; the best possible margin is at most 2"),
        (
            math.nan,
            math.inf,
            "margin not known; nothing is proved about the best possible one",
        ),
    ],
)
def test_a_certificate_prints_as_one_sentence(margin, bound, sentence):
    assert str(Certificate(margin, bound)) == sentence


@pytest.mark.parametrize(
    ("margin", "bound", "ratio"),
    [(0.5, 1.0, 0.5), (-0.5, 1.0, 0.0), (0.0, 0.0, 0.0), (0.5, math.inf, 0.0)],
)
def test_ratio(margin, bound, ratio):
    assert Certificate(margin, bound).ratio == ratio


def test_weakest_class():
    joined = Certificate.weakest(np.array([0.9, 0.5, 2.0]), np.array([1.0, 1.0, 2.5]))
    assert (joined.margin, joined.bound, joined.ratio) == (0.5, 1.0, 0.5)
    assert [one.margin for one in joined.classes] == [0.9, 0.5, 2.0]
    alone = Certificate.weakest(np.array([0.9]), np.array([1.0]))
    assert alone == Certificate(0.9, 1.0)


def test_the_margin_is_not_known_after_partial_fit():
    X, y = separable()
    clf = ROMMA(random_state=0).fit(X, y)
    assert clf.certificate_.margin > 0
    before = clf.certificate_.bound
    after = clf.partial_fit(X, y).certificate_
    assert math.isnan(after.margin)
    assert math.isnan(after.ratio)
    assert after.bound <= before


def test_nothing_is_proved_before_both_classes_are_seen():
    clf = Perceptron().partial_fit([[1.0, 2.0]], [1], classes=[0, 1])
    assert clf.certificate_.bound == np.inf
    assert clf.partial_fit([[1.0, 0.0]], [0]).certificate_.bound < np.inf


def test_data_with_a_point_in_both_classes():
    """The best margin is 0, which no classifier exceeds."""
    X, y = np.array([[1.0, 1.0], [1.0, 1.0]]), [0, 1]
    clf = Perceptron(max_iter=50, random_state=0).fit(X, y)
    assert clf.certificate_.margin <= 0
    assert clf.certificate_.ratio == 0
    assert 0 <= clf.certificate_.bound < 0.1
