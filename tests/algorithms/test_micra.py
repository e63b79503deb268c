import numpy as np
import pytest
import reference
from algorithms.agreement import assert_follows, magnitudes, streams
from algorithms.theory import converged, separable_problems
from algorithms.trials import after, trials
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from maxmargin import MICRA
from maxmargin.training.protocol import trainer_of

parameters = st.fixed_dictionaries(
    {
        "beta": st.none() | magnitudes(0.01, 10.0),
        "eta": magnitudes(0.1, 10.0),
        "epsilon": st.floats(0.05, 2.0),
        "zeta": st.floats(0.0, 1.0),
    }
)


def directions(trace: reference.Trace) -> reference.Trace:
    norms = np.linalg.norm(trace.history, axis=1, keepdims=True)
    history = np.divide(trace.history, norms, out=np.zeros_like(trace.history), where=norms > 0)
    return trace._replace(history=history)


@settings(max_examples=60, deadline=None)
@given(stream=streams(), parameters=parameters)
def test_follows_the_direction_of_the_reference(stream, parameters):
    def run(X, y):
        return directions(reference.micra(X, y, **parameters))

    assert_follows(MICRA(**parameters), run, stream)


@given(seen=trials(), parameters=parameters)
def test_keeps_length_one(seen, parameters):
    rule = trainer_of(MICRA(**parameters)).rule(2.0)
    assume(rule.active(seen))
    after_step = after(rule, seen)
    assume(after_step.ww > 0.0)
    assert after_step.ww == pytest.approx(1.0)


@given(seen=trials(), parameters=parameters)
def test_effective_rate(seen, parameters):
    """The step is ``eta / t**zeta`` of ``|w| / R``, also when w has no longer length 1."""
    rule = trainer_of(MICRA(**parameters)).rule(2.0)
    count = max(seen.k, 1)
    expected = parameters["eta"] / count ** parameters["zeta"] * np.sqrt(seen.ww / seen.largest_xx)
    assert rule.step(seen) == (1.0, pytest.approx(expected))


@settings(max_examples=20, deadline=None)
@given(problem=separable_problems())
def test_converges_with_default_parameters(problem):
    learner = converged(MICRA(), problem)
    asked = problem.radius / np.sqrt(learner.n_updates_)
    assert problem.reached(learner) > asked * (1 - 1e-9)
    assert np.linalg.norm(np.append(learner.coef_, learner.intercept_)) == pytest.approx(1.0)
