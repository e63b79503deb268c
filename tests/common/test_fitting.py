"""What `fit` promises about passes, orders, warnings and interruptions."""

import io
import pickle
import sys
import warnings

import numpy as np
import pytest
from common.estimators import (
    assert_same_model,
    every_bounded_estimator,
    every_bounded_warm_estimator,
    every_estimator,
    every_settling_estimator,
    memory,
    weights_of,
)
from problems import overlapping, separable, three_classes
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from maxmargin import ROMMA, Perceptron
from maxmargin.algorithms import noca
from maxmargin.core.loop import run_loop
from maxmargin.models import budget_model, expert_model, linear_model
from maxmargin.spaces.gaussian_mixture import learn_mixture

X, y = overlapping(n=40)
three = pytest.mark.parametrize("data", [(X, y), three_classes(n=40)], ids=["two", "three"])


@every_estimator
def test_unfitted(Estimator):
    learner = Estimator()
    for attribute in ("coef_", "intercept_", "n_updates_", "n_mistakes_", "certificate_"):
        assert not hasattr(learner, attribute)
    with pytest.raises(NotFittedError):
        learner.predict(X)


# ------------------------------------------------------------------------------------------ order
@every_estimator
@three
def test_same_seed_same_model(Estimator, data):
    learner = Estimator(max_iter=3, random_state=5)
    assert_same_model(clone(learner).fit(*data), learner.fit(*data))
    state = np.random.RandomState(5)
    assert_same_model(Estimator(max_iter=3, random_state=state).fit(*data), learner)


@every_estimator
def test_other_seed_other_order(Estimator):
    first, second = (Estimator(max_iter=1, random_state=seed).fit(X, y) for seed in (0, 1))
    assert not np.array_equal(weights_of(first), weights_of(second))


@every_bounded_estimator
@three
def test_without_shuffling_rows_come_in_order(Estimator, data):
    X, y = data
    learner = Estimator(max_iter=2, shuffle=False, random_state=0).fit(X, y)
    expected = Estimator(random_state=0)
    expected.partial_fit(X, y, classes=np.unique(y)).partial_fit(X, y)
    assert_same_model(learner, expected)


# ----------------------------------------------------------------------------------------- passes
@every_bounded_warm_estimator
@three
def test_warm_start_continues(Estimator, data):
    learner = Estimator(max_iter=1, shuffle=False, warm_start=True, random_state=0)
    for _ in range(3):
        learner.fit(*data)
    assert learner.n_iter_ == 1
    # Fitted without stopping: three passes over the rows.
    X, y = data
    expected = Estimator(random_state=0)
    expected.partial_fit(np.tile(X, (3, 1)), np.tile(y, 3), classes=np.unique(y))
    assert_same_model(learner, expected)


@every_estimator
def test_cold_start_forgets(Estimator):
    learner = Estimator(max_iter=2, random_state=0).fit(-X, y)
    assert_same_model(learner.fit(X, y), Estimator(max_iter=2, random_state=0).fit(X, y))


@every_estimator
@pytest.mark.parametrize("passes", [1, 4])
def test_makes_max_iter_passes_over_inseparable_rows(Estimator, passes):
    inseparable = np.concatenate([X, X]), np.concatenate([y, -y])
    learner = Estimator(max_iter=passes, random_state=0).fit(*inseparable)
    assert learner.n_iter_ == passes
    assert getattr(learner, "converged_", False) is False


@every_settling_estimator
def test_quiet_pass_ends_the_fit(Estimator):
    X, y = separable(n=20, d=2, gap=2.0, shift=0.0)
    learner = Estimator(max_iter=100_000, random_state=0, warm_start=True).fit(X, y)
    assert learner.converged_ is True
    assert learner.n_iter_ < learner.max_iter
    updates, weights = learner.n_updates_, weights_of(learner)
    learner.fit(X, y)
    assert learner.n_iter_ == 1
    assert learner.converged_ is True
    assert learner.n_updates_ == updates
    np.testing.assert_array_equal(weights_of(learner), weights)


# --------------------------------------------------------------------------------------- warnings
@every_settling_estimator
def test_warns_when_passes_run_out(Estimator):
    learner = Estimator(max_iter=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="still made updates in pass 2.*max_iter") as record:
        learner.fit(X, y)
    assert len(record) == 1
    assert record[0].filename == __file__  # the line that called fit, not one of the library


@every_estimator
def test_one_pass_is_no_reason_to_warn(Estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Estimator(max_iter=1, random_state=0).fit(X, y)


def test_tol_ends_the_fit_when_it_is_certified():
    X, y = separable(gap=0.5)
    patient = ROMMA(delta=0.01, intercept_scaling="max", random_state=0)
    hasty = clone(patient).set_params(tol=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hasty.fit(X, y)
        patient.fit(X, y)
    assert hasty.converged_ is True
    assert hasty.certificate_.ratio >= 0.8
    assert hasty.n_iter_ < patient.n_iter_


def test_warns_when_tol_is_not_reached():
    with pytest.warns(ConvergenceWarning, match=r"certifies 0(\.\d+)? .* tol=0.001 asks for"):
        ROMMA(delta=0.5, tol=0.001, max_iter=2, random_state=0).fit(*separable())


# ---------------------------------------------------------------------------------- interruptions
@every_bounded_estimator
def test_interrupted_calls_leave_the_model(Estimator, monkeypatch):
    learner = Estimator(max_iter=2, random_state=0).fit(X, y)
    before = memory(learner)

    def interrupted(loop):
        def run(*args, **options):
            loop(*args, **options)
            raise KeyboardInterrupt

        return run

    for module in (linear_model, budget_model, expert_model):
        monkeypatch.setattr(module, "run_loop", interrupted(run_loop))
    monkeypatch.setattr(noca, "learn_mixture", interrupted(learn_mixture))
    for call in (learner.fit, learner.partial_fit):
        with pytest.raises(KeyboardInterrupt):
            call(X, y)
        assert memory(learner) == before


# ------------------------------------------------------------------------------------------ copies
@every_estimator
@three
def test_pickled_learner_goes_on_as_if_never_stopped(Estimator, data):
    X, y = data
    learner = Estimator(max_iter=2, random_state=0).fit(X, y)
    copy = pickle.loads(pickle.dumps(learner))
    assert memory(copy) == memory(learner)
    assert_same_model(copy.partial_fit(X, y), learner.partial_fit(X, y))


@every_estimator
def test_clone_is_unfitted_and_has_the_same_parameters(Estimator):
    learner = Estimator(max_iter=7, random_state=3).fit(X, y)
    copy = clone(learner)
    assert str(copy.get_params()) == str(learner.get_params())  # experts are cloned, too
    assert not hasattr(copy, "classes_")
    assert copy.set_params(max_iter=9).max_iter == 9
    assert learner.max_iter == 7


# ---------------------------------------------------------------------------------------- progress
@every_estimator
def test_verbose_prints_nothing_into_a_pipe(Estimator, capfd):
    Estimator(max_iter=2, random_state=0, verbose=1).fit(X, y)
    assert capfd.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_verbose_shows_a_bar_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    Perceptron(max_iter=2, random_state=0, verbose=1).fit(X, y)
    shown = terminal.getvalue()
    assert "Perceptron" in shown
    assert "passes" in shown
    assert "updates" in shown
