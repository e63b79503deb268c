"""The maximum soft margin in a kernel's space, exactly, by Newton's method; all classes together.

The weights are ``w = sum_i beta_i phi(x_i)``. As in `models.newton_solver`, the slack of a row is
what its output lacks of its goal, and rows with a slack between 0 and the limit are in the system
of a step. Given these rows I, and the fixed coefficients of rows J beyond the limit, the minimum is
at

    (K_II + diag(mu / s)) beta_I + b  =  y goal - K_IJ beta_J,        sum of all beta = 0,

the second only if there is an intercept. mu is lambda for the squared hinge loss; for the hinge
loss and hard margins it falls from round to round, and goals make up for it (the method of
multipliers).

No kernel matrix is made. Lines of it are kept for rows with coefficients, as many as there is
memory for; the others are computed again in each round. A round multiplies each line once, by the
coefficients of all classes. The first rounds are made with small samples of the rows.

Where that is exact enough, lines are kept in float32, each value computed in float64 and rounded
once. So with ``u = 2**-24`` the sum ``sum_j K_ij beta_j`` changes by at most
``u sum_j |K_ij| |beta_j|``, which certificates take into account: products are made in float64, and
those of the absolute values give the sums on the right. Systems are factorised in float32 then.

All arrays of one number for each row and class are where products are made: on a device, if there
is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrs

from maxmargin.certificates import hinge_bounds
from maxmargin.certificates.bounds import RELATIVE_SLACK
from maxmargin.certificates.scalar_bounds import soft_margin_of_square
from maxmargin.core import newton_passes
from maxmargin.core.rows import Tail
from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.points import Points
from maxmargin.kernels.products import Products
from maxmargin.models.blas_threads import one_thread
from maxmargin.models.hessian import cholesky
from maxmargin.models.kernel_model import KernelModel, PairKernelModel
from maxmargin.models.leave_one_out import remainders_of_products
from maxmargin.models.newton_lines import KEPT, Lines
from maxmargin.models.newton_solver import (
    FALL,
    FIRST_MU,
    GAIN,
    HINGE_FALL,
    HINGE_ROUNDS,
    HINGE_STEPS,
    LEAST_GAIN,
    LEAST_LIMIT,
    NOTHING,
    PATIENCE,
    ROUNDS,
    SMALL,
    STEPS_PER_ROUND,
)
from maxmargin.models.spec import ModelSpec
from maxmargin.spaces.gram import compress
from maxmargin.spaces.problem_scalars import ROUNDING

# Rows of the samples, the first at least so many times fewer than all; when they are done with.
SAMPLES, LEAST_SHARE = (1000, 4000, 16000), 1.5
SAMPLE_RATIO, SAMPLE_STEPS = 0.9, 8
# The first mu of the hinge loss, over lambda, where nothing is known yet.
WIDEST_MU = 20.0
# Samples use lines of all rows where memory is there for that share of them.
SHARED = 0.5
# In so many steps after rows were added, those without coefficients whose slack is no larger than
# that are left out of systems: most would leave the active set again, and lines are expensive.
YOUNG, NEARLY = 2, 0.2
# Where that share of the active rows has no coefficients yet, passes of dual ascent come first.
LOOSE, PASSES = 0.05, 3
# Conjugate gradients stop when the residual is that much smaller, or after so many.
RESIDUAL, MOST_GRADIENTS = 1e-4, 500
# Lines are in float32 where nothing closer than that is to be certified, ...
LEAST_NARROW_TOL = 3e-4
# ... and lambda is at least that much, beside the largest value.
LEAST_NARROW_PENALTY = 0.01
# How much rounding to float32 changes a value, relatively; a little more than 2**-24.
NARROW = 6.0e-8
# So many arrays of a number for each row and problem exist beside the lines.
ARRAYS = 20
# With so many rows at most one thread multiplies: see `models.newton_solver`.
ONE_THREAD = 4096


class KernelTask(NamedTuple):
    """What is to be solved.

    kernel, points, products : the rows, and what makes products of them
    signs : 1 or -1, of shape (rows, problems)
    sample_weight : what each row counts
    penalty : lambda; 0 is the hard margin
    intercept : is there one?
    tol, max_iter : what is to be certified, and steps at most
    hinge : is the loss the hinge loss, and not its square?
    cache_bytes : memory for kernel values
    """

    kernel: Kernel
    points: Points
    products: Products
    signs: np.ndarray
    sample_weight: np.ndarray
    penalty: float
    intercept: bool
    tol: float
    max_iter: int
    hinge: bool
    cache_bytes: float

    @property
    def is_small(self) -> bool:
        """Is one thread of BLAS as good as more?"""
        return self.points.size() <= ONE_THREAD

    def parts(self, problems: int) -> list[slice]:
        """Which of so many problems are solved together: all."""
        return [slice(0, problems)]

    def newton(self, part: slice) -> KernelNewton:
        """The steps for all problems."""
        return KernelNewton(self)

    def positive(self, numbers: np.ndarray, part: slice) -> np.ndarray:
        """Are these rows positive ones? One line for each of the problems."""
        return np.asarray(self.signs[numbers, part].T > 0.0)

    def spread(self, numbers: np.ndarray) -> float:
        """The mean squared distance of these rows from their mean, in the kernel's space."""
        some = self.points.take(numbers)
        mean, middle = (
            self.kernel.diagonal(some).mean(),
            self.products.gram(self.kernel, some, some).mean(),
        )
        return max(float(mean - middle), 1e-14 * float(mean), 1e-300)


class KernelSolution(NamedTuple):
    """Coefficients of rows, of shape (problems, rows), and their margins and bounds."""

    coefs: np.ndarray
    intercepts: np.ndarray
    margins: np.ndarray
    bounds: np.ndarray
    n_iter: int
    reached: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """Coefficients, with the intercept last."""
        return np.column_stack([self.coefs, self.intercepts])


def solve(task: KernelTask, advance: Callable[..., None]) -> KernelSolution:
    """The hyperplanes of all problems."""
    with one_thread() if task.is_small else nullcontext():
        return KernelNewton(task).run(advance)


def fitted_model(
    found: KernelSolution, spec: ModelSpec, task: KernelTask, width: int, codes: np.ndarray
) -> KernelModel:
    """The model that predicts by a solution, with the rows that have coefficients as supports."""
    kind = PairKernelModel if spec.fit_intercept else KernelModel
    tail, (problems, _) = Tail(0.0, float(np.sqrt(spec.soft_margin))), found.coefs.shape
    model = kind(spec, problems, width, tail, task.kernel.forget_rows(), task.products)
    used = np.flatnonzero(found.coefs.any(axis=0))
    points = task.points.take(used)
    diagonal = task.kernel.diagonal(points)
    rows = points.X
    needs_squares = task.kernel.points(rows[:1]).squares is not None
    model.allocate(Points(rows, points.squares if needs_squares else None))
    assert model.supports is not None
    model.supports = model.supports._replace(
        numbers=used.astype(np.int64),
        labels=np.zeros(used.size, np.int32) if codes.ndim > 1 else codes[used].astype(np.int32),
        diagonal=diagonal,
        coefs=np.ascontiguousarray(found.coefs[:, used]),
    )
    model._bounds = found.bounds
    if isinstance(model, PairKernelModel):
        model.bias = found.intercepts.copy()
    return model


class KernelNewton:
    """The steps for all problems.

    Attributes
    ----------
    shares_lines : are lines those of all rows, also while a sample is solved?
    numbers : the rows that arrays are about: all, or those of a sample
    rest, counts : which of them are in the sample, and what they count
    signs, goals, slack : of these rows
    coefs, outputs, bias : where the problems are
    penalty, limit : mu, and the slack from which losses grow linearly
    young : steps since rows were added
    lower : did the last full step lower the objective?
    age, mass : steps since outputs were computed as such, and the largest sum of coefficients
    is_narrow : are lines in float32?
    reach : of each problem, with ``r_i = sum_j |K_ij| |beta_j|`` or more, the root of
        ``sum_i s_i r_i**2``, and ``sum_i |beta_i| r_i``
    """

    def __init__(self, task: KernelTask) -> None:
        self.task, self.products = task, task.products
        self.xp = task.products.xp
        size, problems = task.signs.shape
        self.is_hard, self.is_hinge = task.penalty == 0.0, task.hinge and task.penalty > 0.0
        self.everything = np.flatnonzero(task.sample_weight > 0.0)
        self.all_coefs = np.zeros((size, problems))
        self.bias, self.ratio, self.age = np.zeros((3, problems))
        diagonal = task.kernel.diagonal(task.points)[self.everything]
        self.largest = float(diagonal.max(initial=0.0))
        self.steps, self.limit, self.lower = 0, np.inf, np.ones(problems, bool)
        self.lines: Any = None
        # Errors of outputs are to be small beside lambda times the coefficients.
        wide = self.is_hard or self.is_hinge or task.tol < LEAST_NARROW_TOL
        wide = wide or task.penalty < LEAST_NARROW_PENALTY * self.largest or size**2 <= SMALL
        nonnegative = task.kernel.is_nonnegative and task.products.keeps_lines
        self.is_narrow = nonnegative and not wide
        self.reach = np.zeros((2, problems))
        self._choose_sharing()
        # 0.01 of the mean square is small beside the squared distances of rows.
        self.full_penalty = task.penalty or max(0.01 * float(diagonal.mean()), 1e-300)
        if self.is_hinge:
            self.full_penalty, self.limit = WIDEST_MU * task.penalty, 0.5 * WIDEST_MU

    def _choose_sharing(self) -> None:
        whole = (4.0 if self.is_narrow else 8.0) * self.task.signs.shape[0] ** 2
        self.shares_lines = KEPT * self._memory(0.0) >= SHARED * whole

    def _memory(self, copied: float) -> float:
        """Bytes for kernel values: what copies of rows and other arrays leave of the cache size."""
        others = copied + 8.0 * ARRAYS * self.task.signs.size
        return max(self.task.cache_bytes - others, 0.5 * self.task.cache_bytes)

    def run(self, advance: Callable[..., None]) -> KernelSolution:
        self.start()
        return self.finish(advance)

    def start(self, weights: np.ndarray | None = None) -> None:
        """Come near with samples of the rows; or start from these coefficients and intercepts."""
        task = self.task
        if weights is not None:
            self.all_coefs[:], self.bias[:] = weights[:, :-1].T, weights[:, -1]
        for sample in self._samples() if weights is None else ():
            self._begin(sample)
            self._descend(SAMPLE_STEPS, SAMPLE_RATIO, lambda *_, **__: None)
            self._leave()
            if self.is_hinge:
                self.full_penalty, self.limit = FIRST_MU * task.penalty, 0.5 * FIRST_MU
        self._begin(None)

    def finish(self, advance: Callable[..., None]) -> KernelSolution:
        """Steps with all rows."""
        if self.is_hard or self.is_hinge:
            self._multiply(advance)
        else:
            self._descend(self.task.max_iter, 1.0 - self.task.tol, advance)
        if self.is_narrow and self.steps < self.task.max_iter and not self.reached.all():
            self._widen()
            self._descend(self.task.max_iter - self.steps, 1.0 - self.task.tol, advance)
        return self._solution()

    def _widen(self) -> None:
        """Go on with lines in float64."""
        self._leave()
        self.is_narrow, self.lines = False, None
        self._choose_sharing()
        self._begin(None)

    def _samples(self) -> list[np.ndarray]:
        """Random rows, growing, each sample in the next; none with hard margins."""
        rows = self.everything
        if self.is_hard:
            return []
        drawn = np.random.default_rng(0).permutation(rows)
        return [np.sort(drawn[:m]) for m in SAMPLES if LEAST_SHARE * m <= rows.size]

    # --------------------------------------------------------------------------- where the rows are
    def _begin(self, sample: np.ndarray | None) -> None:
        """Go on with these rows; lambda is for all rows, so less for fewer."""
        task, here = self.task, self.products.here
        self.share = 1.0 if sample is None else sample.size / self.everything.size
        self.penalty = self.full_penalty * self.share
        self.open, self.ratio[:] = np.arange(self.bias.size), 0.0
        counts = task.sample_weight
        if sample is not None:
            counts = np.zeros_like(counts)
            counts[sample] = task.sample_weight[sample]
        self.total_weight, self.young = float(counts.sum()), 0
        if self.shares_lines and self.lines is not None:
            self.rest, self.counts = here(counts > 0.0)[:, None], here(counts)[:, None]
            return
        apart = sample is not None and not self.shares_lines
        self.numbers: Any = sample if apart else slice(None)
        counts, points = counts[self.numbers], task.points
        points = points.take(sample) if apart else points
        dtype = np.float32 if self.is_narrow else np.float64
        memory = self._memory(points.nbytes() if apart else 0.0)
        self.lines = None  # frees the lines of the last sample
        self.lines = Lines(task.kernel, points, self.products, memory, dtype)
        self.signs = here(np.ascontiguousarray(task.signs[self.numbers]))
        self.rest, self.counts = here(counts > 0.0)[:, None], here(counts)[:, None]
        self.goals = self.xp.ones(self.signs.shape)
        self.coefs = here(self.all_coefs[self.numbers].copy())
        self.outputs = self._summed(self.coefs) + here(self.bias)
        self.mass = self._host(abs(self.coefs).sum(axis=0))
        self.slack = self.goals - self.signs * self.outputs
        self.dual = np.zeros((2, self.bias.size))

    def _leave(self) -> None:
        self.all_coefs[:] = 0.0
        self.all_coefs[self.numbers] = self._host(self.coefs)

    def _host(self, array: Any) -> np.ndarray:
        return np.asarray(self.products.host(array))

    def _summed(self, coefs: Any) -> Any:
        """The kernel matrix times coefficients."""
        used = np.flatnonzero(self._host((coefs != 0.0).any(axis=1)))
        self.lines.keep(used)
        return self.lines.times(used, coefs[self.products.index(used)])

    # -------------------------------------------------------------------------------------- a round
    def _descend(self, most: int, wanted: float, advance: Callable[..., None]) -> None:
        """Steps until the ratio of each problem is as ``wanted``, or nothing is left to gain."""
        final = self.share == 1.0
        exact = final and self.everything.size**2 <= SMALL
        lowest = np.full(self.bias.size, np.inf)
        idle = np.zeros(self.bias.size, int)
        for _ in range(most):
            moved = self._step()
            self._measure()
            self.steps += final
            if final:
                advance(1, note=f"{100 * self.ratio.min():.2f} % certified")
            now = self.value[self.open]
            idle[self.open] = np.where(
                now < (1.0 - GAIN) * lowest[self.open], 0, idle[self.open] + 1
            )
            lowest[self.open] = np.minimum(lowest[self.open], now)
            unsolved = (self.ratio[self.open] < wanted) | (exact and moved)
            self.open = self.open[unsolved & (idle[self.open] < PATIENCE)]
            if not self.open.size:
                return

    def _step(self) -> bool:
        """One step of each open problem; did rows change their states?"""
        task, xp, index = self.task, self.xp, self.products.index
        count = self.open.size
        columns = index(self.open)
        signs, goals, slack = (each[:, columns] for each in (self.signs, self.goals, self.slack))
        between = (slack > 0.0) & (slack < self.limit) & self.rest
        beyond = (slack >= self.limit) & self.rest
        after = xp.zeros(signs.shape)
        bias = self.bias[self.open].copy()
        aims = signs * goals
        if self.limit < np.inf:
            after = xp.where(beyond, signs * self.counts * (self.limit / self.penalty), 0.0)
            aims = aims - self._summed(after)
        fixed = self._host(after.sum(axis=0))
        chosen = self._host(between)
        if self.young < YOUNG and self.limit == np.inf and self.products.keeps_lines:
            chosen = chosen & ((self.coefs[:, columns] != 0.0) | (slack > NEARLY))
        self.young += 1
        self.lines.keep(np.flatnonzero(chosen.any(axis=1)))
        ridges = self.penalty / task.sample_weight[self.numbers].clip(min=1e-300)
        groups: dict[bytes, list[int]] = {}
        for k in range(count):
            groups.setdefault(chosen[:, k].tobytes(), []).append(k)
        for k, active, wanted, ones in self._solutions(groups.values(), chosen, ridges, aims):
            if not active.size:
                bias[k] += np.sign(fixed[k]) * task.intercept
                continue
            if task.intercept:
                bias[k] = (float(wanted.sum()) + fixed[k]) / float(ones.sum())
                wanted = wanted - bias[k] * ones
            after[index(active), k] = wanted
        return self._go(columns, after, bias, between)

    def _solutions(
        self, groups: Iterable[list[int]], chosen: np.ndarray, ridges: np.ndarray, aims: Any
    ) -> Iterator[tuple[int, np.ndarray, Any, Any]]:
        """Of each problem its number and the rows in its system ``K + diag(ridges)``, and the
        inverse of this times the aims, and times ones.

        Problems of a group have the same rows, as all have in the first step.
        """
        systems = []
        for group in groups:
            active = np.flatnonzero(chosen[:, group[0]])
            if not active.size:
                yield from ((k, active, None, None) for k in group)
            elif active.size > self.products.most_factorised:
                given = self.products.here(ridges[active]), self._sides(group, active, aims)
                yield from _columns(group, active, self._gradients(active, *given))
            else:
                systems.append((group, active))
        solved = self.products.each_solved(
            [active.size for _, active in systems],
            lambda n: self._system(*systems[n], ridges, aims),
        )
        for (group, _), (active, found) in zip(systems, solved, strict=True):
            for more in (1.0, 64.0):  # times what rounding may have made of a zero eigenvalue
                if found is None:
                    found = self._solved_again(group, active, ridges, aims, more)
            if found is None:
                raise ValueError(
                    "The kernel matrix is not positive semidefinite: MaxMargin needs a kernel that "
                    "satisfies Mercer's condition."
                )
            yield from _columns(group, active, found)

    def _sides(self, group: list[int], active: np.ndarray, aims: Any) -> Any:
        """The aims of these rows and problems, and ones."""
        rows, columns = self.products.index(active), self.products.here(np.array(group))
        sides = self.xp.ones((active.size, len(group) + 1))
        sides[:, :-1] = aims[rows[:, None], columns[None, :]]
        return sides

    def _solved_again(
        self, group: list[int], active: np.ndarray, ridges: np.ndarray, aims: Any, more: float
    ) -> Any:
        """With so many times the rounding of eigenvalues added to the diagonal."""
        rounding = (self._unit() + self._narrow() * active.size) * self.largest
        matrix, given = self.lines.between(active), ridges + more * rounding
        solved = self.products.each_solved(
            [active.size], lambda _: self._system(group, active, given, aims, matrix)
        )
        return next(iter(solved))[1]

    def _system(
        self,
        group: list[int],
        active: np.ndarray,
        ridges: np.ndarray,
        aims: Any,
        matrix: Any = None,
    ) -> tuple[np.ndarray, Any, Any]:
        """The rows of a system, its matrix and its right sides; all active rows, if given K."""
        if matrix is None and len(group) == 1 and self._is_loose(active, group[0]):
            active, matrix = self._tightened(active, group[0], ridges)
        elif matrix is None:
            matrix = self.lines.between(active)
        ends = self.xp.arange(active.size)
        matrix[ends, ends] += self.products.here(ridges[active])
        return active, matrix, self._sides(group, active, aims)

    def _is_loose(self, active: np.ndarray, k: int) -> bool:
        """Are many rows active that have no coefficients yet, so that most will rest again?"""
        c = self.open[k]
        if not (self.products.keeps_lines and self.limit == np.inf and self.lower[c]):
            return False
        new = np.count_nonzero(self.coefs[active, c] == 0.0)
        return bool(LOOSE * active.size < new)

    def _tightened(
        self, active: np.ndarray, k: int, ridges: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The rows with coefficients after some passes of dual ascent, and their kernel matrix."""
        c, matrix = self.open[k], self.lines.between(active)
        signs, goals = self.signs[active, c], self.goals[active, c]
        alphas = np.maximum(signs * self.coefs[active, c], 0.0)
        # In the type of the matrix: another one would copy all of it.
        outputs = (matrix @ (signs * alphas).astype(matrix.dtype)).astype(float) + self.bias[c]
        intercept = self.largest if self.task.intercept else 0.0
        given = matrix, signs, goals, ridges[active], intercept, PASSES
        newton_passes.ascend_by_matrix(*given, alphas, outputs)
        kept = np.flatnonzero(alphas)
        if not kept.size:  # rounding leaves none of them a coefficient
            return active, matrix
        flat = matrix.reshape(-1)
        compress(matrix, kept, flat)
        return active[kept], flat[: kept.size**2].reshape(kept.size, kept.size)

    def _gradients(self, active: np.ndarray, ridges: Any, sides: Any) -> Any:
        """The solution of a system by conjugate gradients, all sides together."""
        xp, index = self.xp, self.products.index
        places = index(active)
        scale = (self.largest + ridges)[:, None]
        found = xp.zeros(sides.shape)
        left, line = sides.copy(), sides / scale
        size = (left * line).sum(axis=0)
        enough = RESIDUAL**2 * (left * left).sum(axis=0)
        for _ in range(MOST_GRADIENTS):
            curved = self.lines.times(active, line)[places] + ridges[:, None] * line
            amount = size / xp.maximum((line * curved).sum(axis=0), 1e-300)
            found = found + amount * line
            left = left - amount * curved
            if bool(((left * left).sum(axis=0) <= enough).all()):
                break
            scaled = left / scale
            before, size = size, (left * scaled).sum(axis=0)
            line = scaled + (size / xp.maximum(before, 1e-300)) * line
        return found

    def _go(self, columns: Any, after: Any, bias: np.ndarray, between: Any) -> bool:
        """Go towards these coefficients, as far as it is best."""
        xp, here = self.xp, self.products.here
        signs = self.signs[:, columns]
        most = self.counts * (self.limit / self.penalty) if self.limit < np.inf else np.inf
        alphas = xp.minimum(xp.maximum(signs * after, 0.0), most)
        # Coefficients that are no point of the dual are left out there.
        left_out, count = after - signs * alphas, signs.shape[1]
        measures = self.is_narrow and self.share == 1.0
        parts = [xp.maximum(after, 0.0), xp.minimum(after, 0.0)] if measures else [after]
        if bool(left_out.any()):
            parts.append(left_out)
        sums = self._summed(xp.concatenate(parts, axis=1))
        inner, mass = sums[:, :count], self._host(abs(after).sum(axis=0))
        reach = self._coarse_reach(mass)
        if measures:
            positive, negative = inner, sums[:, count : 2 * count]
            inner, reach = positive + negative, self._reach(abs(after), positive - negative)
        of_alphas = inner - sums[:, -count:] if len(parts) > 1 + measures else inner
        self._prove(signs, alphas, of_alphas, abs(left_out).sum(axis=0), reach[1])
        outputs = inner + here(bias)
        before, coefs = self.outputs[:, columns], self.coefs[:, columns]
        offset, there = here(self.bias[self.open]), here(bias)
        slack = self.slack[:, columns]
        change = signs * (outputs - before)
        here_now = (coefs * (before - offset)).sum(axis=0)
        across = (coefs * (outputs - there)).sum(axis=0)
        beyond = (after * (outputs - there)).sum(axis=0)
        counts = xp.where(self.rest, self.counts, 0.0)
        lengths = xp.ones(signs.shape[1])
        lower = self._inner(beyond, slack - change, counts) < self._inner(here_now, slack, counts)
        if not bool(lower.all()):
            lengths = best_steps(
                *(xp, slack, change, counts, self.limit, self.penalty),
                across - here_now,
                xp.maximum(beyond - 2.0 * across + here_now, 0.0),
            )
            # Where the whole step gains nothing, the best one is shorter, but for rounding.
            lengths = xp.where(lower, 1.0, xp.minimum(lengths, 1.0))
        self.lower[self.open] = self._host(lower)
        whole = lengths == 1.0
        self.coefs[:, columns] = xp.where(whole, after, coefs + lengths * (after - coefs))
        self.outputs[:, columns] = xp.where(whole, outputs, before + lengths * (outputs - before))
        new = xp.where(whole, self.goals[:, columns] - signs * outputs, slack - lengths * change)
        self.slack[:, columns] = new
        t = self._host(lengths)
        self.age[self.open] = np.where(t == 1.0, 0, self.age[self.open] + 1)
        still = self.bias[self.open]
        self.bias[self.open] = np.where(t == 1.0, bias, still + t * (bias - still))
        self.mass[self.open] = np.where(t == 1.0, mass, np.maximum(self.mass[self.open], mass))
        coarse = self._coarse_reach(self.mass[self.open])
        self.reach[:, self.open] = np.where(t == 1.0, reach, coarse)
        now = (new > 0.0) & (new < self.limit) & self.rest
        changed = self._host((now != between).any(axis=0)) | (np.abs(t - 1.0) > 1e-6)
        return bool(changed.any())

    def _coarse_reach(self, mass: np.ndarray) -> np.ndarray:
        """`reach`, given the sums of absolute coefficients."""
        return self.largest * np.stack([np.sqrt(self.total_weight) * mass, mass**2])

    def _reach(self, sizes: Any, sums: Any) -> np.ndarray:
        """`reach`, given absolute coefficients and the kernel matrix times these."""
        counts = self.xp.where(self.rest, self.counts, 0.0)
        norms = self.xp.sqrt((counts * sums * sums).sum(axis=0))
        return self._host(self.xp.stack([norms, (sizes * sums).sum(axis=0)]))

    def _inner(self, squares: Any, slack: Any, counts: Any) -> Any:
        """Twice mu times the value of the present objective."""
        positive = self.xp.maximum(slack, 0.0)
        within = self.xp.minimum(positive, self.limit)
        return self.penalty * squares + (counts * within * (2.0 * positive - within)).sum(axis=0)

    def _prove(
        self, signs: Any, alphas: Any, outputs: Any, left_out: Any, reach: np.ndarray
    ) -> None:
        """The masses and squares of dual points of the open problems, given their outputs.

        These are what is left where coefficients of the mass ``left_out`` have been taken away.
        """
        xp = self.xp
        mine, theirs = xp.where(signs > 0.0, alphas, 0.0), xp.where(signs < 0.0, alphas, 0.0)
        hidden = self.penalty / xp.where(self.rest, self.counts, 1.0)
        numbers = [
            mine.sum(axis=0),
            theirs.sum(axis=0),
            (mine * outputs).sum(axis=0),
            -(theirs * outputs).sum(axis=0),
            (hidden * mine * mine).sum(axis=0),
            (hidden * theirs * theirs).sum(axis=0),
            left_out,
        ]
        found = self._host(xp.stack(numbers))
        for k, c in enumerate(self.open):
            mass, square = self._dual_point(*found[:, k])
            self.dual[:, c] = mass, square + 2.0 * self._narrow() * reach[k]

    def _dual_point(
        self,
        a: float,
        b: float,
        along: float,
        back: float,
        hidden_own: float,
        hidden_rest: float,
        left_out: float,
    ) -> tuple[float, float]:
        """The mass of a dual point, at most, and its squared length, at least.

        Let ``v = u - w`` be the sum of both classes, of masses ``a`` and ``b``. Given are the
        products ``v.u`` and ``-v.w``, whose sum is ``v.v``, and what private coordinates add. Where
        ``a > b`` the point is ``v - t u`` with ``t = 1 - b / a``, and ``|t u|`` is at most
        ``a - b`` times the largest length; the same holds for ``b > a``.
        """
        p, q = hinge_bounds.balanced(np.array([a, b]), self.task.intercept)
        unit = self._unit() * self.largest
        square = along + back - 2.0 * ((1.0 - p) * along + (1.0 - q) * back)
        square += self.largest * ((1.0 - p) * a + (1.0 - q) * b) ** 2
        square = max(square, 0.0) + unit * (a + b) * (a + b + 2.0 * left_out)
        if not (self.is_hinge or self.is_hard):
            square += (p * p * hidden_own + q * q * hidden_rest) * (1.0 + 1e-12)
        return float(p * a + q * b), float(square)

    def _unit(self) -> float:
        """How much kernel values, and sums of them, may be rounded, relative to the largest."""
        if not hasattr(self, "_rounding"):
            self._rounding = self.products.rounding(self.task.kernel, self.task.points)
        return self._rounding + ROUNDING * (self.everything.size + 16.0)

    def _narrow(self) -> float:
        """How much values have changed by the rounding of lines, relatively."""
        return NARROW if self.is_narrow else 0.0

    def _measure(self) -> None:
        """Values of the objective, margins and bounds, of the open problems."""
        task, xp = self.task, self.xp
        if not hasattr(self, "value"):
            size = self.bias.size
            self.value, self.margins, self.bounds = np.empty((3, size))
            self.reached = np.zeros(size, bool)
        columns = self.products.index(self.open)
        coefs, outputs = self.coefs[:, columns], self.outputs[:, columns]
        bias = self.products.here(self.bias[self.open])
        squares = self._host((coefs * (outputs - bias)).sum(axis=0))
        slack, goals = self.slack[:, columns], self.goals[:, columns]
        counts = xp.where(self.rest, self.counts, 0.0)
        lacking = xp.maximum(slack - (goals - 1.0), 0.0)
        power = lacking if self.is_hinge else lacking * lacking
        losses = self._host((counts * power).sum(axis=0))
        masses = self.mass[self.open]
        unit = self._unit() * (self.age[self.open] + 2.0)
        errors = unit * self.largest * masses + 8.0 * ROUNDING * (1.0 + abs(self.bias[self.open]))
        norms, forms = self._narrow() * (self.age[self.open] + 1.0) * self.reach[:, self.open]
        errors += norms / np.sqrt(self.total_weight)
        squares = np.maximum(squares, 0.0) + unit * self.largest * masses**2 + forms
        given_squares = self.products.here(squares)
        self.value[self.open] = self._host(self._inner(given_squares, slack, counts))
        penalty = task.penalty * self.share
        for k, c in enumerate(self.open.tolist()):
            mass, square = self.dual[:, c]
            given: Any = {
                "square": squares[k],
                "losses": losses[k],
                "total_weight": self.total_weight,
                "error": errors[k],
                "rows": self.everything.size,
                "penalty": penalty,
            }
            if self.is_hinge:
                margin = hinge_bounds.as_margin(hinge_bounds.highest_value(**given))
                dual = hinge_bounds.dual_value((1.0 - RELATIVE_SLACK) * mass, square)
                bound = hinge_bounds.as_margin(max(dual, 0.0)) * (1.0 + RELATIVE_SLACK)
            else:
                margin = (
                    self._hard_margin(c, squares[k], errors[k])
                    if self.is_hard
                    else soft_margin_of_square(**given)
                )
                bound = np.inf if mass <= 0.0 else np.sqrt(square) / mass * (1.0 + RELATIVE_SLACK)
            self.margins[c], self.bounds[c] = margin, bound
            known = margin > 0.0 and 0.0 < bound < np.inf
            self.ratio[c] = margin / bound if known else 0.0
            self.reached[c] = known and margin >= (1.0 - task.tol) * bound

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
        lowest = 0.5 * (own + rest) if self.task.intercept else min(own, rest)
        return float((lowest - error) / np.sqrt(square)) if square > 0.0 else 0.0

    def _multiply(self, advance: Callable[..., None]) -> None:
        """Rounds with a falling penalty, and goals that make up for it."""
        task = self.task
        waiting = self.open
        for _ in range(HINGE_ROUNDS if self.is_hinge else ROUNDS):
            self._round(advance)
            settled = self.reached | (
                self.is_hard & (self.bounds <= NOTHING * np.sqrt(self.largest))
            )
            self.open = waiting = waiting[~settled[waiting]]
            if not waiting.size or self.steps >= task.max_iter:
                break
            self._raise_goals()
        if self.is_hard and task.intercept:
            for c in range(self.bias.size):
                own, rest = self._lowest(c)
                self.bias[c] += 0.5 * (rest - own)

    def _round(self, advance: Callable[..., None]) -> None:
        """Steps until nothing changes with this penalty."""
        lowest = np.full(self.bias.size, np.inf)
        for _ in range(HINGE_STEPS if self.is_hinge else STEPS_PER_ROUND):
            moved = self._step()
            self._measure()
            self.steps += 1
            advance(1, note=f"{100 * self.ratio.min():.2f} % certified")
            now = self.value[self.open]
            gains = now < (1.0 - LEAST_GAIN) * lowest[self.open]
            lowest[self.open] = now
            self.open = self.open[~self.reached[self.open] & gains]
            if not self.open.size or not moved or self.steps >= self.task.max_iter:
                return

    def _raise_goals(self) -> None:
        """The next round: coefficients stay what they are, as the penalty falls."""
        xp, columns = self.xp, self.products.index(self.open)
        slack = self.slack[:, columns]
        coefs = xp.minimum(xp.maximum(slack, 0.0), self.limit) / self.penalty
        outputs = self.goals[:, columns] - slack
        fall = FALL if self.is_hard else HINGE_FALL if self.limit > LEAST_LIMIT else 1.0
        self.penalty, self.limit = self.penalty * fall, self.limit * fall
        self.goals[:, columns] = 1.0 + self.penalty * coefs
        self.slack[:, columns] = self.goals[:, columns] - outputs

    # ---------------------------------------------------------------- other lambdas, and fewer rows
    @property
    def has_factors(self) -> bool:
        """Are systems solved by factors, which `left_out` needs?"""
        return self.everything.size <= self.products.most_factorised

    def go_on_with(self, penalty: float) -> None:
        """Another lambda, from where `finish` ended."""
        self.task = self.task._replace(penalty=penalty)
        self.penalty = self.full_penalty = penalty
        self.open, self.steps, self.ratio[:] = np.arange(self.bias.size), 0, 0.0

    def left_out(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `models.newton_solver.Newton.left_out`, of the squared hinge loss, on the host."""
        rows, weights = self.everything[places], self.task.sample_weight
        chosen = (self.slack > 0.0) & self.rest
        self.lines.keep(np.flatnonzero(chosen.any(axis=1)))
        after, bias, shares = self.coefs.copy(), self.bias.copy(), np.ones(chosen.shape)
        groups: dict[bytes, list[int]] = {}
        for c in range(self.bias.size):
            groups.setdefault(chosen[:, c].tobytes(), []).append(c)
        for group in map(np.array, groups.values()):
            active = np.flatnonzero(chosen[:, group[0]])
            if active.size:
                after[:, group] = 0.0
                there = np.ix_(active, group)
                after[there], bias[group], shares[there] = self._at_active(active, group)
        slack = 1.0 - self.signs * (self._summed(after) + bias)
        squares = np.where(chosen, slack * slack, 0.0)
        losses = np.stack([weights @ squares, weights[rows] @ squares[rows]], axis=1)
        return (1.0 - slack / shares)[rows].T, losses

    def _at_active(
        self, active: np.ndarray, group: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Coefficients and intercepts of problems with these active rows, and their ``1 - h``.

        NaN where rounding leaves no system to solve. See `leave_one_out`.
        """
        own = self.penalty / self.task.sample_weight[active]
        system = self.lines.between(active).astype(float, copy=False)
        system[np.diag_indices(active.size)] += own
        if (factor := cholesky(system)) is None:
            unknown = np.full((1, group.size), np.nan)
            return unknown, unknown[0], unknown
        sides = np.column_stack([self.signs[np.ix_(active, group)], np.ones(active.size)])
        found, _ = dpotrs(factor, sides, lower=1)
        wanted, ones, bias = found[:, :-1], found[:, -1:], np.zeros(group.size)
        if self.task.intercept:
            bias = wanted.sum(axis=0) / ones.sum()
        shares = remainders_of_products(factor, own, self.task.intercept)
        return wanted - bias * ones, bias, shares[:, None]

    def mistakes(self) -> np.ndarray:
        """In how many problems each row that counts is on the wrong side."""
        return np.asarray((self.slack >= 1.0).sum(axis=1)[self.everything])

    def signed_outputs(self, numbers: np.ndarray) -> np.ndarray:
        """``y f(x)`` of these rows, which need not be among those that count."""
        return np.asarray((self.signs * self.outputs)[numbers].T)

    # -------------------------------------------------------------------------------------- the end
    def _solution(self) -> KernelSolution:
        return KernelSolution(
            np.ascontiguousarray(self._host(self.coefs).T),
            self.bias * self.task.intercept,
            self.margins,
            self.bounds,
            self.steps,
            self.reached,
        )


def _columns(
    group: list[int], active: np.ndarray, found: Any
) -> Iterator[tuple[int, np.ndarray, Any, Any]]:
    """What `_solutions` gives of each problem, by the solutions of their common system."""
    return ((k, active, found[:, n], found[:, -1]) for n, k in enumerate(group))


def best_steps(
    xp: Any,
    slack: Any,
    change: Any,
    counts: Any,
    limit: float,
    penalty: float,
    slope: Any,
    curvature: Any,
) -> Any:
    """`core.newton_passes.best_step` for all columns, by functions that devices have."""
    low, high = xp.zeros(slope.shape), xp.full(slope.shape, np.inf)
    t = xp.ones(slope.shape)
    weighted = counts * change
    for _ in range(60):
        left = slack - t * change
        pull = xp.where(left > 0.0, weighted, 0.0)
        first = penalty * (slope + t * curvature) - (pull * xp.minimum(left, limit)).sum(axis=0)
        second = penalty * curvature + xp.where(left < limit, pull * change, 0.0).sum(axis=0)
        low, high = xp.where(first < 0.0, t, low), xp.where(first < 0.0, high, t)
        after = t - first / xp.maximum(second, 1e-300)
        over = ((abs(after - t) <= 1e-9 * t) & (second > 0.0)) | (first == 0.0)
        outside = ~((low < after) & (after < high))
        after = xp.where(outside, xp.where(high < np.inf, 0.5 * (low + high), 2.0 * t), after)
        t = xp.where(over, t, after)
        if bool(over.all()):
            break
    return t
