"""Solutions for many lambdas, and how well each predicts rows that it was not fitted to.

From the largest lambda to the smallest, each solution starts from the one before: slacks, active
rows and Hessians do not depend on lambda. Where the solver has a factor of its system, outputs of
rows that are left out follow from it; where it has none, since there are many features (or a
kernel) and many rows, fits without each of some folds of the rows give them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from maxmargin.solvers.blas_threads import one_thread
from maxmargin.solvers.certified_leave_one_out import deviations
from maxmargin.solvers.hessian import BLOCK
from maxmargin.solvers.joint_oracle import JointRows
from maxmargin.solvers.kernel_oracle import KernelRows, sample_of
from maxmargin.solvers.linear_oracle import LinearRows
from maxmargin.solvers.newton import Advance, Task, approach, finish, newton, silent

# How many lambdas, so many of them to a factor of 10.
LAMBDAS, PER_DECADE = 13, 2
# The choice begins in the middle; with sample weights the grid has so many more at either end.
FIRST, MOST_FURTHER = LAMBDAS // 2, 48
# Of more rows a random sample is left out: to choose lambda, and for their outputs themselves. In
# folds of wide rows, whose fits take little time, there are as many to choose lambda.
MOST_LEFT_OUT, MOST_SCORED = 2**12, 2**15
FOLDS = 5
# With a kernel, lambda is chosen for a sample of so many rows.
MOST_CHOSEN = 2000
# Newton steps for the scale of outputs, at most.
MOST_SCALINGS = 30
# Stands for the loss where rounding leaves no system to solve.
UNKNOWN = np.finfo(float).max
# Rows are refitted unless their outputs are proved that closely, to certificates that close to 1.
PROVED, REFITTED = 1e-6, 1e-8
# How precise the factor of outputs is, of which `scaled_log_loss` is a function.
PRECISE = 1e-6
# The probability that the class of a row should have, where lambda is chosen.
SURE = 0.999
BY_FACTORS, BY_FOLDS = "leave-one-out", f"{FOLDS} folds"
Rows = LinearRows | KernelRows | JointRows


class Posed(NamedTuple):
    """So many problems, to be solved.

    ``one_class``: is each row positive in exactly one of them? ``near`` is a lambda that should be
    near the best one, if one is known. ``joint``: are they one problem, of several classes?
    """

    data: Rows
    task: Task
    number: int
    one_class: bool = False
    near: float | None = None
    joint: bool = False

    @property
    def numbers(self) -> np.ndarray:
        """The rows that count."""
        return np.flatnonzero(self.data.sample_weight > 0.0)

    @property
    def parts(self) -> list[slice]:
        return self.data.parts(self.number)

    @property
    def method(self) -> str:
        """How rows are left out: `BY_FACTORS` wherever the solver has some.

        Leave-one-out outputs are known for the squared hinge loss only.
        """
        if self.task.is_hinge:
            return BY_FOLDS
        has_factors = self.data.oracle(self.task, slice(0, 1)).has_factors
        return BY_FACTORS if has_factors else BY_FOLDS

    def with_penalty(self, penalty: float) -> Posed:
        return self._replace(task=self.task._replace(penalty=float(penalty)))


class RegularizationPath(NamedTuple):
    """What `MaxMargin.path` knows of each lambda; all arrays are in the order of ``lambdas``.

    Attributes
    ----------
    lambdas : ndarray of shape (n_lambdas,)
        Values of `soft_margin`, from the smallest to the largest.
    loo_error : ndarray of shape (n_lambdas,)
        The share of rows that are classified wrongly by weights found without them (where rows
        can have several labels: of labels).
    loo_loss : ndarray of shape (n_lambdas,)
        What `best` goes by. With more than two classes, the mean log loss of ``softmax(t f)`` for
        the outputs f and the factor t at which it is least. Otherwise, and with proved bounds, the
        mean of squared hinge losses, summed over all problems; where folds are left out, outputs
        are first multiplied and shifted as suits them best.
    margins, bounds : ndarray of shape (n_lambdas, n_problems)
        Margins reached and bounds on the best possible ones, as in `certificate_`.
    method : {"leave-one-out", "5 folds"}
        How rows were left out: each for itself, by the factor of the fit with all rows, or a fifth
        of them at a time, by fits without them, where there are many features and many rows.
    n_left_out : int
        Of how many rows. Of more than 4096 (in folds of wide rows, 32 768), a random sample is left
        out, unless bounds are proved.
    loo_error_bounds, loo_loss_bounds : ndarray of shape (n_lambdas, 2) or None
        Proved lower and upper bounds on the error and the loss of fits without each row, with
        ``MaxMargin(loo="certified")`` and ``"exact"``; with "exact" they are equal.
    coefs : ndarray of shape (n_lambdas, n_problems, n_features) or None
        Weights, if asked for by ``return_weights=True``; with a kernel, coefficients of rows.
    intercepts : ndarray of shape (n_lambdas, n_problems) or None
        Intercepts, likewise.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import MaxMargin
    >>> path = MaxMargin().path(*load_iris(return_X_y=True))
    >>> path.lambdas.size, path.method
    (13, 'leave-one-out')
    >>> path
    RegularizationPath(13 lambdas, best 0.01, leave-one-out error 0.0467)
    """

    lambdas: np.ndarray
    loo_error: np.ndarray
    loo_loss: np.ndarray
    margins: np.ndarray
    bounds: np.ndarray
    method: str
    n_left_out: int
    loo_error_bounds: np.ndarray | None = None
    loo_loss_bounds: np.ndarray | None = None
    coefs: np.ndarray | None = None
    intercepts: np.ndarray | None = None

    def __repr__(self) -> str:
        best = self.best
        return (
            f"{type(self).__name__}({self.lambdas.size} lambdas, best {self.lambdas[best]:.3g}, "
            f"{self.method} error {self.loo_error[best]:.3g})"
        )

    @property
    def best(self) -> int:
        """The place of the lambda with the smallest `loo_loss`; of several, of the largest one."""
        return lowest(self.loo_loss)

    @property
    def soft_margin(self) -> float:
        """That lambda."""
        return float(self.lambdas[self.best])

    @property
    def is_best_proved(self) -> bool:
        """True if no other lambda can have a smaller leave-one-out loss than `best`."""
        if self.loo_loss_bounds is None:
            return False
        least, most = self.loo_loss_bounds.T
        return bool((np.delete(least, self.best) >= most[self.best]).all())

    @property
    def ratio(self) -> np.ndarray:
        """Certified shares of the best possible margins, of the weakest problem of each lambda."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(self.margins / self.bounds).min(axis=1)


def usual_lambdas(data: Rows) -> np.ndarray:
    """A grid about the mean squared distance of rows from their mean.

    In powers of the root of 10, so that similar rows have the same lambdas. A row of weight 2
    counts as the row twice.
    """
    there = np.flatnonzero(data.sample_weight > 0.0)
    some = there[:: max(1, there.size // BLOCK)][:BLOCK]
    middle = np.round(PER_DECADE * np.log10(data.spread(some)))
    steps = np.arange(LAMBDAS) - LAMBDAS // 2
    return np.asarray(10.0 ** ((middle + steps) / PER_DECADE))


def automatic_path(problems: Posed, advance: Advance, loo: str) -> RegularizationPath:
    """The path that chooses lambda: coarse first, then finer about the best one.

    With sample weights it goes as far as losses become smaller; otherwise the grid suits the rows.
    Where a lambda near the best one is known, it goes at most a factor of 10 from there. With a
    kernel, unless bounds are to be proved, it is the path of a sample of the rows, and with the
    hinge loss, which needs folds, too: the best lambda hardly depends on their number.
    """
    if loo == "formula":
        problems = problems._replace(data=problems.data.sampled(MOST_CHOSEN))
    if problems.task.is_hinge:
        weights = np.zeros_like(problems.data.sample_weight)
        some = sample_of(problems.data.sample_weight, MOST_LEFT_OUT)
        weights[some] = problems.data.sample_weight[some]
        problems = problems._replace(data=problems.data.weighed(weights))
    if problems.near is not None:
        middle = np.round(PER_DECADE * np.log10(problems.near))
        lambdas = 10.0 ** ((middle + np.arange(-PER_DECADE, PER_DECADE + 1)) / PER_DECADE)
        return follow_path(
            *(problems, lambdas, advance),
            loo=loo,
            after=lambda loss: finer(loss, PER_DECADE, (-1, 1)),
        )
    lambdas, first = usual_lambdas(problems.data), FIRST
    weights = problems.data.sample_weight[problems.numbers]
    if (weights != 1.0).any():
        ratio = 10.0 ** (np.arange(1, MOST_FURTHER + 1) / PER_DECADE)
        lambdas = np.concatenate([lambdas[0] / ratio[::-1], lambdas, lambdas[-1] * ratio])
        first += MOST_FURTHER
    return follow_path(problems, lambdas, advance, loo=loo, after=lambda loss: finer(loss, first))


def finer(loss: np.ndarray, first: int, steps: tuple[int, ...] = (-2, 2, -1, 1)) -> int | None:
    """The next lambda where the smallest loss is looked for, given losses of lambdas so far.

    About the best of every second one, neighbours of both sides are looked at, and then those in
    between.
    """
    if np.isnan(loss).all():
        return first
    best = lowest(loss)
    for step in steps if (best - first) % abs(steps[0]) == 0 else ():
        if 0 <= best + step < loss.size and np.isnan(loss[best + step]):
            return best + step
    return None


def lowest(loss: np.ndarray) -> int:
    """The place of the smallest loss; of several, the last."""
    return int(loss.size - 1 - np.nanargmin(loss[::-1]))


def follow_path(
    problems: Posed,
    lambdas: np.ndarray,
    advance: Advance,
    *,
    keep_weights: bool = False,
    loo: str = "formula",
    after: Callable[[np.ndarray], int | None] | None = None,
) -> RegularizationPath:
    """The path of some problems.

    ``loo`` is "formula", "certified" or "exact", see `MaxMargin`. ``after`` returns the place of
    the next lambda, or None, given the losses so far with NaN where they are not known; without it,
    all lambdas are visited, from the largest to the smallest.
    """
    parts, method, count = problems.parts, problems.method, problems.number
    if loo != "formula" and method != BY_FACTORS:
        raise ValueError(
            f"loo={loo!r} needs the factor of a linear system, which is not computed for so many "
            "rows and columns: use loo='formula'."
        )
    proves = loo != "formula"
    if proves:
        tol = min(problems.task.tol, REFITTED)
        problems = problems._replace(task=problems.task._replace(tol=tol))
    most = problems.numbers.size if proves else MOST_LEFT_OUT
    kind = _ClassTally if problems.one_class and not proves else _Tally
    tally, *enclosing = [kind(problems, lambdas.size, most) for _ in range(1 + 2 * proves)]
    margins, bounds = np.full((2, lambdas.size, count), np.nan)
    weights: np.ndarray | None = None

    def visit(k: int, part: slice, last: _Reached | None) -> _Reached:
        nonlocal weights
        here = problems.with_penalty(lambdas[k])
        reached = _Reached.from_last(here, part, last)
        oracle, start = reached.oracle, (reached.curvature, reached.stage)
        found = finish(oracle, *start, advance)
        margins[k, part], bounds[k, part] = found.margins, found.bounds
        if keep_weights:
            if weights is None:
                weights = np.zeros((lambdas.size, count, found.weights.shape[1]))
            weights[k, part] = found.weights
        if method == BY_FACTORS:
            left_out, losses = oracle.left_out(*start, tally.places)
            if proves:
                away = _deviations(here, part, oracle, start, left_out)
                if loo == "exact":
                    _refit(here, part, found.weights, left_out, away)
                for each, sign in zip(enclosing, (1.0, -1.0), strict=True):
                    each.add_fold(k, part, each.places, left_out + sign * away)
            tally.add_sample(k, part, oracle, left_out, losses)
        if tally.folds:
            outputs = [_by_others(here, part, fold, advance, oracle) for fold in tally.folds]
            tally.add_folds(k, part, np.concatenate(outputs, axis=1))
        return reached

    with one_thread if problems.data.is_small else nullcontext():
        if after is None:
            for part in parts:
                last = None
                for k in np.argsort(lambdas)[::-1].tolist():
                    last = visit(k, part, last)
        else:
            seen = np.full(lambdas.size, np.nan)
            lasts: list[_Reached | None] = [None] * len(parts)
            while (k := after(seen)) is not None:
                for p, part in enumerate(parts):
                    reached = visit(k, part, lasts[p])
                    lasts[p] = reached if len(parts) == 1 else None  # one after the other
                seen[k] = np.nan_to_num(tally.loss[k], nan=UNKNOWN)
    visited = np.isfinite(margins).all(axis=1)
    return RegularizationPath(
        lambdas[visited],
        tally.error()[visited],
        tally.loss[visited],
        margins[visited],
        bounds[visited],
        method,
        tally.places.size,
        np.stack([each.error()[visited] for each in enclosing], axis=1) if proves else None,
        np.stack([each.loss[visited] for each in enclosing], axis=1) if proves else None,
        None if weights is None else weights[visited, :, :-1],
        None if weights is None else weights[visited, :, -1],
    )


def outputs_left_out(
    problems: Posed, weights: np.ndarray | None, advance: Advance
) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of rows, and their ``y f(x)`` by weights that were found without them.

    There is one line for each of the problems, which have these solutions, if they are known.
    """
    numbers, method = problems.numbers, problems.method
    places, folds = chosen_places(numbers.size, MOST_SCORED), []
    if method == BY_FOLDS:
        folds = _folds(problems, MOST_SCORED)
        places = np.concatenate(folds)
    margins = np.empty((problems.number, places.size))
    with one_thread if problems.data.is_small else nullcontext():
        for part in problems.parts:
            if method == BY_FACTORS:
                oracle: Any = problems.data.oracle(problems.task, part)
                known = None if weights is None else weights[part]
                start = approach(oracle, problems.task, known)
                finish(oracle, *start, advance)
                margins[part], _ = oracle.left_out(*start, places)
            else:
                found = [_by_others(problems, part, fold, advance) for fold in folds]
                margins[part] = np.concatenate(found, axis=1)
    return numbers[places], margins


def chosen_places(rows: int, most: int) -> np.ndarray:
    """Which of so many rows are left out, in order: all, or the same random sample each time."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


class _Tally:
    """Adds up errors and losses of rows that were left out, for each lambda.

    Of more rows than are left out, the losses by the weights found with all rows are known exactly:
    only what leaving out adds to them is estimated.

    Attributes
    ----------
    numbers : the rows that count
    places : which of them are left out
    folds : which of them are left out together
    loss : the mean over rows, of the sum over problems
    """

    def __init__(self, problems: Posed, lambdas: int, most: int) -> None:
        self.problems, self.numbers, self.folds = problems, problems.numbers, []
        if problems.method == BY_FOLDS:
            is_linear = isinstance(problems.data, LinearRows)
            self.folds = _folds(problems, MOST_SCORED if is_linear else MOST_LEFT_OUT)
            self.places = np.sort(np.concatenate(self.folds))
        else:
            self.places = chosen_places(self.numbers.size, most)
        self.weight = problems.data.sample_weight[self.numbers]
        self.total, self.left_out = self.weight.sum(), self.weight[self.places].sum()
        self.loss, self.wrong = np.zeros((2, lambdas))
        # Of rows of one class, the outputs of that class, and the highest of the others.
        size = self.places.size * problems.one_class
        self.own, self.other = np.full((2, lambdas, size), -np.inf)

    def add_sample(
        self, k: int, part: slice, oracle: Any, margins: np.ndarray, losses: np.ndarray
    ) -> None:
        """By the k-th lambda, for some problems, what `left_out` returned."""
        of_all, of_some = losses.sum(axis=0)
        self.loss[k] += (of_all - of_some * self.total / self.left_out) / self.total
        if not self.problems.one_class:
            wrong = self.weight * oracle.mistakes()
            self.wrong[k] += wrong.sum() / self.total - wrong[self.places].sum() / self.left_out
        self.add_fold(k, part, self.places, margins)

    def add_folds(self, k: int, part: slice, margins: np.ndarray) -> None:
        """By the k-th lambda, for some problems, the ``margins`` of the rows of all folds.

        With many features, outputs of other rows are the smaller, the larger lambda is, so that
        their losses as such would be in favour of a small one.
        """
        places = np.concatenate(self.folds)
        order = np.argsort(places)
        margins = margins[:, order]
        signs = np.where(self.problems.data.positive(self.numbers[self.places], part), 1.0, -1.0)
        weight = self.weight[self.places]
        scaled = [best_scaled(*each, weight) for each in zip(margins, signs, strict=True)]
        self.add_fold(k, part, self.places, margins, np.stack(scaled))

    def add_fold(
        self,
        k: int,
        part: slice,
        fold: np.ndarray,
        margins: np.ndarray,
        scaled: np.ndarray | None = None,
    ) -> None:
        """By the k-th lambda, for some problems, the ``margins`` of rows that were left out.

        ``scaled`` are those that losses are taken of, by default the same.
        """
        weight = self.weight[fold] / self.left_out
        lacking = np.maximum(1.0 - (margins if scaled is None else scaled), 0.0)
        self.loss[k] += (lacking**2).sum(axis=0) @ weight
        if not self.problems.one_class:
            self.wrong[k] += (margins <= 0.0).sum(axis=0) @ weight
            return
        positive = self.problems.data.positive(self.numbers[fold], part)
        here = k, np.searchsorted(self.places, fold)
        own = np.where(positive, margins, -np.inf).max(axis=0)
        other = np.where(positive, -np.inf, -margins).max(axis=0)
        self.own[here] = np.maximum(self.own[here], own)
        self.other[here] = np.maximum(self.other[here], other)

    def error(self) -> np.ndarray:
        """The share of rows that are classified wrongly."""
        if not self.problems.one_class:
            return self.wrong / self.problems.number
        return (self.own <= self.other) @ self.weight[self.places] / self.left_out


class _Reached(NamedTuple):
    """Where the solution of a lambda was found."""

    oracle: Any
    curvature: Any
    stage: Any

    @classmethod
    def from_last(cls, problems: Posed, part: slice, last: _Reached | None) -> _Reached:
        """Near the solution, from that of another lambda if there is one."""
        task = problems.task
        if last is not None and last.oracle.has_factors:
            penalty = last.oracle.first_penalty(task, True)
            return last._replace(stage=last.stage._replace(task=task, penalty=penalty))
        oracle = problems.data.oracle(task, part)
        if last is not None:
            oracle.begin(last.oracle)
        return cls(oracle, *approach(oracle, task))


def best_scaled(margins: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The margins with outputs multiplied and shifted so that their squared hinge loss is least.

    By Newton's method for the two numbers, as for the weights of all features.
    """
    columns, there = np.column_stack([margins, signs]), np.array([1.0, 0.0])
    roots, lowest, found = np.sqrt(weights), np.inf, there
    for _ in range(MOST_SCALINGS):
        lacking = np.maximum(1.0 - columns @ there, 0.0)
        value = float(weights @ lacking**2)
        if not value < (1.0 - 1e-9) * lowest:
            break
        lowest, found, active = value, there, lacking > 0.0
        some = roots[active]
        goal = np.linalg.lstsq(some[:, None] * columns[active], some, rcond=None)[0]
        change, t = goal - there, 1.0
        while (
            t > 1e-3
            and weights @ np.maximum(1.0 - columns @ (there + t * change), 0.0) ** 2 > value
        ):
            t *= 0.5
        there = there + t * change
        there[0] = max(there[0], 0.0)
    return columns @ found


class _ClassTally(_Tally):
    """The same where each row has one of several classes; ``loss`` is a `scaled_log_loss`.

    ``outputs`` are those of the lambdas for which some problems are still missing.
    """

    def __init__(self, problems: Posed, lambdas: int, most: int) -> None:
        super().__init__(problems, lambdas, most)
        self.outputs: dict[int, np.ndarray] = {}

    def add_sample(
        self, k: int, part: slice, oracle: Any, margins: np.ndarray, losses: np.ndarray
    ) -> None:
        self._add(k, part, margins)

    def add_folds(self, k: int, part: slice, margins: np.ndarray) -> None:
        self._add(k, part, margins[:, np.argsort(np.concatenate(self.folds))])

    def _add(self, k: int, part: slice, margins: np.ndarray) -> None:
        places, count = self.numbers[self.places], self.problems.number
        own = self.problems.data.positive(places, part)
        outputs = self.outputs.setdefault(k, np.empty((count, places.size)))
        outputs[part] = np.where(own, margins, -margins)
        if part.stop < count:
            return
        own, weights = (
            self.problems.data.positive(places, slice(0, count)),
            self.weight[self.places],
        )
        rivals = np.where(own, -np.inf, outputs).max(axis=0)
        self.wrong[k] = (outputs.T[own.T] <= rivals) @ weights / self.left_out
        self.loss[k], _ = scaled_log_loss(self.outputs.pop(k), own, weights, SURE)

    def error(self) -> np.ndarray:
        return self.wrong


def scaled_log_loss(
    outputs: np.ndarray, own: np.ndarray, weights: np.ndarray, sure: float
) -> tuple[float, float]:
    """The least mean log loss of ``softmax(t f)``, and the factor t >= 0 with that loss.

    So only the shape of outputs counts: a small lambda is not punished for large outputs. The
    probability of the own class should be ``sure``, so that the factor remains finite where no row
    is classified wrongly. NaN unless all outputs are finite.
    """
    if not np.isfinite(outputs).all():
        return np.nan, np.nan
    targets = np.where(own, sure, (1.0 - sure) / (own.shape[0] - 1.0))
    unit = float(np.abs(outputs).max()) or 1.0
    scores, shares = outputs / unit, weights / weights.sum()
    wanted = float((targets * scores).sum(axis=0) @ shares)

    def loss(t: float) -> tuple[float, float, float]:
        odds = t * scores
        total = np.logaddexp.reduce(odds, axis=0)
        chances = np.exp(odds - total)
        means = (chances * scores).sum(axis=0)
        spreads = (chances * (scores - means) ** 2).sum(axis=0)
        return float(shares @ total) - t * wanted, float(shares @ means) - wanted, shares @ spreads

    low, high, t = 0.0, np.inf, 1.0
    for _ in range(100):
        value, slope, curvature = loss(t)
        low, high = (t, high) if slope < 0.0 else (low, t)
        after = t - slope / curvature if curvature > 0.0 else np.inf
        if abs(after - t) <= PRECISE * t or high <= PRECISE:
            break
        if not low < after < min(high, 4.0 * t):
            after = 0.5 * (low + high) if high < np.inf else 4.0 * t
        t = after
    return value, t / unit


def _folds(problems: Posed, enough: int) -> list[np.ndarray]:
    """Folds of the rows that count, by their places; as many as have ``enough`` rows, or all.

    Of each class, each has as many, but for one; the same ones each time.
    """
    numbers = problems.numbers
    kinds = np.zeros(numbers.size)
    for c in range(problems.number):
        kinds += (c + 1.0) * problems.data.positive(numbers, slice(c, c + 1))[0]
    drawn = np.random.default_rng(0).random(numbers.size)
    fold_of = np.empty(numbers.size, int)
    fold_of[np.lexsort((drawn, kinds))] = np.arange(numbers.size) % FOLDS
    count = min(FOLDS, -(-FOLDS * enough // numbers.size))
    return [np.flatnonzero(fold_of == k) for k in range(count)]


def _deviations(
    problems: Posed, part: slice, oracle: Any, start: Any, left_out: np.ndarray
) -> np.ndarray:
    """How far outputs of rows that are left out can be from these, of shape (problems, rows)."""
    numbers = problems.numbers
    weights = problems.data.sample_weight[numbers]
    signs = np.where(problems.data.positive(numbers, part), 1.0, -1.0)
    found = np.empty_like(left_out)
    for c, margins in enumerate(left_out):
        active, products = oracle.inverse_products(*start, c)
        found[c] = deviations(margins, active, signs[c], weights, products)
    return found


def _refit(
    problems: Posed, part: slice, weights: np.ndarray, left_out: np.ndarray, away: np.ndarray
) -> None:
    """Replace outputs that are not proved by those of fits without the row.

    Fits start from the ``weights`` by all rows.
    """
    unproved = ~(away <= PROVED * (1.0 + np.abs(left_out)))
    data, numbers = problems.data, problems.numbers
    for place in np.flatnonzero(unproved.any(axis=0)):
        others = data.sample_weight.copy()
        others[numbers[place]] = 0.0
        oracle = data.weighed(others).oracle(problems.task, part)
        finish(oracle, *approach(oracle, problems.task, weights), silent)
        left_out[:, place] = oracle.signed_outputs(numbers[place : place + 1])[:, 0]
        away[:, place] = 0.0


def _by_others(
    problems: Posed, part: slice, fold: np.ndarray, advance: Advance, near: Any = None
) -> np.ndarray:
    """``y f(x)`` of the rows of a fold, by weights found without them.

    ``near`` is the oracle of all rows, at their solution.
    """
    held, weight = problems.numbers[fold], problems.data.sample_weight.copy()
    weight[held] = 0.0
    oracle = problems.data.weighed(weight).oracle(problems.task, part)
    if near is not None:
        oracle.begin(near)
    newton(oracle, problems.task, advance)
    found: np.ndarray = oracle.signed_outputs(held)
    return found
