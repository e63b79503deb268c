"""Train learners on a problem, and watch them do it."""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning

import maxmargin
from maxmargin._terminal import Advance
from maxmargin.certificates import Certificate
from maxmargin.demo.problems import Problem
from maxmargin.estimator import OnlineClassifier
from maxmargin.evaluate.runs import Moment, replay

# How long a search for a margin may look for each of them: a demonstration should be short.
PASSES_PER_ROUND = 200


@dataclass(frozen=True, eq=False)
class Outcome:
    """A learner after training.

    Attributes
    ----------
    settings : dict
        The learner's own hyper-parameters.
    clf : fitted estimator
    test_error : float
        Fraction of the test rows.
    seconds : float
        Time of `fit`, without compilation.
    moments : list of Moment
        The run in slow motion, if it is to be drawn.
    """

    settings: dict[str, Any]
    clf: ClassifierMixin
    test_error: float
    seconds: float
    moments: list[Moment]

    @property
    def name(self) -> str:
        return type(self.clf).__name__

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """One for two classes, one per class for more."""
        certificate = self.clf.certificate_
        return certificate.classes or (certificate,)


def all_learners() -> list[str]:
    """The names of all online learners of hyperplanes, whose margins can be compared."""
    public = ((name, getattr(maxmargin, name)) for name in maxmargin.__all__)
    return sorted(
        name
        for name, thing in public
        if inspect.isclass(thing) and issubclass(thing, OnlineClassifier)
        if thing.kernel == "linear" and thing.facts.certificate
    )


def settings_for(name: str, problem: Problem) -> dict[str, Any]:
    """Hyper-parameters that show what a learner can do; a step length has the scale 1 / R**2."""
    small_steps = float(f"{0.1 / problem.radius**2:.2g}")
    chosen: dict[str, dict[str, Any]] = {
        "ALMA": {"alpha": 0.5},
        "AMIRA": {"epsilon": 0.1},
        "DirectionalPerceptron": {"beta": problem.ask},
        "NORMA": {"rate": small_steps, "decay": 0.001},
        "PassiveAggressive": {"C": 0.01},
        "Pegasos": {"lambda_": 0.01},
        "PUMMA": {"delta": 0.1},
        "Relaxation": {"rate": 1.8},
        "ROMMA": {"delta": 0.1},
        "TrackingALMA": {"rate": small_steps},
    }
    return chosen.get(name, {})


def train(problem: Problem, learners: Sequence[str], advance: Advance) -> list[Outcome]:
    """Train each learner; the best certificates come first, then the smallest test errors."""
    outcomes = []
    for name in learners:
        advance(0, note=f"{name}, {problem.name}")
        outcomes.append(_train_one(name, problem))
        advance(1)
    return sorted(outcomes, key=lambda one: (-one.clf.certificate_.ratio, one.test_error))


def _train_one(name: str, problem: Problem) -> Outcome:
    settings = settings_for(name, problem)
    # The same order in every pass, so that `replay` can follow the run to the bit.
    clf = getattr(maxmargin, name)(**settings, max_iter=problem.max_iter, shuffle=False)
    if "intercept_scaling" in clf.get_params():
        clf.set_params(intercept_scaling=problem.radius)
    if "multiclass" in clf.get_params():
        clf.set_params(multiclass="ovr")  # margins that can be compared with those of the others
    if "max_checks" in clf.get_params():
        clf.set_params(max_checks=PASSES_PER_ROUND * len(problem.X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the tables say it
        clone(clf).set_params(max_iter=1).fit(problem.X, problem.y)  # compile, or load
        began = time.perf_counter()
        clf.fit(problem.X, problem.y)
        seconds = time.perf_counter() - began
    test_error = 1.0 - clf.score(problem.X_test, problem.y_test)
    moments = list(replay(clf, problem.X, problem.y)) if problem.picture == "run" else []
    return Outcome(settings, clf, test_error, seconds, moments)


def best_margin(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    """What all runs together prove: the best margin (of the weakest class) is between these two."""
    low = max(min(each.margin for each in one.certificates) for one in outcomes)
    return low, min(each.bound for one in outcomes for each in one.certificates)
