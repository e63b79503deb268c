"""The exact soft margin: `MaxMargin`, certified, beside LIBLINEAR and scikit-learn's copy of it.

LIBLINEAR runs as its users run it: ``-s 2`` (Newton's method in the primal) with its own tolerance,
an intercept that is the weight of a coordinate of 10, on rows that are already in its own format.
Its objective values are those of an intercept that costs nothing, so they can only be larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

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
from benchmarks.passes import fit_quietly
from maxmargin import MaxMargin
from maxmargin.datasets import load_adult

NAME = "exact"
QUESTION = "How soon is the maximum soft margin found with all rows at hand?"

BIAS = 10.0
LAMBDAS = (1.0, 0.01)
OURS, CLOSER = "MaxMargin, certified 0.999", "MaxMargin, certified 0.99999"
LIBLINEAR, SCIKIT_LEARN = "LIBLINEAR -s 2", "LinearSVC(dual=False)"
ROUNDS = 7


class Problem(NamedTuple):
    name: str
    X: Any
    y: np.ndarray


def problems(scale: Scale) -> Iterator[Problem]:
    random = np.random.default_rng(1)
    try:
        X, y = load_adult()
        yield Problem("Adult", X, y)
    except OSError:
        pass
    for rows, width in ((50_000, 20), (200_000, 100)):
        n = scale.rows(rows)
        X = random.normal(size=(n, width))
        noise = 0.3 * np.sqrt(width) * random.normal(size=n)
        yield Problem(f"{n:,} x {width}", X, _signs(X @ random.normal(size=width) + noise))
    for rows, width, entries in ((50_000, 300, 12), (10_000, 50_000, 75)):
        n = scale.rows(rows)
        X = _sparse(random, n, width, entries)
        f = X @ random.normal(size=width)
        noise = 0.7 * f.std() * random.normal(size=n)
        yield Problem(f"{n:,} x {width:,}, sparse", X, _signs(f + noise - np.median(f)))


def _signs(outputs: np.ndarray) -> np.ndarray:
    return np.where(outputs > 0.0, 1, -1)


def _sparse(random: np.random.Generator, n: int, width: int, entries: int) -> Any:
    """Rows of length 1; of very many columns a few are common and most are rare, as words are."""
    power = 3.0 if width > 10 * entries * 10 else 1.0
    columns = (width * random.random((n, entries)) ** power).astype(np.int32)
    starts = np.arange(0, n * entries + 1, entries, dtype=np.int32)
    X = sparse.csr_matrix((random.normal(size=n * entries), columns.ravel(), starts), (n, width))
    X.sum_duplicates()
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X.data /= np.repeat(lengths, np.diff(X.indptr))
    return X


def objective(problem: Problem, penalty: float, w: np.ndarray, b: float) -> float:
    slack = np.maximum(0.0, 1.0 - problem.y * (problem.X @ w + b))
    return float(0.5 * w @ w + 0.5 * slack @ slack / penalty)


def liblinear_fit(problem: Problem, penalty: float) -> Callable[[], tuple[np.ndarray, float]]:
    """Raises ModuleNotFoundError without LIBLINEAR's own package."""
    from liblinear import liblinear, liblinearutil

    parameter = liblinear.parameter(f"-s 2 -c {0.5 / penalty} -B {BIAS} -q")
    rows = liblinearutil.problem(problem.y.astype(float), sparse.csr_matrix(problem.X), bias=BIAS)

    def fit() -> tuple[np.ndarray, float]:
        model = liblinear.liblinear.train(rows, parameter)
        size = problem.X.shape[1] + 1
        weights = np.ctypeslib.as_array(model.contents.w, (size,)) * model.contents.label[0]
        return weights[:-1].copy(), BIAS * weights[-1]

    return fit


def fits(problem: Problem, penalty: float, skipped: dict[str, str]) -> dict[str, Callable[[], Any]]:
    """Functions that fit and return weights and intercept."""

    def ours(tol: float) -> tuple[np.ndarray, float]:
        clf = MaxMargin(soft_margin=penalty, tol=tol).fit(problem.X, problem.y)
        return clf.coef_.ravel(), clf.intercept_[0]

    def scikit_learn() -> tuple[np.ndarray, float]:
        clf = LinearSVC(C=0.5 / penalty, dual=False, intercept_scaling=BIAS)
        fit_quietly(clf, problem.X, problem.y)
        return clf.coef_.ravel(), clf.intercept_[0]

    found: dict[str, Callable[[], Any]] = {OURS: lambda: ours(1e-3), CLOSER: lambda: ours(1e-5)}
    try:
        found[LIBLINEAR] = liblinear_fit(problem, penalty)
    except ModuleNotFoundError:
        skipped[LIBLINEAR] = "liblinear-official is not installed"
    found[SCIKIT_LEARN] = scikit_learn
    return found


def run(scale: Scale) -> Report:
    values: Values = {}
    floors: list[Floor] = []
    quality: dict[Key, float] = {}
    pairs = []
    skipped: dict[str, str] = {}
    with threadpool_limits(1):
        for problem in problems(scale):
            for penalty in LAMBDAS:
                case = f"{problem.name}, λ = {penalty:g}"
                raced, reached = _raced(problem, penalty, case, min(ROUNDS, scale.rounds), skipped)
                values |= raced
                ours, best = Key(case, OURS), reached[CLOSER]
                for name, value in reached.items():
                    if name != CLOSER:
                        above = 100.0 * (value / best - 1.0)
                        quality[Key(case, f"{name}: objective above, %")] = above
                main = f"MaxMargin, {case}" if not pairs else ""
                for name, asked in ((LIBLINEAR, 1.0), (SCIKIT_LEARN, 0.5)):
                    if (theirs := Key(case, name)) in raced:
                        what = f"time / that of {name}, {case}"
                        floors.append(Floor(what, "<=", asked, ratios(raced, ours, theirs)))
                        pairs.append(Comparison(ours, theirs, name, main))
                        pairs.append(Comparison(Key(case, CLOSER), theirs, name))
    data = "2-norm soft margins with a free intercept; rows x features"
    how = (
        "Processor time, one thread; LIBLINEAR and scikit-learn stop by their own tolerance. "
        f"Objectives are compared with that of {CLOSER}."
    )
    return Report(NAME, data, "s", values, floors, skipped, how, pairs, quality)


def _raced(
    problem: Problem, penalty: float, case: str, rounds: int, skipped: dict[str, str]
) -> tuple[Values, dict[str, float]]:
    """The times of all, and the objective that each reached."""
    reached: dict[str, float] = {}
    contenders = []
    for name, fit in fits(problem, penalty, skipped).items():
        reached[name] = objective(problem, penalty, *fit())
        contenders.append(Contender(Key(case, name), lambda fit=fit: seconds(fit)))
    return race(contenders, rounds), reached
