"""Train learners on a problem with the same effort, and watch them do it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

import maxmargin
from maxmargin import Certificate, MaxMargin, certify
from maxmargin._terminal import Advance
from maxmargin.evaluate.margin_trace import Moment, replay
from maxmargin_papers.demo.demo_problems import Problem

# Those that need all rows at once; they take part in every problem.
SOLVERS = ("MaxMargin", "LinearSVC")


@dataclass(frozen=True, eq=False)
class Outcome:
    """A learner after training.

    Attributes
    ----------
    settings : dict
        The learner's own hyper-parameters.
    clf : fitted estimator
    certificate : Certificate
        Its own; or, of a learner from elsewhere, that of `certify`.
    test_error : float
        Fraction of the test rows.
    seconds : float
        Time of `fit`, without compilation.
    moments : list of Moment
        The run in slow motion, if it is to be drawn.
    """

    settings: dict[str, Any]
    clf: ClassifierMixin
    certificate: Certificate
    test_error: float
    seconds: float
    moments: Sequence[Moment] = ()

    @property
    def name(self) -> str:
        return type(self.clf).__name__

    @property
    def online(self) -> bool:
        """Has it seen one row at a time?"""
        return self.name not in SOLVERS

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """One for two classes, one per class for more."""
        return self.certificate.classes or (self.certificate,)


def all_learners() -> list[str]:
    """The names of all learners of hyperplanes that can see one row at a time."""
    return [
        name
        for name in sorted(maxmargin.ALGORITHMS)
        if hasattr(clf := getattr(maxmargin, name)(), "partial_fit")
        if {"kernel", "soft_margin"} <= clf.get_params().keys() and clf.kernel == "linear"
        if clf.facts.certificate
    ]


def settings_to_try(name: str, problem: Problem, best: float) -> list[dict[str, Any]]:
    """Hyper-parameters, of which the best certificate decides; ``best`` is the exact margin.

    Steps and margins of outputs have the scale of a squared norm.
    """
    square = problem.radius**2 + problem.soft_margin

    def each(parameter: str, *values: float) -> list[dict[str, Any]]:
        return [{parameter: float(f"{value:.2g}")} for value in values]

    tried = {
        "ALMA": each("alpha", 0.9, 0.5),
        "AMIRA": each("epsilon", 0.1, 0.01),
        "DirectionalPerceptron": each("beta", 0.5 * best, 0.7 * best, 0.9 * best),
        "LinearSVC": each("C", 1.0, 100.0, 10_000.0),
        "MaxMargin": each("soft_margin", problem.soft_margin),
        "NORMA": each("rate", 1.0 / square, 0.1 / square),
        "Pegasos": each("lambda_", 0.1, 0.01, 0.001),
        "Perceptron": each("margin", square, 10.0 * square),
        "PUMMA": each("delta", 0.1, 0.01),
        "Relaxation": each("rate", 1.0, 1.8),
        "ROMMA": each("delta", 0.1, 0.01),
        "TrackingALMA": each("rate", 1.0 / square, 0.1 / square),
    }
    if name == "LinearSVC" and problem.soft_margin:
        return [{"C": 0.5 / problem.soft_margin}]  # the same problem as that of the others
    return tried.get(name, [{}])


def train(problem: Problem, learners: Sequence[str], advance: Advance) -> list[Outcome]:
    """The solvers, and then each online learner, those with the best certificates first."""
    solvers, others, best = [], [], 0.0
    for name in (*SOLVERS, *learners):
        advance(0, note=f"{name}, {problem.name}")
        tried = [_fitted(name, one, problem) for one in settings_to_try(name, problem, best)]
        found = max(tried, key=_rank)
        if name in SOLVERS:
            solvers.append(found)
        else:
            others.append(found)
        if name == "MaxMargin":
            best = min(each.margin for each in found.certificates)
        advance(1)
    return [*solvers, *(_watched(one, problem) for one in sorted(others, key=_rank, reverse=True))]


def _rank(one: Outcome) -> tuple[float, float]:
    """By certificate; runs that prove nothing about all classes, by the margin of the weakest."""
    return one.certificate.ratio, min(each.margin for each in one.certificates)


def _fitted(name: str, settings: dict[str, Any], problem: Problem) -> Outcome:
    clf = BUILD.get(name, _online_learner)(name, settings, problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the tables say it
        clone(clf).set_params(max_iter=1).fit(problem.X, problem.y)  # compile, or load
        began = time.perf_counter()
        clf.fit(problem.X, problem.y)
        seconds = time.perf_counter() - began
    own = getattr(clf, "certificate_", None)
    certificate = own or certified(clf, problem.X, problem.y, problem.soft_margin)
    test_error = 1.0 - clf.score(problem.X_test, problem.y_test)
    return Outcome(settings, clf, certificate, test_error, seconds)


def _online_learner(name: str, settings: dict[str, Any], problem: Problem) -> Any:
    # The same order in every pass, so that `replay` can follow the run to the bit.
    clf = getattr(maxmargin, name)(
        **settings, soft_margin=problem.soft_margin, max_iter=problem.passes, shuffle=False
    )
    if "intercept_scaling" in clf.get_params():
        clf.set_params(intercept_scaling=problem.radius)
    if "multiclass" in clf.get_params():
        clf.set_params(multiclass="ovr")  # margins that can be compared with those of the others
    return clf


BUILD: dict[str, Callable[..., Any]] = {
    "MaxMargin": lambda name, settings, problem: MaxMargin(**settings),
    "LinearSVC": lambda name, settings, problem: LinearSVC(**settings, random_state=0),
}


def certified(clf: LinearSVC, X: np.ndarray, y: np.ndarray, soft_margin: float) -> Certificate:
    """What `certify` says of a classifier from elsewhere, with a soft margin if there is one.

    That is the margin of rows with a coordinate of their own, ``sqrt(soft_margin)``, whose weight
    makes up for what a row lacks to an output of 1.
    """
    if not soft_margin:
        return certify(clf, X, y)
    outputs = clf.decision_function(X).reshape(len(y), -1)
    positive = clf.classes_[1:] if outputs.shape[1] == 1 else clf.classes_
    signs = np.where(y[:, np.newaxis] == positive, 1.0, -1.0)
    lacking = np.maximum(0.0, 1.0 - signs * outputs)
    longer = copy(clf)
    longer.coef_ = np.hstack([clf.coef_, (signs * lacking).T / np.sqrt(soft_margin)])
    return certify(longer, np.hstack([X, np.sqrt(soft_margin) * np.eye(len(y))]), y)


def _watched(one: Outcome, problem: Problem) -> Outcome:
    if problem.picture != "run":
        return one
    moments = list(replay(one.clf, problem.X, problem.y))
    return Outcome(one.settings, one.clf, one.certificate, one.test_error, one.seconds, moments)


def best_margin(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    """What all runs together prove: the best margin (of the weakest class) is between these two."""
    low = max(min(each.margin for each in one.certificates) for one in outcomes)
    return low, min(each.bound for one in outcomes for each in one.certificates)
