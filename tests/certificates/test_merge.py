"""Certificates of parts of the rows: together they say what holds for all."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import label, separable, three_classes
from reference import max_margin
from reference_pnorm import max_pnorm_margin, soft
from sklearn.base import clone

from maxmargin import (
    ALMA,
    AMIRA,
    NORMA,
    PUMMA,
    ROMMA,
    Certificate,
    PassiveAggressive,
    Perceptron,
    certify,
)
from maxmargin.training.protocol import state_of

LEARNERS = [
    AMIRA(epsilon=0.1, multiclass="ovr"),
    AMIRA(epsilon=0.1, multiclass="ovr", intercept="pair"),
    NORMA(rate=0.3, decay=0.1, margin=0.5),
    PUMMA(delta=0.05),
    PassiveAggressive(),
    Perceptron(margin=0.5, rate=0.1),
    ROMMA(delta=0.05),
]
every_learner = pytest.mark.parametrize("learner", LEARNERS, ids=label)
seeds = st.integers(0, 2**32 - 1)


def best_margin(X, y, intercept):
    """Of all hyperplanes: infinite if there is one class only, 0 if there is none."""
    if intercept and abs(y.sum()) == y.size:
        return math.inf
    best, _, _ = max_margin(X, y, intercept)
    return 0.0 if math.isnan(best) else best


def streamed(learner, X, y, passes, classes=(-1, 1)):
    """The certificate of a learner that has seen these rows only."""
    clf = clone(learner)
    for _ in range(passes):
        clf.partial_fit(X, y, classes=classes)
    return clf.certificate_


def cut(X, y, sizes):
    """The rows in parts of about these relative sizes, each of at least one row."""
    free, count = len(y) - len(sizes), np.arange(1, len(sizes) + 1)
    ends = count + (np.cumsum(sizes) * free) // np.sum(sizes)
    return [(X[a:b], y[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def margin_of(w, b, X, y):
    return float(np.min(y * (X @ w + b)) / np.linalg.norm(w))


def assert_sound(parts, merged, best):
    assert merged.bound >= best
    assert merged.bound <= min(part.bound for part in parts)


# ------------------------------------------------------------------------------------- soundness
# Shares of the rows from equal to very different.
SIZES = st.lists(st.sampled_from([1, 1, 2, 5, 30]), min_size=2, max_size=5)


@settings(max_examples=60, deadline=None)
@given(
    learner=st.sampled_from(LEARNERS),
    intercept=st.booleans(),
    rows=st.integers(6, 30),
    features=st.integers(1, 4),
    gap=st.floats(0.02, 1.0),
    sizes=SIZES,
    passes=st.lists(st.integers(1, 20), min_size=5, max_size=5),
    seed=seeds,
)
def test_sound_for_any_parts(learner, intercept, rows, features, gap, sizes, passes, seed):
    """Parts may have one class only, which proves nothing with an intercept."""
    X, y = separable(rows, features, gap, shift=1.0 if intercept else 0.0, seed=seed)
    learner = clone(learner).set_params(fit_intercept=intercept)
    random = np.random.default_rng(seed)
    w, b = random.normal(size=features), random.normal() if intercept else 0.0
    parts = [
        replace(streamed(learner, *part, count), margin=margin_of(w, b, *part))
        for part, count in zip(cut(X, y, sizes), passes[: len(sizes)], strict=True)
    ]
    merged = Certificate.merge(parts)
    assert_sound(parts, merged, best_margin(X, y, intercept))
    assert merged.margin == pytest.approx(margin_of(w, b, X, y), rel=1e-12)
    # Shards of shards, in any order: sums of some of them may prove more than those of all.
    again = Certificate.merge([Certificate.merge(parts[1:]), parts[0]])
    assert_sound(parts, again, best_margin(X, y, intercept))
    assert again.margin == merged.margin
    assert again.bound <= merged.bound * (1 + 1e-6)


@settings(max_examples=40, deadline=None)
@given(
    learner=st.sampled_from(LEARNERS),
    intercept=st.booleans(),
    sizes=SIZES,
    lam=st.floats(0.05, 2.0),
    fits=st.booleans(),
    seed=seeds,
)
def test_sound_with_a_soft_margin(learner, intercept, sizes, lam, fits, seed):
    """Each row has a coordinate of its own, on whichever machine it is."""
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(20, 3)), np.where(random.random(20) < 0.5, 1, -1)
    y[:2] = 1, -1
    learner = clone(learner).set_params(
        soft_margin=lam, fit_intercept=intercept, max_iter=10, random_state=0
    )
    parts = []
    for rows, labels in cut(X, y, sizes):
        both = np.unique(labels).size == 2
        clf = clone(learner)
        parts.append(
            clf.fit(rows, labels).certificate_
            if fits and both
            else streamed(clf, rows, labels, passes=1)
        )
    best, _, _ = max_margin(soft(X, lam), y, intercept)
    assert_sound(parts, Certificate.merge(parts), best)


@functools.cache
def cubic(intercept, seed):
    X, y = separable(n=18, d=3, gap=0.4, shift=1.0 if intercept else 0.0, seed=seed)
    best, _, _ = max_pnorm_margin(X, y, 3.0, intercept)
    return X, y, 0.0 if math.isnan(best) else best


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "learner",
    [
        PUMMA(p=3.0, delta=0.1),
        *(ALMA(p=3.0, alpha=0.3, fit_intercept=intercept) for intercept in (False, True)),
        *(Perceptron(p=3.0, margin=0.5, fit_intercept=intercept) for intercept in (False, True)),
    ],
    ids=label,
)
def test_sound_in_another_norm(learner, seed):
    X, y, best = cubic(learner.fit_intercept, seed)
    for sizes in ([1, 1], [1, 5, 3]):
        parts = [streamed(learner, *part, passes=10) for part in cut(X, y, sizes)]
        merged = Certificate.merge(parts)
        assert_sound(parts, merged, best)
        assert merged.evidence.p == 3.0


@every_learner
@pytest.mark.parametrize("intercept", [False, True])
def test_sound_for_each_of_three_classes(learner, intercept):
    X, y = three_classes(n=40, d=3)
    learner = clone(learner).set_params(fit_intercept=intercept)
    parts = [
        streamed(learner, *part, passes=10, classes=(0, 1, 2)) for part in cut(X, y, [5, 1, 2])
    ]
    merged = Certificate.merge(parts)
    assert len(merged.classes) == 3
    for c, one in enumerate(merged.classes):
        best = best_margin(X, np.where(y == c, 1, -1), intercept)
        assert_sound([part.classes[c] for part in parts], one, best)
    assert merged.bound in [one.bound for one in merged.classes]


def test_classes_that_are_learned_together_have_the_smallest_bound():
    X, y = three_classes(n=60, d=3)
    parts = [AMIRA(random_state=0).fit(*part).certificate_ for part in cut(X, y, [2, 1])]
    merged = Certificate.merge(parts)
    assert merged.bound == min(part.bound for part in parts)
    assert merged.margin == min(part.margin for part in parts)
    assert merged.evidence is None


# -------------------------------------------------------------------------------------- strength
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("learner", [PUMMA(delta=0.01), ROMMA(delta=0.01)], ids=label)
def test_added_masses_prove_more_than_any_part(learner, intercept):
    """Each part can be separated along its own axis; all rows only along the diagonal."""
    y, best = np.array([1, -1]), np.sqrt(0.5)
    shards = [(np.array([[1.0, 0.0], [-1.0, 0.0]]), y), (np.array([[0.0, 1.0], [0.0, -1.0]]), y)]
    X, labels = (np.concatenate(both) for both in zip(*shards, strict=True))
    assert best_margin(X, labels, intercept) == pytest.approx(best)
    learner = clone(learner).set_params(fit_intercept=intercept)
    parts = [streamed(learner, *shard, passes=50) for shard in shards]
    assert min(part.bound for part in parts) >= 1.0
    merged = Certificate.merge(parts)
    assert best <= merged.bound < 1.02 * best


def test_parts_of_one_class_each_prove_something_together():
    X, y = separable(n=40, d=3, gap=0.5)
    order = np.argsort(y, kind="stable")
    learner = Perceptron(margin=1.0, rate=0.1)
    parts = [
        streamed(learner, X[order][y[order] == sign], y[order][y[order] == sign], passes=3)
        for sign in (-1, 1)
    ]
    assert [part.bound for part in parts] == [math.inf, math.inf]
    merged = Certificate.merge(parts)
    assert best_margin(X, y, True) <= merged.bound < np.linalg.norm(X, axis=1).max()


@pytest.mark.parametrize("learner", [PUMMA(delta=0.01), ROMMA(delta=0.01)], ids=label)
def test_a_part_that_proves_nothing_does_no_harm(learner):
    X, y = separable(n=40, d=3, gap=0.5)
    known = streamed(learner, X, y, passes=20)
    alone = streamed(learner, X[y > 0][:1], y[y > 0][:1], passes=1)
    assert alone.bound == math.inf
    for parts in ([known, alone], [alone, known], [known, Certificate(math.nan, math.inf)]):
        merged = Certificate.merge(parts)
        assert best_margin(X, y, True) <= merged.bound <= known.bound


# ---------------------------------------------------------------------------------- one classifier
@pytest.mark.parametrize("intercept", [False, True])
def test_certify_in_parts(intercept):
    """One classifier, measured where the rows are, and proved to be good by all of them."""
    X, y = separable(n=90, d=3, gap=0.3, shift=1.0 if intercept else 0.0)
    clf = PUMMA(delta=0.01, fit_intercept=intercept, random_state=0).fit(X, y)
    parts = [certify(clf, *part) for part in cut(X, y, [1, 3, 5])]
    merged, whole = Certificate.merge(parts), certify(clf, X, y)
    assert merged.margin == whole.margin == min(part.margin for part in parts)
    assert_sound(parts, merged, best_margin(X, y, intercept))
    assert merged.evidence is not None


def test_a_margin_that_is_not_known_stays_so():
    merged = Certificate.merge([Certificate(math.nan, 2.0), Certificate(0.5, 1.0)])
    assert math.isnan(merged.margin)
    assert merged.bound == 1.0


def test_one_part_is_itself():
    X, y = separable(n=30, d=3, gap=0.5)
    one = ROMMA(delta=0.1, random_state=0).fit(X, y).certificate_
    merged = Certificate.merge([one])
    assert merged.margin == one.margin
    assert merged.bound == one.bound


# ---------------------------------------------------------------------------- what cannot be merged
@pytest.mark.parametrize(
    ("learners", "why"),
    [
        ([], "at least one certificate"),
        ([ROMMA(), ROMMA(fit_intercept=False)], "with and without intercept"),
        ([PUMMA(), PUMMA(soft_margin=1.0)], "with different soft"),
        ([PUMMA(), PUMMA(p=3.0)], "different norms"),
    ],
)
def test_what_cannot_be_merged(learners, why):
    X, y = separable(n=30, d=3, gap=0.5)
    parts = [streamed(learner, X, y, passes=1) for learner in learners]
    with pytest.raises(ValueError, match=why):
        Certificate.merge(parts)


def test_other_rows_and_classes():
    X, y = separable(n=30, d=3, gap=0.5)
    one, narrow = (streamed(ROMMA(), rows, y, passes=1) for rows in (X, X[:, :2]))
    three = streamed(ROMMA(), *three_classes(n=30, d=3), passes=1, classes=(0, 1, 2))
    for other, why in ((narrow, "numbers of features"), (three, "same number of classes")):
        with pytest.raises(ValueError, match=why):
            Certificate.merge([one, other])


def test_intercepts_of_both_kinds():
    """Pairs have one as well, though they count masses in another way."""
    X, y = separable(n=60, d=3, gap=0.4)
    shards = cut(X, y, [1, 1, 1])
    learners = PUMMA(), ROMMA(delta=0.1), PUMMA(delta=0.3)
    parts = [streamed(one, *shard, passes=20) for one, shard in zip(learners, shards, strict=True)]
    merged = Certificate.merge(parts)
    assert_sound(parts, merged, best_margin(X, y, True))
    pairs = Certificate.merge([parts[0], parts[2]])
    assert merged.bound == min(pairs.bound, parts[1].bound)


def test_room_for_more_columns_does_not_count():
    """Weights for names that come one by one are moved whenever their number has doubled."""
    X, y = separable(n=40, d=5, gap=0.4)
    names, clfs = "abcde", (ROMMA(delta=0.1), ROMMA(delta=0.1))
    for clf, columns, (rows, labels) in zip(clfs, (1, 5), cut(X, y, [1, 1]), strict=True):
        for i, (row, each) in enumerate(zip(rows, labels, strict=True)):
            known = max(columns, min(5, i + 1))
            features = dict(zip(names[:known], row[:known], strict=True))
            clf.learn_one(features, int(each), classes=[-1, 1])
    widths = [state_of(clf).model.width() for clf in clfs]
    assert widths[0] != widths[1]
    parts = [clf.certificate_ for clf in clfs]
    assert Certificate.merge(parts).evidence.vectors.shape == (2, 5)
