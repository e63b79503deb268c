"""What a weight means: the row as many times, no row, or a part of its slack."""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest
import sklearn
from algorithms.trials import trials
from extent import everything_or
from hypothesis import example, given, settings
from hypothesis import strategies as st
from problems import separable
from reference import max_margin
from scipy import sparse
from sklearn.base import clone

import maxmargin
from maxmargin import (
    ALMA,
    AMIRA,
    MICRA,
    NOCA,
    NORMA,
    PUMMA,
    ROMMA,
    BisectionPerceptron,
    DirectionalPerceptron,
    FixedShare,
    Forgetron,
    MaxMargin,
    PassiveAggressive,
    Pegasos,
    Perceptron,
    Projectron,
    RandomBudgetPerceptron,
    Relaxation,
    TrackingALMA,
    certify,
    streams,
)
from maxmargin.core.rule import Trial
from maxmargin.core.targets import Binary, WeightedBinary
from maxmargin.experts import votes
from maxmargin.training.protocol import trainer_of

# Their steps, or those that follow them, do not depend on how many there were before.
REPEATING = [
    Perceptron(),
    Perceptron(margin=2.0, rate=0.7),
    Perceptron(margin=1.5, kernel="rbf", gamma=0.3),
    Perceptron(margin=1.5, multiclass="1-best"),
    PassiveAggressive(),
    PassiveAggressive(C=0.05),
    PassiveAggressive(C=0.05, multiclass="1-best"),
    PassiveAggressive(C=0.3, loss="squared_hinge"),
    PassiveAggressive(C=0.3, loss="squared_hinge", kernel="rbf", gamma=0.3),
    Relaxation(),
    Relaxation(rate=0.3, margin=0.5),
    Relaxation(rate=1.6),
    AMIRA(),
    AMIRA(multiclass="ovr", kernel="poly", gamma=0.2, degree=2, coef0=1.0),
    ROMMA(),
    PUMMA(),
    PUMMA(p=4.0),
    Projectron(gamma=0.3, plus=False),
    Projectron(gamma=0.3, plus=True),
    NOCA(epsilon=2.0),
]
# Loops with weights are compiled for each rule and each way to keep weights: one of each kind. What
# rules make of weights is tried on the rules themselves.
FEW_REPEATING = [REPEATING[k] for k in (1, 8, 18, 19)]
OF_CLASSES = [REPEATING[k] for k in (1, 18)]
# Of those, learners to which a second time is not the same as none.
DIFFERENT = [REPEATING[k] for k in (1, 2, 5, 7, 8, 10, 18, 19)]
# All of those, and learners that count their steps or shrink their weights.
ALL = [
    *REPEATING,
    NORMA(),
    NORMA(kernel="rbf", gamma=0.3),
    Pegasos(lambda_=0.1),
    ALMA(),
    ALMA(p=4.0),
    MICRA(),
    DirectionalPerceptron(beta=0.2),
    DirectionalPerceptron(beta=0.2, step="relaxed"),
    TrackingALMA(),
    Forgetron(budget=7, gamma=0.3),
    RandomBudgetPerceptron(budget=7, gamma=0.3, random_state=0),
    FixedShare(),
]

FEW = [*FEW_REPEATING, PUMMA(), NORMA(), Forgetron(budget=7, gamma=0.3), FixedShare()]
SOME_REPEATING, SOME = everything_or(FEW_REPEATING, REPEATING), everything_or(FEW, ALL)


def rows(classes=2, size=50, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(size, 4))
    y = np.digitize(X[:, 0] + 0.4 * random.normal(size=size), [0.0, 0.8][: classes - 1])
    return X, y, random


def learned(clf):
    """All that predictions depend on."""
    if isinstance(clf, NOCA):
        return np.concatenate([clf.means_.ravel(), clf.variances_.ravel()])
    if isinstance(clf, FixedShare):
        return clf.weights_
    if getattr(clf, "kernel", "linear") == "linear" and getattr(clf, "budget", None) is None:
        return np.append(clf.coef_, clf.intercept_)
    return np.append(clf.dual_coef_, clf.intercept_)


def outputs(clf, X):
    return clf.predict_proba(X) if isinstance(clf, NOCA) else clf.decision_function(X)


# ------------------------------------------------------------------------------- the row many times
# Weights of several classes are compiled anew: for weights of features and for a budget.
@pytest.mark.parametrize(
    ("learner", "classes"),
    [*product(SOME_REPEATING, [2]), *product(everything_or(OF_CLASSES, REPEATING), [3])],
    ids=repr,
)
def test_a_weight_is_the_row_so_many_times(learner, classes):
    if classes == 3 and getattr(learner, "multiclass", "") == "1-best":
        pytest.skip("the second time another rival may be the highest")
    X, y, random = rows(classes)
    times = random.integers(1, 5, y.size)
    many = clone(learner).partial_fit(np.repeat(X, times, 0), np.repeat(y, times), range(classes))
    weighted = clone(learner).partial_fit(X, y, range(classes), sample_weight=times)
    scale = np.abs(outputs(many, X)).max()
    np.testing.assert_allclose(outputs(weighted, X), outputs(many, X), atol=1e-9 * scale)
    plain = clone(learner).partial_fit(X, y, range(classes))
    differs = not np.allclose(outputs(plain, X), outputs(weighted, X), atol=1e-6 * scale)
    assert differs or repr(learner) not in map(repr, DIFFERENT)


def one_by_one(rule, trial, times):
    """A row so many times, each with the step that the rule makes then; all of it along x."""
    margin, total = trial.margin, 0.0
    for _ in range(times):
        now = trial._replace(margin=margin, weight=1.0)
        if rule.active(now):
            _, step = rule.step(now)
            total, margin = total + step, margin + step * trial.xx
    return total


@pytest.mark.parametrize(
    "learner", [each for each in REPEATING if not isinstance(each, ROMMA | PUMMA | NOCA)], ids=repr
)
@settings(deadline=None, max_examples=60)
@given(trial=trials(log_xx=1.0, log_ww=1.0), times=st.integers(2, 12))
def test_steps_of_rules_that_do_not_count(learner, trial, times):
    rule = trainer_of(learner).rule(2.0)
    if not rule.active(trial):
        return
    found = rule.step(trial._replace(weight=float(times)))[1]
    around = [trial._replace(margin=trial.margin + gap) for gap in (0.0, -1e-9, 1e-9)]
    wanted = [one_by_one(rule, each, times) for each in around]
    assert any(found == pytest.approx(each, rel=1e-6, abs=1e-12) for each in wanted)


def repeated(rule, trial, times, curvature=1.0):
    """The same step again and again, as long as the margin is not passed."""
    shrink, step = rule.step(trial._replace(weight=1.0))
    margin, total, left = shrink * trial.margin, 0.0, times
    while left > 0.0 and (total == 0.0 or rule.active(trial._replace(margin=margin))):
        part = min(1.0, left)
        total += part * step
        margin += part * step * curvature * trial.xx
        left -= part
    return shrink, total


RULES = [
    Perceptron(margin=1.0),
    NORMA(rate=0.1, decay=0.02, margin=0.5),
    Pegasos(lambda_=0.01),
    ALMA(),
    MICRA(),
    DirectionalPerceptron(beta=0.5),
    DirectionalPerceptron(beta=0.5, rate=0.2, step="relaxed"),
    TrackingALMA(),
]


# A row along w that is shorter than beta: a relaxed step of length 0.
PARALLEL = Trial(math.sqrt(0.1), 1.0, 0.1, 0.1, 1, 0)


@pytest.mark.parametrize("learner", RULES, ids=repr)
@settings(deadline=None, max_examples=80)
@given(
    trial=trials(log_xx=1.0, log_ww=1.0),
    weight=st.floats(0.01, 30.0),
    p=st.sampled_from([2.0, 4.0]),
)
@example(trial=PARALLEL, weight=2.0, p=2.0)
def test_steps_of_a_weight(learner, trial, weight, p):
    rule = trainer_of(learner).rule(p if "p" in learner.get_params() else 2.0)
    if not rule.active(trial):
        return
    curvature = getattr(rule, "curvature", 1.0)
    wanted = repeated(rule, trial, weight, curvature)
    found = rule.step(trial._replace(weight=weight))
    # Where a margin is passed only by rounding, one more step or one less is right.
    more = repeated(rule, trial._replace(margin=trial.margin - 1e-9), weight, curvature)
    less = repeated(rule, trial._replace(margin=trial.margin + 1e-9), weight, curvature)
    fits = [np.allclose(found, steps, rtol=1e-6) for steps in (wanted, more, less)]
    assert any(fits)
    assert found[1] <= weight * rule.step(trial)[1] * (1.0 + 1e-12)


# ------------------------------------------------------------------------------------------ no row
@pytest.mark.parametrize("as_sparse", everything_or([False], [False, True]))
@pytest.mark.parametrize("learner", SOME, ids=repr)
def test_a_weight_of_0_is_no_row(learner, as_sparse):
    X, y, random = rows()
    weights = random.integers(0, 3, y.size).astype(float)
    X = sparse.csr_matrix(X) if as_sparse else X
    kept = weights > 0
    one = clone(learner).partial_fit(X, y, [0, 1], sample_weight=weights)
    other = clone(learner).partial_fit(X[kept], y[kept], [0, 1], sample_weight=weights[kept])
    np.testing.assert_array_equal(learned(one), learned(other))
    assert one.n_mistakes_ == other.n_mistakes_
    none = clone(one).partial_fit(X, y, [0, 1], sample_weight=np.zeros(y.size))
    assert none.n_mistakes_ == 0


@pytest.mark.parametrize(
    "learner", [*SOME, BisectionPerceptron(), MaxMargin(), PUMMA(soft_margin=0.5)], ids=repr
)
def test_a_fit_without_rows_of_weight_0(learner):
    X, y, random = rows(seed=1)
    weights = random.integers(0, 3, y.size).astype(float)
    kept = weights > 0
    learner = clone(learner)
    if not isinstance(learner, MaxMargin):
        learner.set_params(random_state=3, max_iter=5)
    one = clone(learner).fit(X, y, sample_weight=weights)
    other = clone(learner).fit(X[kept], y[kept], sample_weight=weights[kept])
    exact = not isinstance(learner, MaxMargin)
    np.testing.assert_allclose(
        outputs(one, X), outputs(other, X), rtol=0.0 if exact else 1e-6, atol=0.0 if exact else 1e-6
    )


# ------------------------------------------------------------------------------------ weights of 1
@pytest.mark.parametrize("factor", [0.25, 8.0])
def test_weights_scale(factor):
    X, y, random = rows()
    weights = random.uniform(0.1, 3.0, y.size)
    one = PassiveAggressive(C=0.2).partial_fit(X, y, [0, 1], sample_weight=weights)
    other = PassiveAggressive(C=0.2 / factor).partial_fit(
        X, y, [0, 1], sample_weight=factor * weights
    )
    np.testing.assert_allclose(learned(one), learned(other), rtol=1e-12)
    for learner in (AMIRA(random_state=0), PUMMA(random_state=0, kernel="rbf", gamma=0.5)):
        one = clone(learner).set_params(soft_margin=0.3).fit(X, y, weights)
        other = clone(learner).set_params(soft_margin=0.3 * factor).fit(X, y, factor * weights)
        np.testing.assert_allclose(outputs(one, X), outputs(other, X), rtol=1e-7, atol=1e-9)


# --------------------------------------------------------------------------------- the soft margin
SOFT = [
    PUMMA(delta=0.005),
    PUMMA(delta=0.005, kernel="poly", degree=1, gamma=1.0),
    AMIRA(epsilon=0.005, multiclass="ovr", intercept="pair"),
]


def best_margin(X, y, weights, penalty):
    exact = MaxMargin(soft_margin=penalty, tol=1e-9).fit(X, y, weights)
    return exact.certificate_.margin


@pytest.mark.parametrize("as_sparse", everything_or([False], [False, True]))
@pytest.mark.parametrize("learner", everything_or(SOFT[:2], SOFT), ids=repr)
def test_slack_costs_as_much_as_the_row_counts(learner, as_sparse):
    X, y, random = rows(size=40)
    weights = random.uniform(0.05, 20.0, y.size)
    best = best_margin(X, y, weights, 0.4)
    learner = clone(learner).set_params(soft_margin=0.4, random_state=0, max_iter=20000)
    certificate = learner.fit(sparse.csr_matrix(X) if as_sparse else X, y, weights).certificate_
    assert certificate.margin <= best * (1.0 + 1e-6)
    assert certificate.bound >= best * (1.0 - 1e-9)
    assert certificate.ratio >= (0.97 if isinstance(learner, PUMMA) else 0.7)
    assert abs(best_margin(X, y, None, 0.4) / best - 1.0) > 0.1  # it could have failed


def test_a_slack_is_that_of_so_many_rows():
    X, y, random = rows(size=30)
    times = random.integers(1, 4, y.size)
    one = PUMMA(soft_margin=0.5, delta=0.002, max_iter=20000, random_state=0).fit(X, y, times)
    many = clone(one).fit(np.repeat(X, times, 0), np.repeat(y, times))
    assert one.certificate_.margin == pytest.approx(many.certificate_.margin, rel=5e-3)
    cosine = np.sum(one.coef_ * many.coef_) / np.linalg.norm(one.coef_) / np.linalg.norm(many.coef_)
    assert cosine > 0.9995


@pytest.mark.parametrize(
    "learner",
    [
        AMIRA(multiclass="ovr"),
        Perceptron(),
        PUMMA(kernel="rbf", gamma=0.4),
        AMIRA(kernel="rbf", gamma=0.4),
    ],
    ids=repr,
)
def test_certificates_of_weighted_streams_hold(learner):
    """No bound is below the best margin of the rows with their own coordinates."""
    X, y, random = rows(size=40)
    weights = random.uniform(0.1, 10.0, y.size)
    learner = clone(learner).set_params(soft_margin=0.4, random_state=0)
    streamed = clone(learner)
    for part in np.array_split(np.arange(y.size), 7):
        streamed.partial_fit(X[part], y[part], [0, 1], sample_weight=weights[part])
    many = clone(learner).set_params(max_iter=3000).fit(X, y, weights)
    assert many.certificate_.margin > 0.0
    assert streamed.certificate_.bound >= many.certificate_.margin * (1.0 - 1e-9)


def test_rows_go_on_after_a_weighted_soft_fit():
    X, y, random = rows(size=40)
    weights = random.uniform(0.1, 10.0, y.size)
    for learner in (PUMMA(), ROMMA(), AMIRA(multiclass="ovr")):
        learner.set_params(soft_margin=0.4, random_state=0, max_iter=3000)
        learner.fit(X, y, weights)
        fitted = learner.certificate_
        learner.partial_fit(X[:5], y[:5])
        assert learner.certificate_.bound <= fitted.bound * (1.0 + 1e-9)
        both = np.append(weights, np.ones(5))
        best = MaxMargin(soft_margin=0.4, tol=1e-9).fit(
            np.concatenate([X, X[:5]]), np.append(y, y[:5]), both
        )
        if isinstance(learner, PUMMA):  # the others' intercept has a price
            assert learner.certificate_.bound >= best.certificate_.margin * (1.0 - 1e-9)
        with pytest.raises(ValueError, match="warm_start needs"):
            clone(learner).set_params(warm_start=True).fit(X, y, weights).fit(X, y)


# ----------------------------------------------------------------------------------------- classes
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "learner",
    [PassiveAggressive(C=0.05), Perceptron(kernel="rbf", gamma=0.3), PUMMA(soft_margin=1.0)],
    ids=repr,
)
def test_weights_of_classes(learner, classes):
    X, y, random = rows(classes)
    told = {0: 3.0, 1: 0.5}
    weights = random.uniform(0.5, 2.0, y.size)
    learner = clone(learner).set_params(random_state=0, max_iter=20)
    one = clone(learner).set_params(class_weight=told).fit(X, y, weights)
    other = clone(learner).fit(X, y, weights * np.array([3.0, 0.5, 1.0])[y])
    np.testing.assert_array_equal(outputs(one, X), outputs(other, X))
    one = clone(learner).set_params(class_weight="balanced").fit(X, y, weights)
    totals = np.bincount(y, weights)
    other = clone(learner).fit(X, y, weights * (weights.sum() / (classes * totals))[y])
    np.testing.assert_allclose(outputs(one, X), outputs(other, X), rtol=1e-9, atol=1e-9)


REFUSING = [
    AMIRA(),
    AMIRA(intercept="pair"),
    ROMMA(),
    PUMMA(),
    PUMMA(p=4.0),
    PassiveAggressive(),
    PassiveAggressive(loss="squared_hinge"),
    PassiveAggressive(kernel="rbf", gamma=0.3, budget=20),
    Relaxation(),
    Relaxation(rate=1.5),
    BisectionPerceptron(max_checks=2000),
    MaxMargin(soft_margin=0.0),
]
DEFAULTS = [
    each
    for each in (getattr(maxmargin, name)() for name in sorted(maxmargin.ALGORITHMS))
    if "class_weight" in each.get_params() and type(each) not in map(type, REFUSING)
]
# Loops with weights are compiled for each rule; `test_steps_of_a_weight` tries all rules.
WEIGHING = (Perceptron, NORMA, Forgetron, FixedShare, NOCA)
HEEDING = [
    *everything_or([each for each in DEFAULTS if type(each) in WEIGHING], DEFAULTS),
    *(AMIRA(soft_margin=1.0), PUMMA(soft_margin=1.0), MaxMargin(), PassiveAggressive(C=0.1)),
    *everything_or([], [ROMMA(soft_margin=1.0), PassiveAggressive(soft_margin=1.0)]),
    *everything_or([], [Relaxation(rate=0.5)]),
    BisectionPerceptron(soft_margin=1.0, max_checks=2000),
]


@pytest.mark.parametrize("learner", REFUSING, ids=repr)
def test_weights_of_classes_without_an_effect_are_refused(learner):
    X, y, _ = rows()
    for class_weight in ({1: 50.0}, "balanced"):
        clf = clone(learner).set_params(class_weight=class_weight)
        with pytest.raises(
            ValueError, match=r"class_weight= has no effect on .*Pass soft_margin=1.0"
        ):
            clf.fit(X, y)
        if hasattr(clf, "partial_fit"):
            with pytest.raises(ValueError, match="class_weight= has no effect"):
                clf.partial_fit(X, y, classes=[0, 1])
            with pytest.raises(ValueError, match="class_weight= has no effect"):
                clf.learn_one(X[0], y[0], classes=[0, 1])
        assert not hasattr(clf, "classes_")


@pytest.mark.parametrize("learner", HEEDING, ids=repr)
def test_weights_of_classes_have_an_effect(learner):
    random = np.random.default_rng(5)
    X = random.normal(size=(400, 3))
    y = (X[:, 0] + 1.5 * random.normal(size=400) > 1.5).astype(int)
    if getattr(learner, "kernel", "linear") == "rbf":
        learner = clone(learner).set_params(gamma=0.5)
    if "random_state" in learner.get_params():
        learner = clone(learner).set_params(random_state=0, max_iter=3)
    plain = clone(learner).fit(X, y)
    found = clone(learner).set_params(class_weight={1: 50.0}).fit(X, y)
    assert not np.array_equal(outputs(found, X), outputs(plain, X))


def running(y, weights, classes):
    """What balances the classes of the rows up to each."""
    totals, found = np.zeros(classes), []
    for label, weight in zip(y, weights, strict=True):
        totals[label] += weight
        found.append(weight * totals.sum() / ((totals > 0.0).sum() * totals[label]))
    return np.array(found)


STREAMED = [
    PassiveAggressive(C=0.05),
    PassiveAggressive(C=0.05, soft_margin=0.2),
    Perceptron(margin=1.0, kernel="rbf", gamma=0.3),
    NORMA(),
    FixedShare(),
]


@pytest.mark.parametrize(
    ("learner", "classes"),
    [*product(STREAMED, [2]), *product(everything_or(STREAMED[:1], STREAMED), [3])],
    ids=repr,
)
def test_balanced_streams(learner, classes, tmp_path):
    X, y, random = rows(classes)
    weights = random.uniform(0.5, 2.0, y.size)
    balanced = clone(learner).set_params(class_weight="balanced")
    whole = clone(balanced).partial_fit(X, y, range(classes), sample_weight=weights)
    told = clone(learner).partial_fit(
        X, y, range(classes), sample_weight=running(y, weights, classes)
    )
    np.testing.assert_allclose(outputs(whole, X), outputs(told, X), rtol=1e-9, atol=1e-12)
    parts = clone(balanced)
    for start, stop in ((0, 1), (1, 20), (20, 21), (21, 50)):
        parts.partial_fit(X[start:stop], y[start:stop], range(classes), weights[start:stop])
        maxmargin.save(parts, tmp_path / "model.mm")
        parts = maxmargin.load(tmp_path / "model.mm")
    np.testing.assert_array_equal(learned(parts), learned(whole))
    singly = clone(balanced)
    for x, label, weight in zip(X, y, weights, strict=True):
        singly.learn_one(x, label, w=weight, classes=range(classes))
    np.testing.assert_array_equal(learned(singly), learned(whole))


@pytest.mark.parametrize(
    ("learner", "told"),
    [
        *((Perceptron(), told) for told in (None, {0: 2.0})),
        *((PassiveAggressive(C=0.1, soft_margin=0.3), told) for told in (None, {0: 2.0})),
        (PUMMA(), None),
    ],
    ids=repr,
)
def test_one_row_with_a_weight(learner, told):
    X, y, random = rows()
    weights = random.choice([0.0, 0.5, 1.0, 3.0], y.size)
    one, all_rows = clone(learner), clone(learner).set_params(class_weight=told)
    one.set_params(class_weight=told)
    for x, label, weight in zip(X, y, weights, strict=True):
        one.learn_one(x, label, w=weight, classes=[0, 1])
    all_rows.partial_fit(X, y, [0, 1], sample_weight=weights)
    np.testing.assert_array_equal(learned(one), learned(all_rows))
    before = learned(one)
    for bad in (-1.0, np.nan, np.inf, 1e80):
        with pytest.raises(ValueError, match="sample_weight must be"):
            one.learn_one(X[0], y[0], w=bad)
    np.testing.assert_array_equal(learned(one), before)


@pytest.mark.parametrize(
    "learner",
    [
        PassiveAggressive(kernel="rbf", gamma=0.3),
        Forgetron(gamma=0.3),
        Projectron(gamma=0.3),
        FixedShare(kernel="rbf", gamma=0.3),
    ],
    ids=repr,
)
def test_nothing_but_rows_of_weight_0(learner, tmp_path):
    X, y, _ = rows()
    clf = clone(learner).partial_fit(X, y, [0, 1], np.zeros(y.size))
    assert np.ptp(clf.decision_function(X)) == 0.0
    maxmargin.save(clf, tmp_path / "model.mm")
    loaded = maxmargin.load(tmp_path / "model.mm")
    np.testing.assert_array_equal(
        learned(loaded.partial_fit(X, y)), learned(clone(learner).partial_fit(X, y, [0, 1]))
    )


# ----------------------------------------------------------------------------------- votes, streams
def test_experts_that_are_wrong_about_a_weight():
    said = np.array([[0, 1], [1, 0], [1, 1]], np.int32)
    labels, order, scores = (
        np.array([1, 1, 0], np.int32),
        np.arange(3, dtype=np.int32),
        np.empty((3, 1)),
    )
    found = []
    for targets in (Binary(labels), WeightedBinary(labels, np.array([3.0, 0.5, 1.0]))):
        shares, tally = (
            votes.new_votes(2),
            np.zeros(1, maxmargin.core.loop.TALLY).view(np.recarray),
        )
        votes.vote(said, order, targets, 2, shares, np.exp(-0.7), 0.0, scores, tally)
        found.append(shares.weights)
    np.testing.assert_allclose(found[0], 0.5)
    wanted = np.exp(-0.7 * np.array([3.0, 0.5]))
    np.testing.assert_allclose(found[1], wanted / wanted.sum())


def test_blocks_with_weights():
    X, y, random = rows()
    weights = random.uniform(0.0, 2.0, y.size)
    weights[:20] = 0.0
    blocks = [(X[part], y[part]) for part in np.array_split(np.arange(y.size), 5)]
    source = streams.open(iter(blocks))
    plain = PassiveAggressive(C=0.1, class_weight={1: 4.0}).fit_stream(source, classes=[0, 1])
    told = PassiveAggressive(C=0.1).partial_fit(X, y, [0, 1], np.where(y == 1, 4.0, 1.0))
    np.testing.assert_array_equal(learned(plain), learned(told))


def test_routing_of_weights_is_no_part_of_a_file(tmp_path):
    X, y, _ = rows()
    with sklearn.config_context(enable_metadata_routing=True):
        clf = PassiveAggressive(random_state=0).set_fit_request(sample_weight=True).fit(X, y)
        maxmargin.save(clf, tmp_path / "model.mm")
    np.testing.assert_array_equal(maxmargin.load(tmp_path / "model.mm").coef_, clf.coef_)


def test_certify_leaves_out_rows_of_weight_0():
    X = np.array([[0.0], [1.0], [1.5], [4.0]])
    y, weights = np.array([0, 0, 1, 1]), np.array([1.0, 5.0, 0.0, 0.1])
    clf = MaxMargin(soft_margin=0.0).fit(X, y, weights)
    found = certify(clf, X, y, sample_weight=weights)
    assert found.margin == pytest.approx(1.5, rel=1e-6)
    assert certify(clf, X, y).margin < 0.0


# -------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    "learner", [Perceptron(), AMIRA(kernel="rbf", gamma=1.0), Forgetron(), NOCA()], ids=repr
)
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0], "not negative, got -1.0 .row 1."),
        ([np.nan, 1.0], "must be finite"),
        ([1.0], "sample_weight.shape"),
        (np.ones((2, 2)), "must be 1D"),
        ([1e-60, 1.0], "must be 0 or between"),
    ],
)
def test_weights_that_are_refused(learner, weights, message):
    X, y = np.eye(2), [0, 1]
    for method in ("fit", "partial_fit"):
        clf = clone(learner)
        more = {"classes": [0, 1]} if method == "partial_fit" else {}
        with pytest.raises(ValueError, match=message):
            getattr(clf, method)(X, y, sample_weight=weights, **more)
        assert not hasattr(clf, "classes_")


def test_what_weights_cannot_be_combined_with():
    X, y, _ = rows()
    ones = np.ones(y.size)
    with pytest.raises(ValueError, match="with a soft margin on a budget"):
        Perceptron(budget=5, kernel="rbf", gamma=1.0, soft_margin=1.0).fit(X, y, ones)
    with pytest.raises(ValueError, match="with a soft margin for p != 2"):
        ALMA(p=4.0, soft_margin=1.0).fit(X, y, ones)
    with pytest.raises(ValueError, match="pairs on a stream"):
        PUMMA(soft_margin=1.0).partial_fit(X, y, [0, 1], ones)
    with pytest.raises(ValueError, match="no sample weight can be zero"):
        PUMMA(kernel="precomputed").fit(X @ X.T, y, ones - (np.arange(y.size) == 3))
    with pytest.raises(ValueError, match="nothing to learn from"):
        Perceptron().fit(X, y, 0 * ones)
    with pytest.raises(ValueError, match=r"whole numbers, got 0.5 .row 3"):
        NOCA().fit(X, y, ones - 0.5 * (np.arange(y.size) == 3))
    with pytest.raises(ValueError, match="class_weight must be between"):
        Perceptron(class_weight={0: -1.0}).fit(X, y)
    with pytest.raises(ValueError, match="'class_weight' parameter"):
        Perceptron(class_weight="even").fit(X, y)
    for learner in (Perceptron(class_weight={"1": 5.0}), MaxMargin(class_weight={7: 5.0})):
        with pytest.raises(ValueError, match=r"class_weight has .*, which is not among \[0, 1\]"):
            learner.fit(X, y)
    Perceptron(class_weight={0: 1.0, 1: 2.0, 7: 5.0}, random_state=0).fit(X, y)
    for weights in (["1"] * y.size, ones + 0j, np.ma.masked_array(ones, ones > 2)):
        with pytest.raises(ValueError, match="must be numbers"):
            Perceptron().fit(X, y, weights)
    with pytest.raises(ValueError, match="times class_weight must be between"):
        Perceptron(class_weight={0: 1e-40}).fit(X, y, 1e-40 * ones)
    clf = PUMMA(soft_margin=1.0, warm_start=True, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="cannot go on with weights"):
        clf.fit(X, y, ones)


def test_weights_of_classes_of_experts_are_refused():
    """An expert learns with the weights of its vote."""
    X, y, _ = rows()
    experts = [PassiveAggressive(C=0.1, class_weight="balanced"), Perceptron()]
    with pytest.raises(ValueError, match=r"learners\[0\].*set that of FixedShare"):
        FixedShare(learners=experts).partial_fit(X, y, [0, 1])


# ------------------------------------------------------------------------------- bounds on updates
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weights", [(0.001, 1.0), (0.1, 0.5), (0.3, 7.0), (2.0, 5.0)])
@pytest.mark.parametrize(
    ("clf", "most"),
    [
        (Perceptron(), Perceptron.max_updates),
        (Perceptron(margin=2.0), partial(Perceptron.max_updates, threshold=2.0)),
        (
            Relaxation(margin=1.0, target=1.2, rate=0.5),
            partial(Relaxation.max_updates, 1.0, 1.2, 0.5),
        ),
        (
            Relaxation(margin=1.0, target=1.2, rate=1.5),
            partial(Relaxation.max_updates, 1.0, 1.2, 1.5),
        ),
    ],
    ids=["Perceptron", "with a margin", "Relaxation", "overrelaxation"],
)
def test_bounds_with_weights(clf, most, weights, seed):
    X, y = separable(n=60, d=3, gap=0.4, seed=seed)
    X = X - X.mean(axis=0)
    margin = max_margin(X, y, intercept=False)[0]
    chosen = np.random.default_rng(seed).choice(weights, size=60)
    clf = clone(clf).set_params(fit_intercept=False, random_state=0, max_iter=10**6)
    clf.set_params(n_iter_no_change=None).fit(X, y, sample_weight=chosen)
    assert clf.converged_
    radius = np.linalg.norm(X, axis=1).max()
    factors = {"f_min": min(1.0, *weights), "f_max": max(1.0, *weights)}
    assert clf.n_updates_ <= most(radius, margin, **factors)
