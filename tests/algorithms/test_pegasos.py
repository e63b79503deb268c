from functools import partial

import numpy as np
import pytest
import reference
from algorithms.agreement import assert_follows, magnitudes, streams
from algorithms.theory import losses, played, with_intercept
from algorithms.trials import after, trials
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from problems import overlapping_sets
from sklearn.svm import LinearSVC

from maxmargin import Pegasos
from maxmargin.training.protocol import trainer_of

strengths = magnitudes(0.001, 10.0)


@settings(max_examples=60, deadline=None)
@given(stream=streams(), lambda_=strengths, project=st.booleans())
def test_follows_the_reference(stream, lambda_, project):
    parameters = {"lambda_": lambda_, "project": project}
    assert_follows(Pegasos(**parameters), partial(reference.pegasos, **parameters), stream)


@given(seen=trials(), lambda_=strengths, project=st.booleans())
def test_first_trial_wipes(seen, lambda_, project):
    first = seen._replace(t=1, k=0)
    rule = trainer_of(Pegasos(lambda_=lambda_, project=project)).rule(2.0)
    assert rule.step(first) == (0.0, 1.0 / lambda_)
    assert rule.rest(first) == 0.0


@given(seen=trials(), lambda_=strengths, project=st.booleans())
def test_step_is_a_sub_gradient(seen, lambda_, project):
    """``w - (lambda w - y x) / (lambda t)``, without the second term where there is no loss."""
    rule = trainer_of(Pegasos(lambda_=lambda_, project=project)).rule(2.0)
    eta = 1.0 / (lambda_ * seen.t)
    assert rule.step(seen) == (pytest.approx(1 - eta * lambda_), pytest.approx(eta))
    assert rule.rest(seen) == pytest.approx(1 - eta * lambda_)


@given(seen=trials(), lambda_=strengths)
def test_projection_keeps_the_ball(seen, lambda_):
    rule = trainer_of(Pegasos(lambda_=lambda_, project=True)).rule(2.0)
    assume(rule.active(seen))
    free = after(trainer_of(Pegasos(lambda_=lambda_)).rule(2.0), seen).ww
    assert after(rule, seen).ww == pytest.approx(min(free, 1 / lambda_))


@settings(max_examples=25, deadline=None)
@given(drawn=overlapping_sets(), lambda_=magnitudes(0.01, 10.0), project=st.booleans())
def test_regret(drawn, lambda_, project):
    X, y = drawn
    assume(len(X) >= 3)  # as in the theorem
    rows = with_intercept(X)

    def objective(w):
        return np.mean(lambda_ / 2 * np.sum(w**2, axis=-1) + losses(w, rows, y))

    svm = LinearSVC(
        loss="hinge", C=1 / (lambda_ * len(X)), fit_intercept=False, tol=1e-8, random_state=0
    )
    best = objective(svm.fit(rows, y).coef_)
    suffered = objective(played(Pegasos(lambda_=lambda_, project=project), X, y))
    radius = np.linalg.norm(rows, axis=1).max()
    assert suffered - best <= Pegasos.max_regret(lambda_, radius, len(X), project)


def test_bound_by_hand():
    limit = Pegasos.max_regret(lambda_=0.25, radius=2.0, trials=100)
    assert limit == pytest.approx(16 * (1 + np.log(100)) / 50)
    limit = Pegasos.max_regret(lambda_=0.25, radius=2.0, trials=100, project=True)
    assert limit == pytest.approx(6.25 * (1 + np.log(100)) / 50)
