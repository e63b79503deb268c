"""Lambda by leave-one-out: `MaxMargin(soft_margin="auto")` and its path beside a grid search.

The grid of scikit-learn's `GridSearchCV` is that of the path, with five folds, for
``LinearSVC(dual=False)``. Probabilities are compared with those of
``CalibratedClassifierCV(LinearSVC())``. Leave-one-out outputs by the formula are held against fits
without each row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks import exact
from benchmarks.harness import (
    Comparison,
    Contender,
    Floor,
    Key,
    Report,
    Scale,
    Values,
    race,
    ratios,
    seconds,
)
from maxmargin import MaxMargin
from maxmargin.datasets import load_adult, load_ionosphere, load_votes
from maxmargin.solvers.linear_oracle import MOST_DIRECT
from maxmargin.solvers.newton import silent, solve
from maxmargin.solvers.regularization_path import outputs_left_out

NAME = "which-lambda"
QUESTION = "What does it cost to choose lambda, and is the choice good?"

AUTO, GRID = "MaxMargin(soft_margin='auto')", "GridSearchCV(LinearSVC(dual=False), cv=5)"
LOO, FIVE = "MaxMargin(soft_margin=1, calibration='loo')", "CalibratedClassifierCV(LinearSVC())"
PATH, ONE = "path over 13 lambdas", "one fit"
LEFT_OUT, LAMBDA = 2000, 1.0
ROUNDS, TOL = 5, 1e-6


def run(scale: Scale) -> Report:
    values: Values = {}
    floors: list[Floor] = []
    quality: dict[Key, float] = {}
    skipped: dict[str, str] = {}
    rounds = min(ROUNDS, scale.rounds)
    with threadpool_limits(1):
        try:
            values |= _on_adult(scale, rounds, floors, quality)
            _signs(scale, floors, quality)
        except OSError as error:
            skipped["Adult, ionosphere and votes"] = str(error)
        for problem in exact.problems(scale):
            values |= _paths(problem, rounds, floors, skipped)
    pairs = [
        Comparison(Key("Adult", AUTO), Key("Adult", GRID), GRID, "MaxMargin, lambda chosen, Adult"),
        Comparison(Key("Adult", LOO), Key("Adult", FIVE), FIVE),
    ]
    pairs = [each for each in pairs if each[0] in values]
    data = "Adult and the rows of the benchmark exact; rows x features"
    how = (
        "Processor time, one thread. Errors and log losses are those of Adult's test rows. "
        f"Without each of {LEFT_OUT:,} rows of Adult, and of all of ionosphere and votes, fits "
        f"with lambda {LAMBDA:g} are made anew, and the signs of that row's outputs compared."
    )
    return Report(NAME, data, "s", values, floors, skipped, how, pairs, quality)


def _on_adult(scale: Scale, rounds: int, floors: list[Floor], quality: dict[Key, float]) -> Values:
    (X, y), (asked, wanted) = load_adult(), load_adult("test")
    rows = scale.rows(y.size)
    X, y = X[:rows], y[:rows]
    lambdas = MaxMargin().path(X, y).lambdas
    search = GridSearchCV(LinearSVC(dual=False), {"C": 0.5 / lambdas}, cv=5)
    works: dict[str, Callable[[], Any]] = {
        AUTO: lambda: MaxMargin(soft_margin="auto").fit(X, y),
        GRID: lambda: _quiet(search, X, y),
        LOO: lambda: MaxMargin(soft_margin=LAMBDA, calibration="loo").fit(X, y),
        FIVE: lambda: _quiet(CalibratedClassifierCV(LinearSVC(random_state=0)), X, y),
    }
    fitted = {name: work() for name, work in works.items()}
    raced = race(
        [Contender(Key("Adult", name), lambda w=w: seconds(w)) for name, w in works.items()], rounds
    )
    errors = {name: 100.0 * (1.0 - fitted[name].score(asked, wanted)) for name in (AUTO, GRID)}
    losses = {
        name: log_loss(wanted == 1, fitted[name].predict_proba(asked)[:, 1]) for name in (LOO, FIVE)
    }
    quality |= {Key("Adult", f"{name}: test error, %"): e for name, e in errors.items()}
    quality |= {Key("Adult", f"{name}: log loss"): e for name, e in losses.items()}
    quality[Key("Adult", f"{AUTO}: lambda")] = fitted[AUTO].soft_margin_
    quality[Key("Adult", f"{GRID}: lambda")] = 0.5 / fitted[GRID].best_params_["C"]
    for ours, theirs, asked_ratio in ((AUTO, GRID, 0.1), (LOO, FIVE, 0.2)):
        found = ratios(raced, Key("Adult", ours), Key("Adult", theirs))
        floors.append(Floor(f"time of {ours} / that of {theirs}", "<=", asked_ratio, found))
    above = errors[AUTO] - errors[GRID]
    floors.append(Floor(f"test error, points above {GRID}'s", "<=", 0.0, [above]))
    floors.append(Floor(f"log loss / {FIVE}'s", "<=", 1.01, [losses[LOO] / losses[FIVE]]))
    return raced


def _quiet(clf: Any, X: Any, y: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clf.fit(X, y)


def _signs(scale: Scale, floors: list[Floor], quality: dict[Key, float]) -> None:
    """How many outputs have the same sign by the formula as by fits without the row."""
    X, y = load_adult()
    some = np.random.default_rng(0).choice(y.size, scale.rows(LEFT_OUT), replace=False)
    problems = {"Adult": (X[some].toarray(), y[some])}
    for name, load in (("ionosphere", load_ionosphere), ("votes", load_votes)):
        X, y = load()
        problems[name] = (X.toarray() if hasattr(X, "toarray") else X, y)
    for name, (X, y) in problems.items():
        by_formula, by_fits = _margins(X, y), _refitted(X, y)
        differ = int((np.sign(by_formula) != np.sign(by_fits)).sum())
        quality[Key(name, "rows whose sign differs")] = differ
        quality[Key(name, "errors by the formula")] = float((by_formula <= 0.0).sum())
        quality[Key(name, "errors by fits without the row")] = float((by_fits <= 0.0).sum())
        if name == "Adult":
            share = 100.0 * (1.0 - differ / y.size)
            floors.append(Floor(f"same sign, % of {y.size:,} rows of Adult", ">=", 99.5, [share]))
        else:
            floors.append(Floor(f"rows of {name} whose sign differs", "<=", 2, [differ]))


def _margins(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``y f(x)`` of each row by the formula."""
    trainer = MaxMargin(soft_margin=LAMBDA, tol=TOL)._new_trainer()
    posed = trainer._posed(trainer._problem(X, y, None))
    weights = solve(posed.data, posed.task, 1, silent).weights
    return outputs_left_out(posed, weights, silent).margins[0]


def _refitted(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``y f(x)`` of each row by fits without it."""
    out, weight = np.empty(y.size), np.ones(y.size)
    positive = np.unique(y)[1]
    for i in range(y.size):
        weight[i] = 0.0
        clf = MaxMargin(soft_margin=LAMBDA, tol=TOL).fit(X, y, sample_weight=weight)
        out[i] = clf.decision_function(X[i : i + 1])[0] * (1.0 if y[i] == positive else -1.0)
        weight[i] = 1.0
    return out


def _paths(
    problem: exact.Problem, rounds: int, floors: list[Floor], skipped: dict[str, str]
) -> Values:
    """The time of a path, and of one fit with the lambda that it chooses."""
    if problem.X.shape[1] > MOST_DIRECT:
        skipped[problem.name] = "folds in place of factors: see docs/theory.md"
        return {}
    best = MaxMargin().path(problem.X, problem.y).soft_margin
    works = {
        PATH: lambda: MaxMargin().path(problem.X, problem.y),
        ONE: lambda: MaxMargin(soft_margin=best).fit(problem.X, problem.y),
    }
    keys = {name: Key(problem.name, name) for name in works}
    raced = race(
        [Contender(keys[name], lambda w=w: seconds(w)) for name, w in works.items()], rounds
    )
    found = ratios(raced, keys[PATH], keys[ONE])
    floors.append(Floor(f"time of the path / that of one fit, {problem.name}", "<=", 4.0, found))
    return raced
