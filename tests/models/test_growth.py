"""Going on after a fit: every vector is its own, and bounds count what comes later."""

import itertools

import numpy as np
import pytest
from models.kinds import SPECS, arrays_of, data, fitted, learn_all
from problems import label, overlapping
from reference import max_margin
from reference_pnorm import soft
from sklearn.base import clone

from maxmargin import (
    AMIRA,
    AROW,
    FTRL,
    PUMMA,
    ROMMA,
    AutoMargin,
    PassiveAggressive,
    Perceptron,
)
from maxmargin.training.protocol import state_of

LAMBDA = 0.7
MANY = 1000  # rows, which are presented in several blocks
LINEAR = [name for name in SPECS if name.startswith("linear,") or name == "linear"]
SOFT = [name for name in LINEAR if SPECS[name].soft_margin > 0.0]


def distinct(number, model):
    """All arrays behind a model, each once, though there may be several ways to it."""
    return {id(array): (f"{number}{path}", array) for path, array in arrays_of(model)}.values()


def assert_nothing_is_shared(*models):
    """Neither two arrays of one model share memory, nor arrays of two models."""
    found = [each for number, model in enumerate(models) for each in distinct(number, model)]
    for (one, mine), (other, theirs) in itertools.combinations(found, 2):
        assert not np.shares_memory(mine, theirs), (one, other)


@pytest.mark.parametrize("name", SPECS)
def test_no_two_arrays_of_a_model_share_memory(name):
    everything = data(3 if "joint" in name else 2, n=90)
    model, _ = fitted(SPECS[name], everything.part(slice(0, 60)))
    stream = model.streaming(MANY)
    assert_nothing_is_shared(stream)
    learn_all(stream, everything.part(slice(60, 90)))
    assert_nothing_is_shared(stream)
    if stream is not model:
        assert_nothing_is_shared(model, stream)


@pytest.mark.parametrize("name", LINEAR)
def test_a_grown_model_shares_nothing_with_the_old_one(name):
    everything = data(3 if "joint" in name else 2)
    model = fitted(SPECS[name], everything)[0].streaming(2)
    codes = np.arange(everything.classes)
    for width in (4, 7):
        assert_nothing_is_shared(model, model.grown(width, range(model.problems()), codes))
    assert_nothing_is_shared(model, model.continued())


@pytest.mark.parametrize("learner", [AROW(), FTRL(), AutoMargin()], ids=label)
def test_a_grown_learner_with_scales_shares_nothing_with_the_old_one(learner):
    given = data(2)
    clf = clone(learner).partial_fit(given.X, given.codes, classes=[0, 1])
    model = state_of(clf).model.streaming(2)
    for width in (4, 7):
        assert_nothing_is_shared(model, model.grown(width, range(model.problems()), np.arange(2)))


@pytest.mark.parametrize("name", [name for name in SOFT if "joint" not in name])
def test_snapshots_stay_while_the_weights_go_on(name):
    everything = data(2, n=90)
    model = fitted(SPECS[name], everything.part(slice(0, 60)))[0].streaming(2)
    hull = model.hull()
    np.testing.assert_array_equal(hull.weights, hull.mark)
    np.testing.assert_array_equal(hull.share, hull.mark_share)
    mark, mark_share = hull.mark.copy(), hull.mark_share.copy()
    due = model.linear.scalars.table.next_mark[0]
    learn_all(model, everything.part(slice(60, 61)))
    for end in range(62, 90):  # up to the next snapshot
        if model.updates() + 1 >= due:
            break
        learn_all(model, everything.part(slice(end - 1, end)))
    np.testing.assert_array_equal(hull.mark, mark)
    np.testing.assert_array_equal(hull.mark_share, mark_share)
    assert not np.array_equal(hull.weights, mark)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "learner",
    [
        AMIRA(epsilon=0.3),
        PUMMA(delta=0.2),
        PassiveAggressive(C=0.5),
        Perceptron(margin=0.5),
        Perceptron(average=True),
        ROMMA(delta=0.2),
    ],
    ids=label,
)
def test_the_bound_counts_what_comes_later(learner, intercept):
    """A snapshot that moved along would leave nothing since then, of whatever mass: bound 0."""
    X, y = overlapping(n=60, d=4, seed=1)
    clf = clone(learner).set_params(soft_margin=LAMBDA, fit_intercept=intercept, random_state=0)
    clf.fit(X[:12], y[:12])
    first = clf.certificate_.bound
    for seen in range(13, 61):
        clf.partial_fit(X[seen - 1 : seen], y[seen - 1 : seen])
        if seen % 4 == 0:
            best, _, _ = max_margin(soft(X[:seen], LAMBDA), y[:seen], intercept)
            assert clf.certificate_.bound >= best
    assert clf.certificate_.bound < first
