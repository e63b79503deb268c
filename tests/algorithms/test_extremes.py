"""No rule leaves the finite numbers for rows that `fit` accepts."""

import math

import pytest
from algorithms.trials import after, trials
from hypothesis import assume, given
from hypothesis import strategies as st

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
from maxmargin.core.loop import LARGEST_XX, SMALLEST_XX
from maxmargin.training.protocol import trainer_of

LEARNERS = [
    ALMA(),
    AMIRA(),
    AMIRA(epsilon=0.0),
    MICRA(),
    MICRA(beta=1.0, epsilon=2.0, zeta=1.0),
    NORMA(),
    ROMMA(),
    ROMMA(delta=0.0),
    DirectionalPerceptron(),
    DirectionalPerceptron(length="fixed", step="relaxed"),
    PassiveAggressive(),
    PassiveAggressive(C=1e-6),
    PassiveAggressive(C=1e-6, loss="squared_hinge"),
    Pegasos(),
    Pegasos(project=True),
    Perceptron(),
    Relaxation(),
    TrackingALMA(),
    TrackingALMA(radius=math.inf),
]

legal = math.log10(LARGEST_XX)
assert math.log10(SMALLEST_XX) == -legal
# A projection onto margin 1 of the shortest row gives w.w = 1 / x.x, several of them a bit more.
extreme = trials(log_xx=legal, log_ww=legal + 2)


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
@given(seen=extreme, start=st.booleans())
def test_steps_are_finite(learner, seen, start):
    if start:
        seen = seen._replace(margin=0.0, ww=0.0, k=0)
    rule = trainer_of(learner).rule(2.0)
    assert math.isfinite(rule.rest(seen))
    assume(rule.active(seen))
    assert all(map(math.isfinite, rule.step(seen)))
    new = after(rule, seen)
    assert all(map(math.isfinite, new))


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
@pytest.mark.parametrize("norm2", [0.0, 1e-200, 1e-100, 1.0, 1e100, 1e200])
def test_projections_are_finite(learner, norm2):
    assert 0.0 < trainer_of(learner).rule(2.0).project(norm2) < math.inf
