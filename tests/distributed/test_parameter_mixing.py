"""Online learners whose models are mixed, against means that NumPy computes."""

import itertools

import numpy as np
import pytest
from distributed_parts import evenly, held, noisy, same
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import separable
from sklearn.base import clone

from maxmargin import (
    ALMA,
    AMIRA,
    NOCA,
    PUMMA,
    AutoMargin,
    FixedShare,
    MaxMargin,
    PassiveAggressive,
    Pegasos,
    Perceptron,
)
from maxmargin.distributed import Plain, fit
from maxmargin.training.protocol import state_of, trainer_of

SHARES = [0, 30, 30, 100, 170]  # where rows are cut; the second shard is empty


def passes(clf, X, y, cuts, rounds):
    """The weights and intercepts that the definition gives, by `partial_fit` of copies."""
    classes, ends = np.unique(y), [*cuts, len(y)]
    sizes = np.diff(ends)
    coef = intercept = None
    for _ in range(rounds):
        found = []
        for begin, end in itertools.pairwise(ends):
            one = clone(clf)
            if begin == end:
                found.append((0.0, 0.0))
                continue
            one.partial_fit(X[:1], y[:1], classes=classes)  # for a model to begin with
            table = state_of(one).model.linear
            table.weights[:] = 0.0
            if coef is not None:
                table.weights[:, :-1], table.weights[:, -1] = coef, intercept
            table.scalars.table.scale = 1.0
            table.scalars.table.norm2 = (table.weights**2).sum(axis=1)
            one.partial_fit(X[begin:end], y[begin:end])
            found.append((one.coef_, one.intercept_))
        coef = sum(size * w for size, (w, _) in zip(sizes, found, strict=True)) / len(y)
        intercept = sum(size * b for size, (_, b) in zip(sizes, found, strict=True)) / len(y)
    return coef, intercept


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("rounds", [1, 3])
def test_the_mean_of_passes(classes, rounds):
    """The rules of these depend on weights alone, so nothing else need be carried over."""
    X, y = noisy(200, 4, classes, offset=0.5)
    clf = PassiveAggressive(C=0.1)
    coef, intercept = passes(clf, X, y, SHARES, rounds)
    mixed = fit(clf, held(X, y, SHARES[1:]), rounds=rounds)
    np.testing.assert_allclose(mixed.coef_, coef, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mixed.intercept_, intercept, rtol=1e-9, atol=1e-12)
    assert mixed.n_iter_ == rounds


@pytest.mark.parametrize(
    "clf",
    [
        Perceptron(),
        Perceptron(p=3.0),
        PassiveAggressive(average=True),
        Pegasos(),
        ALMA(alpha=0.5),
        AMIRA(multiclass="k-best"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("classes", [2, 3])
def test_bounds_and_margins_hold(clf, classes):
    """No hyperplane has a larger margin than the bound, and the margin is that of all rows."""
    random = np.random.default_rng(3)
    y = random.integers(0, classes, size=400)
    X = 3 * np.eye(classes, 4)[y] + random.uniform(-1, 1, size=(400, 4))
    mixed = fit(clone(clf), evenly(X, y, 5), rounds=4)
    certificate = mixed.certificate_
    if clf.get_params().get("p", 2.0) == 2.0 and trainer_of(mixed).spec.multiclass == "ovr":
        best = MaxMargin(soft_margin=0.0).fit(X, y).certificate_
        for mine, other in zip(
            certificate.classes or [certificate], best.classes or [best], strict=True
        ):
            assert mine.bound >= other.margin
            assert mine.margin <= other.bound
    assert certificate.bound >= certificate.margin
    assert np.isfinite(certificate.bound)
    if classes == 2:
        scores = np.where(y == 1, 1, -1) * mixed.decision_function(X)
        order = {2.0: 2, 3.0: 1.5}[clf.get_params().get("p", 2.0)]
        reached = scores.min() / np.linalg.norm(mixed.coef_, ord=order, axis=1)
        assert certificate.margin == pytest.approx(reached[0], rel=1e-9)


@settings(max_examples=30)
@given(cuts=st.lists(st.integers(0, 60), max_size=9), n_jobs=st.integers(1, 2))
def test_partitions(cuts, n_jobs):
    X, y = separable(60, 3)
    shards = held(X, y, cuts)
    clf = fit(Perceptron(), shards, Plain(n_jobs), rounds=2)
    assert same(clf, fit(Perceptron(), shards, rounds=2))
    best = MaxMargin(soft_margin=0.0).fit(X, y).certificate_
    assert clf.certificate_.bound >= best.margin
    assert clf.certificate_.margin <= best.bound


def test_one_shard_is_partial_fit():
    X, y = noisy(300, 4)
    weights = np.random.default_rng(4).integers(0, 3, size=300).astype(float)
    alone = PassiveAggressive(C=0.1).partial_fit(X, y, classes=[0, 1], sample_weight=weights)
    one = fit(PassiveAggressive(C=0.1), evenly(X, y, 1, weights))
    assert one.coef_.tobytes() == alone.coef_.tobytes()
    assert one.n_updates_ == alone.n_updates_


def test_counts_are_those_of_all_shards():
    X, y = noisy(400, 4)
    clf = fit(Perceptron(), evenly(X, y, 4), rounds=3)
    assert state_of(clf).model.trials() == 3 * 400
    assert 0 < clf.n_mistakes_ <= clf.n_updates_ <= 3 * 400


def test_rounds_end_when_nothing_is_left_to_learn():
    X, y = separable(200, 3, gap=1.0)
    clf = fit(Perceptron(), evenly(X, y, 4), rounds=500)
    assert clf.converged_
    assert clf.n_iter_ < 500
    assert clf.certificate_.margin > 0.0
    tight = fit(Perceptron(tol=0.9), evenly(X, y, 4), rounds=500)
    assert tight.certificate_.ratio >= 0.1
    assert tight.n_iter_ <= clf.n_iter_


def test_what_was_mixed_learns_on():
    X, y = noisy(300, 4)
    clf = fit(
        PassiveAggressive(C=1.0, average=True, class_weight="balanced"), evenly(X, y, 3), rounds=2
    )
    before = clf.certificate_.bound
    clf.partial_fit(X, y)
    assert clf.score(X, y) > 0.7
    assert clf.certificate_.bound <= before


def test_balanced_classes_count_the_same():
    X, y = noisy(600, 3)
    rare = np.flatnonzero((y == 0) | (np.arange(600) % 5 == 0))
    X, y = X[rare], y[rare]
    counts = np.bincount(y)
    told = {c: y.size / (2 * counts[c]) for c in (0, 1)}
    balanced = fit(PassiveAggressive(C=0.1, class_weight="balanced"), evenly(X, y, 3))
    assert same(balanced, fit(PassiveAggressive(C=0.1, class_weight=told), evenly(X, y, 3)))


@pytest.mark.parametrize(
    ("clf", "rounds", "why"),
    [
        (PUMMA(), 1, "pair of rows"),
        (Perceptron(kernel="rbf", gamma=1.0), 1, "weights are not those of features"),
        (Perceptron(soft_margin=1.0), 2, "rounds=1"),
        (Perceptron(warm_start=True), 1, "warm_start"),
        (Perceptron(intercept_scaling="max"), 1, "intercept_scaling"),
        (FixedShare(), 1, "several learners"),
        (AutoMargin(), 1, "several learners"),
        (AutoMargin(kernel="rbf", n_components=4, random_state=0), 1, "several learners"),
        (NOCA(), 1, "NOCA"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_mixed_says_why(clf, rounds, why):
    X, y = noisy(20, 2)
    with pytest.raises((ValueError, TypeError), match=why):
        fit(clf, evenly(X, y, 2), rounds=rounds)
    assert not clf.__sklearn_is_fitted__()


def test_a_soft_margin_in_one_round():
    X, y = noisy(300, 3)
    clf = fit(Perceptron(soft_margin=1.0), evenly(X, y, 3))
    best = MaxMargin(soft_margin=1.0).fit(X, y).certificate_
    assert np.isnan(clf.certificate_.margin)
    assert clf.certificate_.bound >= best.margin
