"""Rows in a kernel's space, whose weights are coefficients of rows; all classes together.

The weights are ``w = sum_i beta_i phi(x_i)``. No kernel matrix is made. Lines of it are kept for
rows with coefficients, as many as there is memory for; the others are computed again in each step.
A step multiplies each line once, by the coefficients of all classes.

Where that is exact enough, lines are kept in float32, each value computed in float64 and rounded
once. So with ``u = 2**-24`` the sum ``sum_j K_ij beta_j`` changes by at most
``u sum_j |K_ij| |beta_j|``, which certificates take into account: products are made in float64, and
those of the absolute values give the sums on the right. Systems are factorised in float32 then.

All arrays of one number for each row and class are where products are made: on a device, if there
is one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificates import hinge_bounds
from maxmargin.certificates.bounds import RELATIVE_SLACK, soft_margin
from maxmargin.certificates.hinge_bounds import DualSums, dual_point
from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.points import Points
from maxmargin.kernels.products import Products
from maxmargin.solvers.certified_leave_one_out import (
    InverseProducts,
    ProductsOfColumns,
    ProductsOfRows,
)
from maxmargin.solvers.hessian import cholesky
from maxmargin.solvers.kernel_systems import KernelSystems, Target
from maxmargin.solvers.newton import FIRST_MU, NOTHING, SMALL, Solution, Stage, Task, are_reached
from maxmargin.solvers.newton_lines import KEPT, NewtonLines
from maxmargin.solvers.newton_passes import Objective, best_steps
from maxmargin.spaces.problem_scalars import ROUNDING

# Rows of the samples, the first at least so many times fewer than all.
SAMPLES, LEAST_SHARE = (1000, 4000, 16000), 1.5
# The first mu of the hinge loss, over lambda, where nothing is known yet.
WIDEST_MU = 20.0
# Samples use lines of all rows where memory is there for that share of them.
SHARED = 0.5
# Lines are in float32 where nothing closer than that is to be certified, ...
LEAST_NARROW_TOL = 3e-4
# ... and lambda is at least that much, relative to the largest value.
LEAST_NARROW_PENALTY = 0.01
# How much rounding to float32 changes a value, relatively; a little more than 2**-24.
NARROW = 6.0e-8
# So many arrays of a number for each row and problem exist besides the lines.
ARRAYS = 20
# With so many rows at most one thread multiplies: see `linear_oracle`.
ONE_THREAD = 4096


def sample_of(sample_weight: np.ndarray, most: int) -> np.ndarray:
    """The numbers of at most so many rows that count, the same random ones each time."""
    there = np.flatnonzero(sample_weight > 0.0)
    if there.size <= most:
        return there
    return np.sort(np.random.default_rng(0).choice(there, most, replace=False))


class KernelRows(NamedTuple):
    """The rows of a fit.

    kernel, points, products : the rows, and what makes products of them
    signs : 1 or -1, of shape (rows, problems)
    sample_weight : what each row counts
    intercept : is there one?
    cache_bytes : memory for kernel values
    """

    kernel: Kernel
    points: Points
    products: Products
    signs: np.ndarray
    sample_weight: np.ndarray
    intercept: bool
    cache_bytes: float

    @property
    def is_small(self) -> bool:
        """Is one thread of BLAS as good as more?"""
        return self.points.size() <= ONE_THREAD

    def weighed(self, sample_weight: np.ndarray) -> KernelRows:
        """The same rows with other weights."""
        return self._replace(sample_weight=sample_weight)

    def sampled(self, most: int) -> KernelRows:
        """At most so many of the rows that count, see `sample_of`; on this machine."""
        some = sample_of(self.sample_weight, most)
        if some.size == self.signs.shape[0] and self.products.xp is np:
            return self
        return self._replace(
            points=self.points.take(some).bare(),
            products=Products(),
            signs=self.signs[some],
            sample_weight=self.sample_weight[some],
        )

    def parts(self, problems: int) -> list[slice]:
        """Which of so many problems are solved together: all."""
        return [slice(0, problems)]

    def oracle(self, task: Task, part: slice) -> KernelOracle:
        """The oracle of all problems."""
        return KernelOracle(self, task)

    def positive(self, numbers: np.ndarray, part: slice) -> np.ndarray:
        """Are these rows positive ones? One line for each of the problems."""
        return np.asarray(self.signs[numbers, part].T > 0.0)

    def spread(self, numbers: np.ndarray) -> float:
        """The mean squared distance of these rows from their mean, in the kernel's space."""
        some, shares = self.points.take(numbers), self.sample_weight[numbers]
        shares = shares / shares.sum()
        mean = float(shares @ self.kernel.diagonal(some))
        middle = float(shares @ self.products.gram(self.kernel, some, some) @ shares)
        return max(mean - middle, 1e-14 * mean, 1e-300)


class KernelOracle:
    """A point of all problems.

    Attributes
    ----------
    shares_lines : are lines those of all rows, also while a sample is solved?
    numbers : the rows that arrays are about: all, or those of a sample
    rest, counts : which of them are in the sample, and what they count
    signs, goals, slack : of these rows
    coefs, outputs, bias : where the problems are
    lower : did the last full step lower the objective?
    age, mass : steps since outputs were computed as such, and the largest sum of coefficients
    dual, proved_for : masses and squares of dual points, and the penalty that they belong to
    is_narrow : are lines in float32?
    reach : of each problem, with ``r_i = sum_j |K_ij| |beta_j|`` or more, the root of
        ``sum_i s_i r_i**2``, and ``sum_i |beta_i| r_i``
    """

    sample_steps, sample_ratio = 8, 0.9

    def __init__(self, data: KernelRows, task: Task) -> None:
        self.data, self.products, self.xp = data, data.products, data.products.xp
        size, self.problems = data.signs.shape
        self.everything = np.flatnonzero(data.sample_weight > 0.0)
        self.all = np.arange(self.problems)
        self.is_small = self.everything.size**2 <= SMALL
        self.all_coefs = np.zeros((size, self.problems))
        self.lines: Any = None
        self.rest: Any = None  # until `restrict`
        self.counts: Any = None
        self.bias, self.age, self.mass = np.zeros((3, self.problems))
        self.margins, self.bounds = np.zeros(self.problems), np.full(self.problems, np.inf)
        self.reach, self.lower = np.zeros((2, self.problems)), np.ones(self.problems, bool)
        self.dual, self.proved_for = np.zeros((2, self.problems)), 0.0
        diagonal = data.kernel.diagonal(data.points)[self.everything]
        self.largest, self.mean_square = float(diagonal.max(initial=0.0)), float(diagonal.mean())
        # Kernel values, and sums of them, are rounded by at most that, relative to the largest.
        rounding = data.kernel.rounding(data.points)
        self.rounding = rounding + ROUNDING * (self.everything.size + 16.0)
        # Errors of outputs are to be small compared with lambda times the coefficients.
        wide = task.is_hard or task.is_hinge or task.tol < LEAST_NARROW_TOL
        wide = wide or task.penalty < LEAST_NARROW_PENALTY * self.largest or size**2 <= SMALL
        self.is_narrow = not wide and data.kernel.is_nonnegative and self.products.keeps_lines
        self._choose_sharing()

    def _choose_sharing(self) -> None:
        whole = (4.0 if self.is_narrow else 8.0) * self.data.signs.shape[0] ** 2
        self.shares_lines = KEPT * self._memory(0.0) >= SHARED * whole

    def _memory(self, copied: float) -> float:
        """Bytes for kernel values: what copies of rows and other arrays leave of the cache size."""
        most = self.data.cache_bytes
        return max(most - copied - 8.0 * ARRAYS * self.data.signs.size, 0.5 * most)

    def samples(self, task: Task) -> list[np.ndarray]:
        """Random rows, growing, each sample in the next; none with hard margins."""
        rows = self.everything
        if task.is_hard:
            return []
        drawn = np.random.default_rng(0).permutation(rows)
        return [np.sort(drawn[:m]) for m in SAMPLES if LEAST_SHARE * m <= rows.size]

    def first_penalty(self, task: Task, known: bool) -> float:
        if task.is_hard:
            # This is small compared with the squared distances of rows.
            return max(0.01 * self.mean_square, 1e-300)
        return task.penalty * ((FIRST_MU if known else WIDEST_MU) if task.is_hinge else 1.0)

    def begin(self, other: KernelOracle) -> None:
        """Samples lead to other points as fast."""

    def curvature(self, stage: Stage) -> KernelSystems:
        return KernelSystems(self)

    # --------------------------------------------------------------------------- where the rows are
    def put(self, weights: np.ndarray) -> None:
        self.all_coefs[:], self.bias[:] = weights[:, :-1].T, weights[:, -1]

    def restrict(self, sample: np.ndarray | None) -> float:
        data, here, counts = self.data, self.products.here, self.data.sample_weight
        if sample is not None:
            counts = np.zeros_like(counts)
            counts[sample] = data.sample_weight[sample]
        self.total_weight = float(counts.sum())
        share = 1.0 if sample is None else sample.size / self.everything.size
        self.dual[:] = 0.0
        if self.lines is not None:
            self._keep_coefs()
        if self.shares_lines and self.lines is not None:
            self._count(counts)
            return share
        is_part = sample is not None and not self.shares_lines
        self.numbers: Any = sample if is_part else slice(None)
        counts, points = counts[self.numbers], data.points
        points = points.take(sample) if is_part else points
        memory = self._memory(points.nbytes() if is_part else 0.0)
        self.lines = None  # frees the lines of the last sample
        dtype = np.float32 if self.is_narrow else np.float64
        self.lines = NewtonLines(data.kernel, points, self.products, memory, dtype)
        self.signs = here(np.ascontiguousarray(data.signs[self.numbers]))
        self._count(counts)
        self.goals = self.xp.ones(self.signs.shape)
        self.coefs = here(self.all_coefs[self.numbers].copy())
        self.outputs = self.summed(self.coefs) + here(self.bias)
        self.mass = self.host(abs(self.coefs).sum(axis=0))
        self.slack = self.goals - self.signs * self.outputs
        return share

    def _count(self, counts: np.ndarray) -> None:
        here = self.products.here
        self.rest, self.counts = here(counts > 0.0)[:, None], here(counts)[:, None]

    def _keep_coefs(self) -> None:
        self.all_coefs[:] = 0.0
        self.all_coefs[self.numbers] = self.host(self.coefs)

    def refine(self, stage: Stage) -> bool:
        """Go on with lines in float64."""
        if not self.is_narrow:
            return False
        self._keep_coefs()
        self.is_narrow, self.lines = False, None
        self._choose_sharing()
        self.restrict(None)
        return True

    def host(self, array: Any) -> np.ndarray:
        return np.asarray(self.products.host(array))

    def summed(self, coefs: Any) -> Any:
        """The kernel matrix times coefficients."""
        used = np.flatnonzero(self.host((coefs != 0.0).any(axis=1)))
        self.lines.keep(used)
        return self.lines.times(used, coefs[self.products.index(used)])

    @property
    def unit(self) -> float:
        """How much values have changed by the rounding of lines, relatively."""
        return NARROW if self.is_narrow else 0.0

    # --------------------------------------------------------------------------------------- a step
    def move(self, stage: Stage, which: np.ndarray, directions: Target) -> bool:
        """Go towards these coefficients, as far as it is best."""
        xp, here, (after, bias) = self.xp, self.products.here, directions
        columns = self.products.index(which)
        signs, slack = self.signs[:, columns], self.slack[:, columns]
        outputs, mass, reach = self._tried(stage, which, directions)
        before, coefs = self.outputs[:, columns], self.coefs[:, columns]
        offset, there = here(self.bias[which]), here(bias)
        change = signs * (outputs - before)
        here_now = (coefs * (before - offset)).sum(axis=0)
        across = (coefs * (outputs - there)).sum(axis=0)
        beyond = (after * (outputs - there)).sum(axis=0)
        counts = xp.where(self.rest, self.counts, 0.0)
        between = (slack > 0.0) & (slack < stage.limit) & self.rest
        lengths = xp.ones(signs.shape[1])
        value = self._value(stage, beyond, slack - change, counts)
        lower = value < self._value(stage, here_now, slack, counts)
        if not bool(lower.all()):
            curvature = xp.maximum(beyond - 2.0 * across + here_now, 0.0)
            along = Objective(stage.penalty, across - here_now, curvature, stage.limit)
            lengths = best_steps(xp, slack, change, counts, along)
            # Where the whole step gains nothing, the best one is shorter, but for rounding.
            lengths = xp.where(lower, 1.0, xp.minimum(lengths, 1.0))
        self.lower[which] = self.host(lower)
        whole = lengths == 1.0
        self.coefs[:, columns] = xp.where(whole, after, coefs + lengths * (after - coefs))
        self.outputs[:, columns] = xp.where(whole, outputs, before + lengths * (outputs - before))
        new = xp.where(whole, self.goals[:, columns] - signs * outputs, slack - lengths * change)
        self.slack[:, columns] = new
        t, still = self.host(lengths), self.bias[which]
        self.age[which] = np.where(t == 1.0, 0, self.age[which] + 1)
        self.bias[which] = np.where(t == 1.0, bias, still + t * (bias - still))
        self.mass[which] = np.where(t == 1.0, mass, np.maximum(self.mass[which], mass))
        coarse = self._coarse_reach(self.mass[which])
        self.reach[:, which] = np.where(t == 1.0, reach, coarse)
        now = (new > 0.0) & (new < stage.limit) & self.rest
        changed = self.host((now != between).any(axis=0)) | (np.abs(t - 1.0) > 1e-6)
        return bool(changed.any())

    def _tried(
        self, stage: Stage, which: np.ndarray, target: Target
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        """Outputs, masses and `reach` of whole steps; notes the dual points they give."""
        xp, (after, bias) = self.xp, target
        signs, count = self.signs[:, self.products.index(which)], which.size
        most = self.counts * (stage.limit / stage.penalty) if stage.limit < np.inf else np.inf
        alphas = xp.minimum(xp.maximum(signs * after, 0.0), most)
        # Coefficients that are no point of the dual are left out there.
        left_out = after - signs * alphas
        measures = self.is_narrow and stage.share == 1.0
        parts = [xp.maximum(after, 0.0), xp.minimum(after, 0.0)] if measures else [after]
        if bool(left_out.any()):
            parts.append(left_out)
        sums = self.summed(xp.concatenate(parts, axis=1))
        inner, mass = sums[:, :count], self.host(abs(after).sum(axis=0))
        reach = self._coarse_reach(mass)
        if measures:
            positive, negative = inner, sums[:, count : 2 * count]
            inner, reach = positive + negative, self._reach(abs(after), positive - negative)
        of_alphas = inner - sums[:, -count:] if len(parts) > 1 + measures else inner
        mine, theirs = xp.where(signs > 0.0, alphas, 0.0), xp.where(signs < 0.0, alphas, 0.0)
        is_squared = not (stage.task.is_hinge or stage.task.is_hard)
        hidden = is_squared * stage.penalty / xp.where(self.rest, self.counts, 1.0)
        numbers = DualSums(
            mine.sum(axis=0),
            theirs.sum(axis=0),
            (mine * of_alphas).sum(axis=0),
            -(theirs * of_alphas).sum(axis=0),
            (hidden * mine * mine).sum(axis=0),
            (hidden * theirs * theirs).sum(axis=0),
            abs(left_out).sum(axis=0),
        )
        found = self.host(xp.stack(list(numbers)))
        for k, c in enumerate(which.tolist()):
            given = DualSums(*found[:, k].tolist()), self.largest, self.rounding
            mass_of, square = dual_point(*given, self.data.intercept)
            self.dual[:, c] = mass_of, square + 2.0 * self.unit * reach[1][k]
        self.proved_for = stage.penalty
        return inner + self.products.here(bias), mass, reach

    def _coarse_reach(self, mass: np.ndarray) -> np.ndarray:
        """`reach`, given the sums of absolute coefficients."""
        return self.largest * np.stack([np.sqrt(self.total_weight) * mass, mass**2])

    def _reach(self, sizes: Any, sums: Any) -> np.ndarray:
        """`reach`, given absolute coefficients and the kernel matrix times these."""
        counts = self.xp.where(self.rest, self.counts, 0.0)
        norms = self.xp.sqrt((counts * sums * sums).sum(axis=0))
        return self.host(self.xp.stack([norms, (sizes * sums).sum(axis=0)]))

    def _value(self, stage: Stage, squares: Any, slack: Any, counts: Any) -> Any:
        """Twice mu times the value of the current objective."""
        positive = self.xp.maximum(slack, 0.0)
        within = self.xp.minimum(positive, stage.limit)
        losses = (counts * within * (2.0 * positive - within)).sum(axis=0)
        return stage.penalty * squares + losses

    def measured(self, stage: Stage, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        task, xp, columns = stage.task, self.xp, self.products.index(which)
        is_squared = not (task.is_hinge or task.is_hard)
        if is_squared and self.proved_for != stage.penalty:
            self.dual[:] = 0.0
        coefs, outputs = self.coefs[:, columns], self.outputs[:, columns]
        bias = self.products.here(self.bias[which])
        squares = self.host((coefs * (outputs - bias)).sum(axis=0))
        slack, goals = self.slack[:, columns], self.goals[:, columns]
        counts = xp.where(self.rest, self.counts, 0.0)
        lacking = xp.maximum(slack - (goals - 1.0), 0.0)
        losses = self.host((counts * (lacking if task.is_hinge else lacking**2)).sum(axis=0))
        masses, steps = self.mass[which], self.age[which] + 1.0
        rounding = self.rounding * (steps + 1.0) * self.largest
        errors = rounding * masses + 8.0 * ROUNDING * (1.0 + abs(self.bias[which]))
        norms, forms = self.unit * steps * self.reach[:, which]
        errors += norms / np.sqrt(self.total_weight)
        squares = np.maximum(squares, 0.0) + rounding * masses**2 + forms
        values = self.host(self._value(stage, self.products.here(squares), slack, counts))
        for k, c in enumerate(which.tolist()):
            self.bounds[c] = self._bound(stage, *self.dual[:, c])
            if task.is_hard:
                self.margins[c] = self._hard_margin(c, squares[k], errors[k])
                continue
            count = self.everything.size
            given = squares[k], losses[k], self.total_weight, errors[k], count
            if task.is_hinge:
                value = hinge_bounds.highest_value(*given, stage.hinge_penalty)
                self.margins[c] = hinge_bounds.as_margin(value)
            else:
                self.margins[c] = soft_margin(*given, stage.penalty)
        margins, bounds = self.margins[which], self.bounds[which]
        known = (margins > 0.0) & (bounds > 0.0) & (bounds < np.inf)
        return values, np.divide(margins, bounds, out=np.zeros(which.size), where=known)

    def _bound(self, stage: Stage, mass: float, square: float) -> float:
        """On the best margin, by a dual point."""
        if stage.task.is_hinge:
            dual = hinge_bounds.dual_value((1.0 - RELATIVE_SLACK) * mass, square)
            return hinge_bounds.as_margin(max(dual, 0.0)) * (1.0 + RELATIVE_SLACK)
        return np.inf if mass <= 0.0 else float(np.sqrt(square)) / mass * (1.0 + RELATIVE_SLACK)

    # ------------------------------------------------------------------ hard margins and hinge loss
    def _lowest(self, c: int) -> tuple[float, float]:
        """The lowest outputs of the positive and of the negative rows."""
        xp, signs = self.xp, self.signs[:, c]
        outputs = xp.where(self.rest[:, 0], signs * self.outputs[:, c], np.inf)
        own, rest = (xp.where(side, outputs, np.inf).min() for side in (signs > 0.0, signs < 0.0))
        return float(own), float(rest)

    def _hard_margin(self, c: int, square: float, error: float) -> float:
        """With the intercept half-way between both classes."""
        own, rest = self._lowest(c)
        lowest = 0.5 * (own + rest) if self.data.intercept else min(own, rest)
        return float((lowest - error) / np.sqrt(square)) if square > 0.0 else 0.0

    def raise_goals(self, stage: Stage, after: Stage, which: np.ndarray) -> None:
        xp, columns = self.xp, self.products.index(which)
        slack = self.slack[:, columns]
        coefs = xp.minimum(xp.maximum(slack, 0.0), stage.limit) / stage.penalty
        outputs = self.goals[:, columns] - slack
        self.goals[:, columns] = 1.0 + after.penalty * coefs
        self.slack[:, columns] = self.goals[:, columns] - outputs

    def is_hopeless(self, stage: Stage, c: int) -> bool:
        return stage.task.is_hard and self.bounds[c] <= NOTHING * np.sqrt(self.largest)

    # -------------------------------------------------------------------------------------- the end
    def solution(self, stage: Stage, steps: int) -> Solution:
        if stage.task.is_hard and self.data.intercept:
            for c in range(self.problems):
                own, rest = self._lowest(c)
                self.bias[c] += 0.5 * (rest - own)
        coefs = np.ascontiguousarray(self.host(self.coefs).T)
        weights = np.column_stack([coefs, self.bias * self.data.intercept])
        margins, bounds = self.margins.copy(), self.bounds.copy()
        reached = are_reached(margins, bounds, stage.task.tol)
        return Solution(weights, margins, bounds, [], steps, reached)

    @property
    def has_factors(self) -> bool:
        """Are systems solved by factors, which `left_out` needs?"""
        return self.everything.size <= self.products.most_factorised

    def left_out(
        self, curvature: KernelSystems, stage: Stage, places: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `linear_oracle.LinearOracle.left_out`, on the host."""
        rows, weights = self.everything[places], self.data.sample_weight
        chosen = (self.slack > 0.0) & self.rest
        after, bias, shares = curvature.at_active(stage, chosen)
        slack = 1.0 - self.signs * (self.summed(after) + bias)
        squares = np.where(chosen, slack * slack, 0.0)
        losses = np.stack([weights @ squares, weights[rows] @ squares[rows]], axis=1)
        return (1.0 - slack / shares)[rows].T, losses

    def inverse_products(
        self, curvature: KernelSystems, stage: Stage, c: int
    ) -> tuple[np.ndarray, InverseProducts]:
        """As `linear_oracle.LinearOracle.inverse_products`."""
        data, chosen = self.data, ((self.slack[:, c] > 0.0) & self.rest[:, 0])[self.everything]
        active = self.everything[chosen]
        weights, points = data.sample_weight[active], data.points.take(self.everything)
        cross = self.products.gram(data.kernel, data.points.take(active), points)
        cross = cross.astype(float, copy=False)
        system = cross[:, chosen].copy()
        system[np.diag_indices(active.size)] += stage.penalty / weights
        if (factor := cholesky(system)) is None:
            return chosen, ProductsOfColumns(np.full((1, chosen.size), np.nan))
        return chosen, ProductsOfRows(
            factor=factor,
            active=np.flatnonzero(chosen),
            weights=weights,
            cross=cross,
            squares=data.kernel.diagonal(points),
            penalty=stage.penalty,
            intercept=data.intercept,
        )

    def mistakes(self) -> np.ndarray:
        """In how many problems each row that counts is on the wrong side."""
        return np.asarray((self.slack >= 1.0).sum(axis=1)[self.everything])

    def signed_outputs(self, numbers: np.ndarray) -> np.ndarray:
        """``y f(x)`` of these rows, which need not be among those that count."""
        return np.asarray((self.signs * self.outputs)[numbers].T)
