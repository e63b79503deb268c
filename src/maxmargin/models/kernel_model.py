"""Kernel models: supporting rows and their coefficients.

Memory: the supporting rows; during a fit two numbers per row and problem; and at most `cache_size`
for the Gram matrix of a block and lines of the full one. See `kernel_fit` for how rows are learned.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.certificates import bounds, convex_combinations, joint_bounds
from maxmargin.core.array_fields import NEVER, Array, Saved, blank, changed, grown, own_arrays
from maxmargin.core.joint_loop import learn_jointly
from maxmargin.core.loop import learn
from maxmargin.core.rows import Tail
from maxmargin.core.targets import of_rows
from maxmargin.core.trace import NO_TRACE, Trace
from maxmargin.kernels.cuda import CudaProducts
from maxmargin.kernels.functions import (
    KERNELS,
    LARGEST_ROUNDING,
    MOST_DENSE_VALUES,
    Kernel,
    UserKernel,
    finite_diagonal,
)
from maxmargin.kernels.growable_array import appended, growable_of
from maxmargin.kernels.points import Points, library_of
from maxmargin.kernels.products import CHUNK, Products
from maxmargin.models.base import Beginning, Built, OnlineModel, build_for, new_tally
from maxmargin.models.kernel_fit import KernelFit, KernelSpace, RowBlock
from maxmargin.models.linear_model import new_joint_space
from maxmargin.models.model_formulas import Formula, kernel_formula
from maxmargin.models.spec import BudgetSpec, ExpansionSpec, KernelSpec
from maxmargin.spaces.certificate_vectors import PAST, Past, mean_weights
from maxmargin.spaces.linear_space import LinearSpace
from maxmargin.spaces.pair_space import NOBODY, POSITIVE, PairSpace
from maxmargin.spaces.problem_scalars import ALL_COEFFICIENTS, AWAITING, Scalars

# From this number of training rows on, kernel values are float32 by default.
MANY_ROWS = 5000
# An intercept is summed separately if its square exceeds those of rows by this factor.
LARGEST_SHARE = 100.0
# The rounding error of a squared length in a fit, relative to the squared mass of coefficients.
LOST_IN_FIT = 1e-6


def kernel_for(
    spec: KernelSpec,
    X: Any,
    products: Products,
    *,
    whole: bool,
    exact: bool = False,
    sample_weight: np.ndarray | None = None,
) -> tuple[Kernel, Points]:
    """The kernel of a specification, and the rows in its form.

    ``whole`` says that there are no other rows; ``exact`` resolves "auto" to float64. With sample
    weights, the variance of "scale" is the weighted one.
    """
    kind: type[Kernel] = KERNELS[spec.kernel] if isinstance(spec.kernel, str) else UserKernel
    if kind.only_in_fit:
        precomputed = kind(0.0, 0.0, 0.0, np.float64)
        precomputed = precomputed.for_fit(X) if whole else precomputed
        return precomputed, products.points(precomputed, X)
    gamma = gamma_for(spec, X, sample_weight)
    center = None if sparse.issparse(X) else products.host(X[0]).astype(np.float64)

    def kernel_in(dtype: Any) -> tuple[Kernel, Points]:
        adapts = spec.kernel_dtype == "auto" and dtype == np.float32
        numbers = gamma, float(spec.degree), float(spec.coef0)
        kernel = kind(*numbers, dtype, center, adapts).with_function(spec.kernel)
        return kernel, products.points(kernel, X)

    if spec.kernel_dtype != "auto":
        return kernel_in(np.dtype(spec.kernel_dtype))
    if exact:
        return kernel_in(np.float64)
    # In a stream only the dtype of rows decides, not the values of the first ones.
    single = X.dtype == np.float32 or (whole and X.shape[0] >= MANY_ROWS)
    if single:
        kernel, rows = kernel_in(np.float32)
        if not whole or kernel.rounding(rows) < LARGEST_ROUNDING:
            return kernel, rows
    return kernel_in(np.float64)


def gamma_for(spec: KernelSpec, X: Any, sample_weight: np.ndarray | None) -> float:
    """The value of the parameter `gamma` for these rows."""
    width = X.shape[1]
    if spec.gamma == "auto":
        return 1.0 / width
    if spec.gamma == "scale":
        spread = variance(X, sample_weight)
        return 1.0 / (width * spread) if spread > 0.0 else 1.0
    if spec.gamma == "first":
        # The variance of a few values is uncertain: assume one more value, with variance 1.
        # A row of equal values has no information.
        spread = (width * (variance(X[:1]) or 1.0) + 1.0) / (width + 1.0)
        return 1.0 / (width * spread)
    return float(spec.gamma)


def variance(X: Any, sample_weight: np.ndarray | None = None) -> float:
    """The (weighted) variance of all entries, as in `sklearn.svm.SVC`."""
    if sample_weight is not None and (sample_weight != sample_weight[0]).any():
        shares: Any = sample_weight / (sample_weight.sum() * X.shape[1])
        if sparse.issparse(X):
            return float((shares @ X.multiply(X)).sum() - (shares @ X).sum() ** 2)
        shares = library_of(X).asarray(shares)
        mean = float((shares @ X).sum())
        total, step = 0.0, max(1, MOST_DENSE_VALUES // max(1, X.shape[1]))
        for start in range(0, X.shape[0], step):
            part = slice(start, start + step)
            total += float((shares[part] @ (X[part] - mean) ** 2).sum())
        return total
    if sparse.issparse(X):
        return float(X.multiply(X).mean() - X.mean() ** 2)
    return float(X.var())


class Supports(NamedTuple):
    """Supporting rows.

    ``numbers`` are row numbers of a fit or trials of a stream, ``labels`` class codes, ``diagonal``
    has ``|phi(x)|**2``. Coefficients, and ``marks``, those at the last two snapshots, are over the
    scale. ``averages`` are the sums behind averaged coefficients; empty without averaging.
    """

    points: Annotated[Points, Saved()]
    numbers: Annotated[np.ndarray, Array("supports", dtype=np.int64)]
    labels: Annotated[np.ndarray, Array("supports", dtype=np.int32, below="classes")]
    diagonal: Annotated[np.ndarray, Array("supports")]
    coefs: Annotated[np.ndarray, Array("problems", "supports")]
    marks: Annotated[np.ndarray, Array(2, "problems", "supports")]
    averages: Annotated[np.ndarray, Array("problems", "supports", optional=True)]

    def take(self, kept: Any) -> Supports:
        some: Supports = changed(self, lambda _, array: array[..., kept])
        return some._replace(points=self.points.take(kept))


class Ahead(NamedTuple):
    """The next rows to learn, and their sums over the supports, which had these coefficients."""

    points: Points
    coefs: np.ndarray
    sums: Any


def are_positive(labels: np.ndarray, problems: int) -> np.ndarray:
    """Which rows are positive, for each problem."""
    classes = np.arange(problems) if problems > 1 else np.ones(1)
    return labels == classes[:, None]


def smallest_margins(outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The smallest ``y f(x)``, for each problem."""
    return np.where(are_positive(labels, outputs.shape[0]), outputs, -outputs).min(axis=1)


class SupportModel(OnlineModel):
    """Weight vectors ``w = sum_k a_k phi(x_k)`` over supporting rows in the space of a kernel."""

    kernel: Annotated[Kernel, Saved()]
    products: Products  # computes kernel values
    spec: ExpansionSpec | BudgetSpec
    scalars: Scalars
    _width: int
    _bounds: np.ndarray | None

    has_supports = True

    def __init__(
        self,
        spec: ExpansionSpec | BudgetSpec,
        problems: int,
        width: int,
        tail: Tail,
        kernel: Kernel,
        products: Products,
    ) -> None:
        self.spec, self.tail, self.kernel, self.products = spec, tail, kernel, products
        self.tally, self.scalars = new_tally(), blank(Scalars, {"problems": problems})
        self.scalars.table.next_mark = NEVER  # coefficients make snapshots of vectors unnecessary
        self._width, self._bounds = width, None
        self._new_arrays()

    def _new_arrays(self) -> None:
        """Allocate the arrays of a subclass."""

    def problems(self) -> int:
        return self.scalars.table.size

    def width(self) -> int:
        return self._width

    @property
    def shift(self) -> float:
        """Added to all kernel values."""
        return self.tail.offset**2

    def invalid_reason(self) -> str:
        known = self._bounds is None or self._bounds.shape == (self.n_margins(),)
        return "" if known else "bounds: there is not one for each problem"

    def updates(self) -> int:
        updates = self.scalars.table.updates
        return int(updates[0] if self.is_joint else updates.sum())

    def _leads(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The smallest lead, or ``y f(x)`` of each problem, of rows with these outputs."""
        if self.is_joint:
            return np.array([joint_bounds.joint_leads(outputs, labels)])
        return smallest_margins(outputs, labels)

    def rows(self, X: Any, sample_weight: np.ndarray | None = None) -> Points:
        return self.weighted(self.products.points(self.kernel, X), sample_weight)

    def fit_rows(self, X: Any, sample_weight: np.ndarray | None = None) -> Points:
        self.kernel = self.kernel.for_fit(X)
        return self.rows(X, sample_weight)

    @abstractmethod
    def weighted(self, points: Points, sample_weight: np.ndarray | None) -> Points:
        """The rows with weights, if there is a soft margin through which they act."""

    def continued(self) -> OnlineModel:
        model: Any = self.copy()
        model.scalars.table.bound = np.inf
        model.scalars.table.certifiable = AWAITING  # unless a fit has the same rows
        return model

    def check_can_stream(self) -> None:
        if self.kernel.only_in_fit:
            raise ValueError("partial_fit cannot use kernel='precomputed': pass rows and a kernel.")

    @abstractmethod
    def weights(self) -> np.ndarray:
        """The coefficients of the supporting rows, which predict."""

    def coefficients(self) -> np.ndarray:
        raise AttributeError("coef_ is only there with kernel='linear'; see dual_coef_.")

    def intercepts(self) -> np.ndarray:
        return self.shift * self.weights().sum(axis=1) + self.free_intercepts()

    def free_intercepts(self) -> np.ndarray:
        """Intercepts that are not part of the kernel."""
        return np.zeros(self.problems())

    @abstractmethod
    def support_points(self) -> Points:
        """The supporting rows, as the kernel takes them."""

    @abstractmethod
    def support_numbers(self) -> np.ndarray:
        """The row numbers of supports in a fit, or their trials in a stream."""

    def support_rows(self) -> Any:
        """The supporting rows; none with a precomputed kernel."""
        return np.empty((0, 0)) if self.kernel.only_in_fit else self.support_points().X

    def outputs(self, X: Any) -> np.ndarray:
        given = self.kernel, self.weights(), self.support_points()
        outputs = np.empty((X.shape[0], self.problems()))
        for start in range(0, X.shape[0], CHUNK):
            part = slice(start, start + CHUNK)
            points = self.products.new_points(self.kernel, X[part])
            outputs[part] = self.products.weighted_sums(*given, points, self.shift).T
        return outputs + self.free_intercepts()

    def formula(self, features: int) -> Formula:
        given = self.kernel, self.support_points(), self.weights(), self.intercepts()
        return kernel_formula(*given, features)


class KernelModel(SupportModel):
    """Weight vectors ``w = sum_k a_k phi(x_k)`` over any number of supporting rows."""

    spec: ExpansionSpec
    scalars: Annotated[Scalars, Saved()]
    past: Past
    # The ids of the other rows that steps move along (see `PairKernelModel`).
    members: Annotated[
        np.ndarray,
        Array("problems", 2, dtype=np.int64, optional=True, at_least=NOBODY, below="supports"),
    ]
    next_mark: Annotated[int, Saved()]
    _bounds: Annotated[np.ndarray | None, Array("n_margins", name="bounds", optional=True)]
    supports: Annotated[Supports | None, Saved()]

    loop = staticmethod(learn)

    def _new_arrays(self) -> None:
        problems = self.problems()
        self.past = np.zeros(problems if self.spec.average else 0, PAST).view(np.recarray)
        self.members = np.empty((0, 2), dtype=np.int64)
        self.next_mark = 1
        self.training: KernelFit | None = None
        self.supports = None

    def space(self) -> KernelSpace:
        computed, counted = (self.kernel, self.products, self.tail), (self.scalars, self.tally)
        return KernelSpace(
            *computed, *counted, self.past, self.members, self.space_over, type(self).loop
        )

    def space_over(self, linear: LinearSpace, places: np.ndarray) -> Any:
        """The space of the compiled loop, given the places of the members."""
        return linear

    # ------------------------------------------------------------------------------------ learning
    def weighted(self, points: Points, sample_weight: np.ndarray | None) -> Points:
        if sample_weight is None or self.tail.private == 0.0:
            return points
        return points.with_sample_weight(sample_weight)

    def begin_fit(self, rows: Points) -> None:
        """Begin a fit; old supports, which must be among the rows, are kept."""
        self.training = KernelFit(self.space(), rows, 1e6 * self.spec.kernel.cache_size)
        self.scalars.table.certifiable = ALL_COEFFICIENTS
        old = self.supports
        if old is not None and old.numbers.size:
            self.training.resume(old.points, old.numbers, old.coefs, old.marks, old.averages)

    def ceiling(self, rows: Any, radius: float) -> float:
        assert self.training is not None
        largest = bounds.radius_of_features(self.training.diagonal.max(), self.tail.offset)
        return bounds.ceiling(largest, joint=self.is_joint)

    def end_fit(self) -> None:
        """Keep the supporting rows and release the others."""
        training = self.training
        if training is None:
            return
        training.leave()
        if self.kernel.only_in_fit:
            self.bounds()  # while there are kernel values
        used = training.coefs.any(axis=0) | training.averages.any(axis=0)
        kept = self.members >= 0
        numbers = np.union1d(np.flatnonzero(used), self.members[kept])
        self.members[kept] = np.searchsorted(numbers, self.members[kept])
        supports = self._without_small(self._all_rows(training).take(numbers))
        self.supports = supports._replace(points=supports.points.bare())
        self.training, self.kernel = None, self.kernel.forget_rows()

    def copy(self) -> KernelModel:
        """An independent copy, also in the middle of a fit."""
        training, self.training = self.training, None
        try:
            other = copy.deepcopy(self, {id(self.spec): self.spec})  # its kernel is the user's
        finally:
            self.training = training
        if training is not None:
            other.training = training.over(other.space())
        return other

    def streaming(self, rows: int, owned: bool = False) -> KernelModel:
        self.check_can_stream()
        # Supports are replaced by learning, never changed.
        model: KernelModel = own_arrays(self, shared="supports")
        return model

    def grown(self, width: int, which: Sequence[int], codes: np.ndarray) -> KernelModel:
        model = grown(self, which, width, codes=codes)
        model._width, model.kernel, model._bounds = width, self.kernel.with_width(width), None
        if model.supports is not None:
            points = model.supports.points.with_width(width)
            model.supports = model.supports._replace(points=points)
        return model

    def learn_from(
        self, rows: Points, targets: Any, order: np.ndarray, rule: Any, trace: Trace = NO_TRACE
    ) -> None:
        self._bounds = None
        if self.training is not None:
            self.training.learn_from(targets, order, rule, trace)
            if self._snapshot_is_due():
                self.training.take_snapshot()
            return
        rows = self._exact_enough(rows)
        if order.size == 0 and self.supports is None:
            self.supports = self._blank_supports(rows.take(slice(0)))
        step, ahead = self.products.block, None
        for start in range(0, order.size, step):
            places = slice(start, start + step)
            here = trace._replace(history=trace.history[places])
            following = order[start + step : start + 2 * step]
            ahead = self._present_new(rows, targets, order[places], rule, here, ahead, following)
        if self._snapshot_is_due():
            assert self.supports is not None
            marks = np.stack([self.supports.marks[1], self.supports.coefs])
            self.supports = self.supports._replace(marks=marks)

    def _exact_enough(self, rows: Points) -> Points:
        """The rows, for which the kernel switches to float64 if float32 is not exact enough."""
        before, self.kernel = self.kernel, self.kernel.exact_enough_for(rows)
        if self.kernel is before:
            return rows
        if self.supports is not None:
            old = self.supports.points
            points = self.weighted(self.kernel.points(old.X), old.sample_weight)
            self.supports = self.supports._replace(points=points)
        return self.weighted(self.products.points(self.kernel, rows.X), rows.sample_weight)

    def _snapshot_is_due(self) -> bool:
        """True whenever the number of updates has doubled, as in `spaces.linear_space`."""
        if self.updates() < self.next_mark:
            return False
        self.next_mark = 2 * self.updates()
        return True

    def _present_new(
        self,
        rows: Points,
        targets: Any,
        order: np.ndarray,
        rule: Any,
        trace: Trace,
        ahead: Ahead | None,
        following: np.ndarray,
    ) -> Ahead | None:
        """Learn from new rows, and keep those that caused an update.

        ``ahead`` was computed for these rows in advance; returns the same for the ``following``
        rows if a device can compute it meanwhile.
        """
        learning, space = order >= 0, self.space()
        order = np.where(learning, order, -1 - order)
        new = rows.take(order) if ahead is None else ahead.points
        old = self.supports or self._blank_supports(new.take(slice(0)))
        slots = np.unique(self.members[self.members >= 0])
        points = old.points.take(slots).followed_by(new)
        diagonal = space.diagonal(points)
        outputs = self._outputs_before(space, old, points, ahead)
        weights = np.zeros((self.problems(), points.size()))
        weights[:, : slots.size] = old.coefs[:, slots]
        first = old.numbers.size  # the slot of the first new row that is kept
        ids = np.concatenate([slots, first + np.arange(new.size())])
        rounding = self.kernel.rounding(points)
        values = space.gram(points, points)
        block = RowBlock(space, ids, values, rounding, diagonal, outputs, weights)
        trials = self.trials()
        block_targets = of_rows(targets, np.concatenate([np.zeros(slots.size, order.dtype), order]))
        order = np.arange(slots.size, ids.size)
        order = np.where(learning, order, -1 - order)
        coming = None
        if following.size and slots.size == 0 and self.products.works_aside:
            next_rows = rows.take(np.where(following >= 0, following, -1 - following))
            sums = space.begin_sums(old.coefs, old.points, next_rows)
            coming = Ahead(next_rows, old.coefs, sums)
        block.learn(block_targets, order, rule, trace)

        averages = old.averages - block.take_closed(old.coefs)
        averages[:, slots] += block.average[:, : slots.size]
        factors, coefs, marks = block.take_folded(), old.coefs, old.marks
        as_before = slots.size == 0 and bool((factors == 1.0).all())
        if not as_before:
            coefs, marks = coefs * factors, marks * factors
            coefs[:, slots] = weights[:, : slots.size]
        counts = weights.any(axis=0) | block.average.any(axis=0) | np.isin(ids, self.members)
        used = slots.size + np.flatnonzero(counts[slots.size :])
        later = self.members >= first
        self.members[later] = first + np.searchsorted(ids[used], self.members[later])
        number = np.cumsum(learning) - 1
        supports = Supports(
            points=old.points.grown_by(points.take(used).bare()),
            numbers=appended(old.numbers, trials + number[used - slots.size]),
            labels=appended(old.labels, block_targets.labels[used]),
            diagonal=appended(old.diagonal, diagonal[used]),
            coefs=appended(coefs, weights[:, used]),
            marks=appended(marks, np.zeros((*marks.shape[:2], used.size))),
            averages=appended(averages, block.average[:, used]),
        )
        all_count = as_before and not self.spec.smallest and self.past.size == 0
        self.supports = supports if all_count else self._without_small(supports)
        return coming

    def _outputs_before(
        self, space: KernelSpace, old: Supports, points: Points, ahead: Ahead | None
    ) -> np.ndarray:
        """The outputs of new rows: the sums computed ahead plus those over supports added since."""
        memory = growable_of(old.coefs)
        if ahead is None or memory is None or memory is not growable_of(ahead.coefs):
            return space.weighted_sums(old.coefs, old.points, points)
        since = old.take(slice(ahead.coefs.shape[1], None))
        sums = space.weighted_sums(since.coefs, since.points, points)
        return sums + space.products.host(ahead.sums)

    def _blank_supports(self, points: Points) -> Supports:
        """These points with coefficients 0."""
        sizes = {"problems": self.problems(), "supports": points.size()}
        return blank(Supports, sizes, off=() if self.past.size else ["averages"], points=points)

    def allocate(self, points: Points) -> None:
        """Make these the supports, with coefficients 0."""
        self.supports = self._blank_supports(points)

    def _without_small(self, supports: Supports) -> Supports:
        """The supports whose coefficients are not too small."""
        kept = self._counts(supports.coefs, supports.averages)
        known = self.members >= 0
        kept[self.members[known]] = True
        if kept.all():
            return supports
        self.members[known] = np.searchsorted(np.flatnonzero(kept), self.members[known])
        return supports.take(np.flatnonzero(kept))

    def _counts(self, coefs: np.ndarray, averages: np.ndarray) -> np.ndarray:
        """Which rows have coefficients that are not too small."""
        large = (coefs != 0.0) & (np.abs(coefs * self.scales()) >= self.spec.smallest)
        return large.any(axis=0) | averages.any(axis=0)

    def sum_up(self, coefs: np.ndarray, outputs: np.ndarray) -> None:
        """Recompute the squared norms, given the outputs of all supports."""
        scalars = self.scalars.table
        with np.errstate(over="ignore", invalid="ignore"):  # of weights that diverged
            scalars.norm2 = scalars.scale**2 * (coefs * outputs).sum(axis=1)
        scalars.norm_error = 0.0

    # ----------------------------------------------------------------------------- what was learned
    def scales(self) -> np.ndarray:
        return self.scalars.table.scale[:, None]

    def weights(self) -> np.ndarray:
        assert self.supports is not None
        return self._averaged(self.supports.coefs, self.supports.averages)

    def _averaged(self, coefs: np.ndarray, averages: np.ndarray) -> np.ndarray:
        scales = self.scales()
        if not self.spec.average or self.trials() == 0:
            return coefs * scales
        return mean_weights(coefs, scales[:, 0], averages, self.past, self.trials())

    def support_numbers(self) -> np.ndarray:
        return np.empty(0, dtype=np.int64) if self.supports is None else self.supports.numbers

    def support_points(self) -> Points:
        assert self.supports is not None
        return self.supports.points

    def support_rows(self) -> Any:
        return np.empty((0, 0)) if self.supports is None else super().support_rows()

    def margins(self, rows: Points, targets: Any) -> np.ndarray:
        assert self.training is not None
        self.training.labels = targets.labels
        _, outputs, squares = self.over_training_rows()
        lengths = np.sqrt(self._together(squares))
        leads = self._leads(outputs + self.free_intercepts()[:, None], targets.labels)
        return convex_combinations.measured(leads, lengths, self.scalars)

    def over_training_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Predicting weights and outputs of all training rows, and squared lengths of w.

        The lengths exclude the coordinate of the intercept.
        """
        training, space = self.training, self.space()
        assert training is not None
        training.finish()
        outputs = self.products.host(training.outputs)
        self.sum_up(training.coefs, outputs)
        shift, largest = self.shift, float(training.diagonal.max())
        # A very large intercept would cost digits of the other terms, so it is summed separately.
        is_separate = shift > LARGEST_SHARE * (largest - shift)
        if self.spec.average or self.spec.smallest or is_separate:
            weights = self._averaged(training.coefs, training.averages)
            weights[:, ~self._counts(training.coefs, training.averages)] = 0.0
            used, points = np.flatnonzero(weights.any(axis=0)), training.points
            some, within = points.take(used), 0.0 if is_separate else shift
            sums = self.products.weighted_sums(self.kernel, weights[:, used], some, points, within)
            outputs = sums + space.ridges(points) * weights
        else:
            weights, outputs = training.coefs * self.scales(), outputs * self.scales()
        squares, intercepts = (weights * outputs).sum(axis=1), weights.sum(axis=1)
        if is_separate:
            outputs = outputs + shift * intercepts[:, None]
        else:
            squares -= shift * intercepts**2
        lost = LOST_IN_FIT * (largest - shift) * np.abs(weights).sum(axis=1) ** 2
        no_kernel = (squares < -lost) & (not self.kernel.is_mercer())
        return weights, outputs, np.where(no_kernel, np.nan, np.maximum(squares, 0.0))

    def _together(self, squares: np.ndarray) -> np.ndarray:
        """The squared lengths by which margins are divided."""
        return squares

    def bounds(self) -> np.ndarray:
        """The better of two bounds: by all coefficients, or by those since a snapshot."""
        if self._bounds is None:
            supports = self._used()
            proved = np.minimum(
                self._bounds_from(supports.coefs, supports),
                self._bounds_from(supports.coefs - supports.marks[0], supports),
            )
            counts = self.scalars.table.certifiable[: proved.size] != AWAITING
            proved = np.minimum(self.scalars.table.bound[: proved.size], proved)
            self._bounds = np.where(counts, proved, np.inf)
        return self._bounds

    def _bounds_from(self, coefs: np.ndarray, supports: Supports) -> np.ndarray:
        is_positive = are_positive(supports.labels, self.problems())
        intercept = self.tail.offset > 0.0 or self.spec.has_pairs()
        mixture, proved = convex_combinations.hull_mixture(coefs, is_positive, intercept)
        return convex_combinations.mixture_bounds(self._quadratic(mixture, supports), proved)

    def _used(self) -> Supports:
        """The rows with nonzero coefficients, also in the middle of a fit."""
        training = self.training
        if training is None:
            assert self.supports is not None
            return self.supports
        training.take_over_coefficients()
        return self._all_rows(training).take(np.flatnonzero(training.coefs.any(axis=0)))

    def _all_rows(self, training: KernelFit) -> Supports:
        """All rows of a fit as supports."""
        numbers, vectors = np.arange(training.points.size()), (training.coefs, training.marks)
        rows = training.points, numbers, training.labels, training.diagonal
        return Supports(*rows, *vectors, training.averages)

    def _quadratic(self, weights: np.ndarray, supports: Supports) -> np.ndarray:
        """Upper bounds on the squared lengths of sums of supports, without the intercept."""
        diagonal = bounds.without_intercept(supports.diagonal, self.tail.offset)
        ridges = self.space().ridges(supports.points)
        return self.products.quadratic(self.kernel, weights, supports.points, diagonal, ridges)

    def is_finite(self) -> bool:
        numbers = [self.scalars.table.norm2]
        numbers += [each.coefs for each in (self.training, self.supports) if each is not None]
        return all(bool(np.isfinite(each).all()) for each in numbers)


class PairKernelModel(KernelModel):
    """Weights with a free intercept, learned from pairs of examples; see `PairSpace`."""

    bias: Annotated[np.ndarray, Array("problems")]

    def _new_arrays(self) -> None:
        super()._new_arrays()
        self.bias = np.zeros(self.problems())
        self.members = np.full((self.problems(), 2), NOBODY)

    def space_over(self, linear: LinearSpace, places: np.ndarray) -> PairSpace:
        sizes = dict(zip(("problems", "coordinates"), linear.weights.shape, strict=True))
        pair = blank(PairSpace, sizes, linear=linear, bias=self.bias, numbers=places)
        for c, side in np.argwhere(places >= 0):
            pair.members[2 * c + side, places[c, side]] = 1.0
            pair.squares[c, side] = linear.geometry.diagonal[places[c, side]]
        return pair

    def learn_from(
        self, rows: Points, targets: Any, order: np.ndarray, rule: Any, trace: Trace = NO_TRACE
    ) -> None:
        if self.training is not None:
            is_multiclass = self.problems() > 1
            for c, side in np.argwhere(self.members >= 0):
                own = targets.labels[self.members[c, side]] == (c if is_multiclass else 1)
                if own != (side == POSITIVE):
                    raise ValueError("warm_start with a kernel needs the labels of the last fit.")
        super().learn_from(rows, targets, order, rule, trace)

    def free_intercepts(self) -> np.ndarray:
        return self.bias.copy()


class JointKernelModel(KernelModel):
    """Weights of several classes that are learned jointly; see `JointSpace`."""

    is_joint = True
    loop = staticmethod(learn_jointly)

    def space_over(self, linear: LinearSpace, places: np.ndarray) -> Any:
        return new_joint_space(linear, self.spec)

    def scales(self) -> np.ndarray:
        return self.scalars.table.scale[:1, None]

    def sum_up(self, coefs: np.ndarray, outputs: np.ndarray) -> None:
        scalars = self.scalars.table
        scalars.norm2[0] = scalars.scale[0] ** 2 * (coefs * outputs).sum()
        scalars.norm_error[0] = 0.0

    def _together(self, squares: np.ndarray) -> np.ndarray:
        return squares.sum(keepdims=True)

    def _bounds_from(self, coefs: np.ndarray, supports: Supports) -> np.ndarray:
        mixture = joint_bounds.joint_mixture(coefs, supports.labels)
        squares, offset = self._quadratic(mixture, supports).sum(), self.tail.offset
        radius = bounds.radius_of_features(self.tally.largest_xx[0], offset)
        given = mixture, supports.labels, squares, radius, offset > 0.0
        return np.array([joint_bounds.mixture_bound(*given)])


# ---------------------------------------------------------------------------------- specifications
@build_for.register
def _expansion(spec: ExpansionSpec, given: Beginning) -> Built:
    spec.check(given.problems, given.unseen)
    spec.kernel.check_device()
    parts, rows, radius = arguments_for(spec, given, exact=False)
    if spec.is_joint(given.problems):
        model: KernelModel = JointKernelModel(*parts)
    else:
        model = (PairKernelModel if spec.has_pairs() else KernelModel)(*parts)
    return Built(model, model.weighted(rows, given.sample_weight), radius)


def arguments_for(
    spec: ExpansionSpec | BudgetSpec, given: Beginning, exact: bool
) -> tuple[tuple[Any, int, int, Tail, Kernel, Products], Points, float]:
    """The arguments of a `SupportModel`, the rows in its form, and their largest norm."""
    radius, products = given.radius, given.products or products_on(spec.kernel.device)
    whole = radius is not None
    kernel, rows = kernel_for(spec.kernel, given.X, products, whole=whole, exact=exact)
    if whole and spec.intercept_scaling == "max":
        radius = float(np.sqrt(finite_diagonal(kernel, rows).max()))
    width, tail = given.X.shape[1], spec.tail(radius)
    return (spec, given.problems, width, tail, kernel, products), rows, radius or 0.0


# ------------------------------------------------------------------------------------------ devices
def products_on(device: str) -> Products:
    return CudaProducts() if device == "cuda" else Products()


def on_device(model: Any, device: str) -> Any:
    """The model with kernel values computed on another device."""
    if not isinstance(model, SupportModel):
        KernelSpec(device=device).check_device()
        return model
    kernel = model.spec.kernel
    if kernel.device == device:
        return model
    moved = replace(kernel, device=device)
    moved.check_device(on_budget=isinstance(model.spec, BudgetSpec))
    other = copy.copy(model)
    other.spec, other.products = replace(model.spec, kernel=moved), products_on(device)
    return other
