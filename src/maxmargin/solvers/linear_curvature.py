"""Newton steps of weights of features: by a Hessian, by products of rows, or without a matrix.

With few features the Hessian is kept, and rows that become active, or no longer
are, change it. With more features, but few rows, the products of rows with each other take its
place. With many of both nothing of that size is made: steps are found by conjugate gradients, after
some passes of dual coordinate ascent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotri, dpotrs

from maxmargin.solvers import newton_passes
from maxmargin.solvers.certified_leave_one_out import (
    InverseProducts,
    ProductsOfColumns,
    ProductsOfRows,
)
from maxmargin.solvers.hessian import (
    BLOCK,
    LEAST_REMAINDER,
    ConjugateGradients,
    Gathering,
    cholesky,
    enough_residual,
    gathered,
    is_gathered,
    newton_step,
    remainders_of_products,
    row_buffers,
    system_of,
)
from maxmargin.solvers.newton import Stage

# Passes of dual ascent before the first certificate, and at most. After so many, what is missing in
# the ratio must shrink to this fraction while passes grow by half.
FIRST_PASSES, MOST_PASSES, SURE_PASSES, PROGRESS = 3, 500, 30, 0.8
# How freely the intercept moves in a pass, over the root of lambda times the mean squared norm.
PULL = 0.1


def mean_row(oracle: Any, numbers: np.ndarray) -> np.ndarray:
    """The mean of these rows, with 0 for the intercept."""
    size = oracle.data.width + 1
    ones, origin = np.ones(oracle.data.sample_weight.size), np.zeros(size)
    block = gathered(oracle.passes.rows, numbers, ones, origin)
    return np.append(block[:, :-1].mean(axis=0), 0.0)


class Steps:
    """Newton steps, found for one problem after the other."""

    def __init__(self, oracle: Any) -> None:
        self.oracle, self.data, self.rows = oracle, oracle.data, oracle.passes.rows

    def directions(self, stage: Stage, which: np.ndarray) -> np.ndarray:
        steps = np.zeros_like(self.oracle.weights)
        for c in which.tolist():
            steps[c] = self.direction(stage, c)
        return steps

    def direction(self, stage: Stage, c: int) -> np.ndarray:
        raise AssertionError("each kind of steps has its own")


class Hessians(Steps):
    """``sum of s x x'`` over the active rows of each problem, kept; upper triangles.

    Rows that fill much of their width are gathered in blocks, less a point among them, so that a
    large offset of all rows costs no digits.

    Attributes
    ----------
    added : which rows are in each matrix
    removed : how many rows were taken away, since all were added up
    """

    def __init__(self, oracle: Any, stage: Stage) -> None:
        data, numbers = oracle.data, oracle.numbers
        super().__init__(oracle)
        self.gathers = is_gathered(data.filled, data.width)
        self.center, oracle.center = np.zeros(data.width + 1), None
        if self.gathers and data.intercept:
            step = max(1, numbers.size // BLOCK)
            self.center = oracle.center = mean_row(oracle, numbers[::step][:BLOCK])
        self.gathering, self.buffers = Gathering(self.center), row_buffers(self.center.size)
        self.matrices = np.zeros((oracle.problems, self.center.size, self.center.size))
        self.added = np.zeros((oracle.problems, numbers.size), bool)
        self.removed = np.zeros(oracle.problems, int)

    def direction(self, stage: Stage, c: int) -> np.ndarray:
        """The Newton step; down the gradient where rounding leaves no system to solve."""
        given = *self._factor(stage, c), self.oracle.gradient(stage, c)
        return newton_step(*given, self.center, stage.penalty, self.data.intercept)

    def remainders(self, stage: Stage, c: int, places: np.ndarray) -> np.ndarray:
        """``1 - h`` of active rows, as in `remainders_of_products`."""
        chosen, weights = self.oracle.numbers[places], self.oracle.data.sample_weight
        _, factor = self._factor(stage, c)
        if factor is None:
            return np.full(places.size, np.nan)
        leverages = np.empty(places.size)
        if self.gathers:
            for start in range(0, places.size, BLOCK):
                some = chosen[start : start + BLOCK]
                block = gathered(self.rows, some, weights, self.center)
                solved = dtrsm(1.0, factor, block.T, lower=1, overwrite_b=1)
                leverages[start : start + BLOCK] = np.einsum("ji,ji->i", solved, solved)
        else:
            # LAPACK takes columns for lines: its lower triangle is our upper one.
            inverse = dpotri(factor, lower=1)[0].T
            newton_passes.leverages(self.rows, chosen, weights, self.buffers, inverse, leverages)
        return np.maximum(1.0 - leverages, LEAST_REMAINDER)

    def inverse_products(self, stage: Stage, c: int) -> InverseProducts:
        _, factor = self._factor(stage, c)
        numbers, size = self.oracle.numbers, self.center.size
        if factor is None:
            return ProductsOfColumns(np.full((1, numbers.size), np.nan))
        solved = np.empty((size, numbers.size))
        ones = np.ones(self.oracle.data.sample_weight.size)
        for start in range(0, numbers.size, BLOCK):
            some = slice(start, start + BLOCK)
            block = gathered(self.rows, numbers[some], ones, self.center)
            solved[:, some] = dtrsm(1.0, factor, block.T, lower=1, overwrite_b=1)
        return ProductsOfColumns(solved)

    def _factor(self, stage: Stage, c: int) -> tuple[np.ndarray, np.ndarray | None]:
        """The matrix of the present active rows, and Cholesky's factor of the system."""
        now, matrix = self.oracle.between(stage, c), self.matrices[c]
        entered, left = np.flatnonzero(now & ~self.added[c]), np.flatnonzero(self.added[c] & ~now)
        # What is left of many rows that went is mostly their rounding.
        if self.removed[c] + left.size > np.count_nonzero(now):
            self._add_up(c, now)
        else:
            self.removed[c] += left.size
            self._add(c, entered, 1.0)
            self._add(c, left, -1.0)
        self.added[c] = now
        factor = cholesky(system_of(matrix, stage.penalty))
        if factor is None and self.removed[c]:
            self._add_up(c, now)
            factor = cholesky(system_of(matrix, stage.penalty))
        return matrix, factor

    def _add_up(self, c: int, now: np.ndarray) -> None:
        self.matrices[c], self.removed[c] = 0.0, 0
        self._add(c, np.flatnonzero(now), 1.0)

    def _add(self, c: int, places: np.ndarray, sign: float) -> None:
        chosen, weights = self.oracle.numbers[places], self.oracle.data.sample_weight
        if self.gathers:
            self.gathering.add(self.matrices[c], self.rows, chosen, weights, sign)
        else:
            matrix = self.matrices[c]
            newton_passes.scatter(self.rows, chosen, weights, sign, self.buffers, matrix)


class Grams(Steps):
    """The products of all rows with each other, where they are few.

    Given the active rows, the minimum is at ``w = sum of beta_i x_i`` with
    ``(K + diag(lambda / s)) beta + b = y goal`` and, for the sake of b, ``sum of beta_i = 0``. Rows
    beyond the limit have ``beta = y s limit / lambda``. With an intercept, K may be the products of
    rows about any point, where the output is then b: dense rows are measured from their mean.
    """

    def __init__(self, oracle: Any, stage: Stage) -> None:
        data, numbers = oracle.data, oracle.numbers
        super().__init__(oracle)
        size = numbers.size
        self.center, oracle.center = np.zeros(data.width + 1), None
        if is_gathered(data.filled, data.width) and data.intercept:
            self.center = oracle.center = mean_row(oracle, numbers)
            ones = np.ones(data.sample_weight.size)
            block = gathered(self.rows, numbers, ones, self.center)[:, :-1]
            self.gram = block @ block.T
        else:
            self.gram, line = np.empty((size, size)), np.empty((1, data.width + 1))
            newton_passes.products(self.rows, numbers, data.width, line, self.gram)
        self.signs = np.zeros(oracle.slack.shape, dtype=bool)
        oracle.passes.positive(numbers, oracle.all, self.signs)

    def direction(self, stage: Stage, c: int) -> np.ndarray:
        oracle, data = self.oracle, self.oracle.data
        active = np.flatnonzero(oracle.between(stage, c))
        beyond = np.flatnonzero(oracle.slack[c] >= stage.limit)
        there = np.zeros((1, data.width + 1))
        fixed = np.where(self.signs[c, beyond], 1.0, -1.0)
        fixed *= data.sample_weight[oracle.numbers[beyond]] * (stage.limit / stage.penalty)
        newton_passes.combine(self.rows, oracle.numbers[beyond], fixed, there)
        if active.size:
            goals = np.broadcast_to(oracle.goals, oracle.slack.shape)[c, active]
            aims = np.where(self.signs[c, active], goals, -goals)
            aims -= self.gram[np.ix_(active, beyond)] @ fixed
            sides = np.stack([aims, np.ones(active.size)])
            factor, bias = cholesky(self._system(stage, active)), 0.0
            if factor is None:
                return -oracle.gradient(stage, c) / (stage.penalty + self.gram.trace())
            wanted, ones = dpotrs(factor, sides.T, lower=1)[0].T
            if data.intercept:
                bias = float((wanted.sum() + fixed.sum()) / ones.sum())
            newton_passes.combine(self.rows, oracle.numbers[active], wanted - bias * ones, there)
            there[0, -1] = bias - self.center[:-1] @ there[0, :-1]
        step: np.ndarray = there[0] - oracle.weights[c]
        if not (data.intercept and active.size):
            step[-1] = 0.0
        return step

    def remainders(self, stage: Stage, c: int, places: np.ndarray) -> np.ndarray:
        """``1 - h`` of active rows, as in `remainders_of_products`."""
        oracle, data = self.oracle, self.oracle.data
        active = np.flatnonzero(oracle.slack[c] > 0.0)
        if (factor := cholesky(self._system(stage, active))) is None:
            return np.full(places.size, np.nan)
        own = stage.penalty / data.sample_weight[oracle.numbers[active]]
        all_active = remainders_of_products(factor, own, data.intercept)
        return all_active[np.searchsorted(active, places)]

    def inverse_products(self, stage: Stage, c: int) -> InverseProducts:
        oracle, data = self.oracle, self.oracle.data
        active = np.flatnonzero(oracle.slack[c] > 0.0)
        if (factor := cholesky(self._system(stage, active))) is None:
            return ProductsOfColumns(np.full((1, oracle.numbers.size), np.nan))
        return ProductsOfRows(
            factor=factor,
            active=active,
            weights=data.sample_weight[oracle.numbers[active]],
            cross=self.gram[active],
            squares=self.gram.diagonal(),
            penalty=stage.penalty,
            intercept=data.intercept,
        )

    def _system(self, stage: Stage, active: np.ndarray) -> np.ndarray:
        system, ends = self.gram[np.ix_(active, active)], np.arange(active.size)
        weights = self.oracle.data.sample_weight[self.oracle.numbers[active]]
        system[ends, ends] += stage.penalty / weights
        return system


class Gradients(Steps):
    """Conjugate gradients over the active rows, scaled by the diagonal of the Hessian.

    Before them come passes of dual coordinate ascent, as long as they get on well; mostly these are
    enough. Without hard margins, and unless the weights are given.
    """

    def __init__(self, oracle: Any, stage: Stage) -> None:
        super().__init__(oracle)
        if not stage.task.is_hard and (oracle.coefs is not None or not oracle.weights.any()):
            self._ascend(stage)

    def _ascend(self, stage: Stage) -> None:
        """Passes over the rows, and a certificate after some of them.

        The intercept is not regularized, so coefficients of both classes have the same sum: a
        constraint of the dual. By the method of multipliers (Hestenes 1969, Powell 1969), the
        intercept is drawn to where it was, and then moves on by what the sums still differ by.
        """
        oracle, data, task = self.oracle, self.data, stage.task
        order, xx = oracle.everything.copy(), np.empty(data.sample_weight.size)
        newton_passes.squares(self.rows, order, xx)
        xx -= data.intercept
        pull = PULL * float(np.sqrt(task.penalty * xx[order].mean())) if data.intercept else 0.0
        xx += pull
        ridge, most = (0.0, 0.5 / task.penalty) if task.is_hinge else (task.penalty, np.inf)
        dual = newton_passes.Dual(ridge, most, pull)
        random, passes, which, before = np.random.default_rng(0), 0, oracle.all, np.inf
        first = FIRST_PASSES
        if oracle.coefs is None:
            oracle.coefs = np.zeros((oracle.problems, xx.size))
        else:
            first = 1
            if task.is_hinge:
                np.minimum(oracle.coefs, most * data.sample_weight, out=oracle.coefs)
            oracle.weigh(stage, which)
        while which.size and passes < MOST_PASSES:
            for _ in range(max(1, passes // 2) if passes else first):
                random.shuffle(order)
                given = oracle.passes.chosen(order), which, dual
                newton_passes.ascend(*given, xx, oracle.coefs, oracle.weights)
                passes += 1
            oracle.weigh(stage, which)
            gaps = 1.0 - oracle.measured(stage, which)[1]
            which, gap = which[gaps > task.tol], gaps.max()
            if passes >= SURE_PASSES and gap > PROGRESS * before:
                break
            before = gap
            excess = oracle.totals[2 * which, 0] - oracle.totals[2 * which + 1, 0]
            oracle.weights[which, -1] += pull / stage.penalty * excess
        if which.size:
            oracle.coefs = None
            oracle.look_anew(oracle.all)

    def direction(self, stage: Stage, c: int) -> np.ndarray:
        oracle, weights = self.oracle, self.oracle.data.sample_weight
        active = oracle.numbers[np.flatnonzero(oracle.between(stage, c))]
        diagonal = np.zeros((1, oracle.weights.shape[1]))
        newton_passes.diagonal(self.rows, active, weights, diagonal)
        enough = enough_residual(stage.task.tol, stage.penalty, oracle.weights[c])
        gradient = oracle.gradient(stage, c)
        search = ConjugateGradients(gradient, diagonal[0], stage.penalty, enough)
        while not search.is_over():
            out = np.zeros_like(diagonal)
            newton_passes.along(self.rows, active, weights, search.line[None], out)
            search.follow(out[0])
        return search.step
