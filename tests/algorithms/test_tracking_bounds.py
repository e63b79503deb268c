"""Theorems 1 to 4 on moving targets: what holds for NORMA and TrackingALMA alike."""

import numpy as np
import pytest
from algorithms.moving import known, pursuits
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin import NORMA, TrackingALMA

both = pytest.mark.parametrize("learner", [NORMA, TrackingALMA])
UNIT = {
    NORMA: {"radius": 1.0, "norm": 1.0, "trials": 10},
    TrackingALMA: {"radius": 1.0, "norm": 1.0},
}
CALLS = [
    (learner, name)
    for learner in (NORMA, TrackingALMA)
    for name in ("tuned", "mistake_bound", "margin_error_bound")
]
WRONG_FACTS = [
    {"radius": 0.0},
    {"radius": np.inf},
    {"norm": 0.0},
    {"norm": np.nan},
    {"margin": np.inf},
    {"margin": "large"},
    {"drift": -0.1},
    {"losses": -0.1},
    {"p": 1.5},
    {"p": "log"},
    {"trials": 0},
    {"trials": 2.5},
    {"squared_drift": -1.0},
]


def play(clf, pursuit):
    clf.set_params(fit_intercept=False)
    return clf.partial_fit(pursuit.X, pursuit.y, classes=[-1, 1])


@pytest.mark.parametrize("learner", [NORMA, pytest.param(TrackingALMA, marks=pytest.mark.slow)])
@settings(max_examples=150, deadline=None)
@given(pursuit=pursuits(), aggressive=st.booleans())
def test_mistakes_of_the_tuned_learner(learner, pursuit, aggressive):
    facts = known(learner, pursuit) | {"margin": pursuit.margin}
    clf = play(learner.tuned(**facts, aggressive=aggressive), pursuit)
    assert clf.n_mistakes_ <= learner.mistake_bound(**facts)


@both
@settings(max_examples=150, deadline=None)
@given(pursuit=pursuits(), part=st.floats(0.01, 0.99))
def test_margin_errors(learner, pursuit, part):
    """With a threshold above 0, the updates are the margin errors."""
    threshold = part * pursuit.margin
    facts = known(learner, pursuit) | {"margin": pursuit.margin, "threshold": threshold}
    clf = learner.tuned(**facts)
    assert clf.margin == threshold
    play(clf, pursuit)
    assert clf.n_updates_ <= learner.margin_error_bound(**facts)


@both
@pytest.mark.parametrize("aggressive", [False, True])
def test_mistake_bound_is_attained_on_orthogonal_rows(learner, aggressive):
    facts = UNIT[learner] | {"norm": 4.0, "margin": 1.0}
    facts |= {"trials": 16} if learner is NORMA else {}
    clf = learner.tuned(**facts, aggressive=aggressive, fit_intercept=False)
    clf.partial_fit(np.eye(16), np.tile([-1, 1], 8), classes=[-1, 1])
    assert clf.n_mistakes_ == learner.mistake_bound(**facts) == 16


@pytest.mark.parametrize("bad", WRONG_FACTS, ids=str)
@pytest.mark.parametrize(("learner", "call"), CALLS)
def test_wrong_facts_are_named(learner, call, bad):
    facts = UNIT[learner] | {"margin": 1.0}
    if call == "margin_error_bound":
        facts["threshold"] = 0.5
    (name,) = bad
    if learner is NORMA or name not in ("trials", "squared_drift"):
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            getattr(learner, call)(**facts | bad)


@both
@pytest.mark.parametrize("margin", [0.0, -0.3])
def test_nothing_is_tuned_without_a_margin(learner, margin):
    with pytest.raises(ValueError, match="'margin' parameter"):
        learner.tuned(**UNIT[learner], margin=margin)


@both
@pytest.mark.parametrize("threshold", [-0.1, 1.0, 2.0])
def test_threshold_is_below_the_margin(learner, threshold):
    with pytest.raises(ValueError, match="'threshold' parameter"):
        learner.margin_error_bound(**UNIT[learner], margin=1.0, threshold=threshold)
