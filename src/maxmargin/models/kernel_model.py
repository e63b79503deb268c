"""Models in a kernel's space: supporting rows, and their coefficients.

Memory: the supporting rows; in `fit` two numbers per row and problem; a block's Gram matrix and
lines of that of all rows, at most `cache_size`. See `kernel_fit` for how rows are learned from.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
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
from maxmargin.kernels.functions import (
    KERNELS,
    LARGEST_ROUNDING,
    MOST_DENSE_VALUES,
    Kernel,
    UserKernel,
)
from maxmargin.kernels.growable_array import appended, growable_of
from maxmargin.kernels.kernel_lines import between
from maxmargin.kernels.points import Points, library_of
from maxmargin.kernels.products import CHUNK, NARROW_TYPES, Products
from maxmargin.models.base import Model, new_tally
from maxmargin.models.joint_model import new_joint_space
from maxmargin.models.kernel_fit import Block, KernelFit, KernelSpace
from maxmargin.models.model_formulas import Formula, kernel_formula
from maxmargin.models.spec import ModelSpec
from maxmargin.spaces.certificate_vectors import PAST, Past, mean_weights
from maxmargin.spaces.linear_space import LinearSpace
from maxmargin.spaces.pair_space import NOBODY, POSITIVE, PairSpace
from maxmargin.spaces.problem_scalars import ALL_COEFFICIENTS, AWAITING, Scalars

# From so many training rows on, kernel values are computed in float32 unless asked otherwise.
MANY_ROWS = 5000
# An intercept is summed up by itself where its square is so many times as large as those of rows.
LARGEST_SHARE = 100.0
# What the squared length of weights can have lost in a fit, relative to the mass of coefficients.
LOST_IN_FIT = 1e-6


def kernel_for(
    spec: ModelSpec,
    X: Any,
    products: Products,
    *,
    whole: bool,
    exact: bool = False,
    sample_weight: np.ndarray | None = None,
) -> tuple[Kernel, Points]:
    """The kernel that is asked for, and the rows as it takes them.

    ``whole`` says that there are no other rows; ``exact`` makes float64 of "auto". With weights of
    rows, the variance of "scale" is that of rows which are there so many times.
    """
    kind: type[Kernel] = KERNELS[spec.kernel] if isinstance(spec.kernel, str) else UserKernel
    if kind.only_in_fit:
        given = kind(0.0, 0.0, 0.0, np.float64)
        given = given.for_fit(X) if whole else given
        return given, products.points(given, X)
    gamma = spec.gamma
    if gamma == "auto":
        gamma = 1.0 / X.shape[1]
    elif gamma == "scale":
        spread = variance(X, sample_weight)
        gamma = 1.0 / (X.shape[1] * spread) if spread > 0.0 else 1.0
    elif gamma == "first":
        # The variance of few values says little: one more value with a variance of 1 is assumed.
        # A row whose values are all the same says nothing.
        spread = (X.shape[1] * (variance(X[:1]) or 1.0) + 1.0) / (X.shape[1] + 1.0)
        gamma = 1.0 / (X.shape[1] * spread)
    center = None if sparse.issparse(X) else products.host(X[0]).astype(np.float64)

    def kernel_in(dtype: Any, narrow: str = "") -> tuple[Kernel, Points]:
        adapts = spec.kernel_dtype == "auto" and dtype == np.float32
        numbers = float(gamma), float(spec.degree), float(spec.coef0)
        kernel = kind(*numbers, dtype, center, adapts, narrow).with_function(spec.kernel)
        return kernel, products.points(kernel, X)

    if spec.kernel_dtype in NARROW_TYPES:
        return kernel_in(np.float32, spec.kernel_dtype)
    if spec.kernel_dtype != "auto":
        return kernel_in(np.dtype(spec.kernel_dtype))
    if exact:
        return kernel_in(np.float64)
    # In a stream the dtype of the rows alone decides, not what the first of them are like.
    single = X.dtype == np.float32 or (whole and X.shape[0] >= MANY_ROWS)
    if single:
        kernel, rows = kernel_in(np.float32)
        if not whole or kernel.rounding(rows) < LARGEST_ROUNDING:
            return kernel, rows
    return kernel_in(np.float64)


def variance(X: Any, sample_weight: np.ndarray | None = None) -> float:
    """Of all entries, as in `sklearn.svm.SVC`; each row counts its weight."""
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
    """Rows with coefficients.

    Attributes
    ----------
    points : the rows
    numbers : their numbers in the fit, or their trials in a stream
    labels : their class codes
    diagonal : ``|phi(x)|**2``
    coefs : over the scale
    marks : the coefficients at the last two snapshots
    averages : sums behind the mean of the coefficients, without lines if there is no mean
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
    """Rows that are learned from next, and sums over the supports with these coefficients."""

    points: Points
    coefs: np.ndarray
    sums: Any


def is_own(labels: np.ndarray, problems: int) -> np.ndarray:
    """Which rows are positive ones, for each problem."""
    classes = np.arange(problems) if problems > 1 else np.ones(1)
    return labels == classes[:, None]


def smallest_margins(outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The smallest ``y f(x)``, for each problem."""
    return np.where(is_own(labels, outputs.shape[0]), outputs, -outputs).min(axis=1)


class SupportModel(Model):
    """Weight vectors ``w = sum_k a_k phi(x_k)`` over supporting rows in a kernel's space.

    Attributes
    ----------
    kernel : Kernel
    products : Products
        What computes its values.
    """

    kernel: Annotated[Kernel, Saved()]
    products: Products
    _width: int

    has_supports = True

    def width(self) -> int:
        return self._width

    @property
    def shift(self) -> float:
        """Added to all kernel values."""
        return self.tail.offset**2

    def rows(self, X: Any, sample_weight: np.ndarray | None = None) -> Points:
        return self.weighted(self.products.points(self.kernel, X), sample_weight)

    def fit_rows(self, X: Any, sample_weight: np.ndarray | None = None) -> Points:
        self.kernel = self.kernel.for_fit(X)
        return self.rows(X, sample_weight)

    @abstractmethod
    def weighted(self, points: Points, sample_weight: np.ndarray | None) -> Points:
        """The same rows with weights, if there is a soft margin for them."""

    def continued(self) -> Model:
        model: Any = self.twin()
        model.scalars.table.bound = np.inf
        model.scalars.table.certifiable = AWAITING  # unless a fit shows the same rows
        return model

    def check_can_stream(self) -> None:
        if self.kernel.only_in_fit:
            raise ValueError("partial_fit cannot use kernel='precomputed': pass rows and a kernel.")

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
        """Their numbers in the fit, or their trials in a stream."""

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
    """Weight vectors ``w = sum_k a_k phi(x_k)`` of one or more problems.

    Parameters
    ----------
    spec : ModelSpec
    problems, width : int
        Number of weight vectors and of features.
    tail : Tail
        See `KernelSpace`.
    kernel : Kernel
    products : Products
        What computes its values.
    """

    scalars: Annotated[Scalars, Saved()]
    past: Past
    # Rows that steps go along beside the present one, by their ids (see `PairKernelModel`).
    members: Annotated[
        np.ndarray,
        Array("problems", 2, dtype=np.int64, optional=True, at_least=NOBODY, below="supports"),
    ]
    next_mark: Annotated[int, Saved()]
    _bounds: Annotated[np.ndarray | None, Array("verdicts", name="bounds", optional=True)]
    supports: Annotated[Supports | None, Saved()]

    loop = staticmethod(learn)

    def __init__(
        self,
        spec: ModelSpec,
        problems: int,
        width: int,
        tail: Tail,
        kernel: Kernel,
        products: Products,
    ) -> None:
        self.spec, self.tail, self.kernel, self.products = spec, tail, kernel, products
        self._width = width
        self.tally = new_tally()
        self.scalars = blank(Scalars, {"problems": problems})
        self.past = np.zeros(problems if spec.average else 0, PAST).view(np.recarray)
        self.scalars.table.next_mark = NEVER  # coefficients tell all, without snapshots of vectors
        self.members = np.empty((0, 2), dtype=np.int64)
        self.next_mark = 1
        self.training: KernelFit | None = None
        self.unsettled = False
        self._bounds = self.supports = None

    def space(self) -> KernelSpace:
        return KernelSpace(
            self.kernel,
            self.products,
            self.tail,
            self.scalars,
            self.tally,
            self.past,
            self.members,
            self.space_over,
            type(self).loop,
        )

    def space_over(self, linear: LinearSpace, places: np.ndarray) -> Any:
        """The space that the loop runs on, given the places of the members."""
        return linear

    def problems(self) -> int:
        return self.scalars.table.size

    # ------------------------------------------------------------------------------------ learning
    def weighted(self, points: Points, sample_weight: np.ndarray | None) -> Points:
        if sample_weight is None or self.tail.private == 0.0:
            return points
        return points.with_sample_weight(sample_weight)

    def begin_fit(self, rows: Points) -> None:
        """Rows that are supports already stay so."""
        self.training = KernelFit(self.space(), rows, 1e6 * self.spec.cache_size)
        self.scalars.table.certifiable = ALL_COEFFICIENTS
        old = self.supports
        if old is not None and old.numbers.size:
            self.training.resume(old.points, old.numbers, old.coefs, old.marks, old.averages)

    def ceiling(self, rows: Any, radius: float) -> float:
        assert self.training is not None
        largest = bounds.radius_of_features(self.training.diagonal.max(), self.tail.offset)
        return bounds.ceiling(largest, joint=self.verdicts() < self.problems())

    def end_fit(self) -> None:
        """Keep the supporting rows, and let go of the others."""
        training = self.training
        if training is None:
            return
        training.leave()
        if self.kernel.only_in_fit:
            self.bounds()  # as long as kernel values are there
        used = training.coefs.any(axis=0) | training.averages.any(axis=0)
        kept = self.members >= 0
        numbers = np.union1d(np.flatnonzero(used), self.members[kept])
        self.members[kept] = np.searchsorted(numbers, self.members[kept])
        supports = self._without_small(self._everyone(training).take(numbers))
        self.supports = supports._replace(points=supports.points.bare())
        self.training, self.kernel = None, self.kernel.forget_rows()

    def twin(self) -> KernelModel:
        """A copy that learns by itself, of a model in the middle of a fit too."""
        training, self.training = self.training, None
        try:
            twin = copy.deepcopy(self, {id(self.spec): self.spec})  # its kernel is the user's
        finally:
            self.training = training
        if training is not None:
            twin.training = training.over(twin.space())
        return twin

    def streaming(self, rows: int, alone: bool = False) -> KernelModel:
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

    def present(
        self, rows: Points, targets: Any, order: np.ndarray, rule: Any, trace: Trace = NO_TRACE
    ) -> None:
        self._bounds = None
        if self.training is not None:
            self.training.present(targets, order, rule, trace)
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
        """The same rows; a stream may come to such for which float32 would not do."""
        before, self.kernel = self.kernel, self.kernel.exact_enough_for(rows)
        if self.kernel is before:
            return rows
        if self.supports is not None:
            old = self.supports.points
            points = self.weighted(self.kernel.points(old.X), old.sample_weight)
            self.supports = self.supports._replace(points=points)
        return self.weighted(self.products.points(self.kernel, rows.X), rows.sample_weight)

    def _snapshot_is_due(self) -> bool:
        """Whenever the number of updates has doubled, as in `spaces.linear_space`."""
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
        """Learn from rows that have not been seen before, and keep those that brought an update.

        ``ahead`` is what was computed for these rows already, and what is returned that for the
        ``following`` ones, if a device can work on it meanwhile.
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
        first = old.numbers.size  # the slot of the first new row, if it is kept
        ids = np.concatenate([slots, first + np.arange(new.size())])
        rounding = self.products.rounding(self.kernel, points)
        values = between(space.gram(points, points))
        block = Block(space, ids, values, rounding, diagonal, outputs, weights)
        trials = self.trials()
        own = of_rows(targets, np.concatenate([np.zeros(slots.size, order.dtype), order]))
        order = np.arange(slots.size, ids.size)
        order = np.where(learning, order, -1 - order)
        coming = None
        if following.size and slots.size == 0 and self.products.works_aside:
            next_rows = rows.take(np.where(following >= 0, following, -1 - following))
            sums = space.begin_sums(old.coefs, old.points, next_rows)
            coming = Ahead(next_rows, old.coefs, sums)
        block.learn(own, order, rule, trace)

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
            labels=appended(old.labels, own.labels[used]),
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
        """The outputs of new rows: what was summed up ahead, and the supports that came since."""
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
        """Those supports that count."""
        kept = self._counts(supports.coefs, supports.averages)
        present = self.members >= 0
        kept[self.members[present]] = True
        if kept.all():
            return supports
        self.members[present] = np.searchsorted(np.flatnonzero(kept), self.members[present])
        return supports.take(np.flatnonzero(kept))

    def _counts(self, coefs: np.ndarray, averages: np.ndarray) -> np.ndarray:
        """Which rows have coefficients that are not too small."""
        large = (coefs != 0.0) & (np.abs(coefs * self.scales()) >= self.spec.smallest)
        return large.any(axis=0) | averages.any(axis=0)

    def sum_up(self, coefs: np.ndarray, outputs: np.ndarray) -> None:
        """Compute the squared norms anew, given the outputs of all supports."""
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
        """Weights and outputs to predict by, of all training rows, and the squared lengths of w.

        These are without the coordinate of the intercept.
        """
        training, space = self.training, self.space()
        assert training is not None
        training.finish()
        outputs = self.products.host(training.outputs)
        self.sum_up(training.coefs, outputs)
        shift, largest = self.shift, float(training.diagonal.max())
        # An intercept that is much larger than all else would take their digits: by itself, then.
        is_apart = shift > LARGEST_SHARE * (largest - shift)
        if self.spec.average or self.spec.smallest or is_apart:
            weights = self._averaged(training.coefs, training.averages)
            weights[:, ~self._counts(training.coefs, training.averages)] = 0.0
            used, points = np.flatnonzero(weights.any(axis=0)), training.points
            some, within = points.take(used), 0.0 if is_apart else shift
            sums = self.products.weighted_sums(self.kernel, weights[:, used], some, points, within)
            outputs = sums + space.ridges(points) * weights
        else:
            weights, outputs = training.coefs * self.scales(), outputs * self.scales()
        squares, intercepts = (weights * outputs).sum(axis=1), weights.sum(axis=1)
        if is_apart:
            outputs = outputs + shift * intercepts[:, None]
        else:
            squares -= shift * intercepts**2
        lost = LOST_IN_FIT * (largest - shift) * np.abs(weights).sum(axis=1) ** 2
        no_kernel = (squares < -lost) & (not self.kernel.is_mercer())
        return weights, outputs, np.where(no_kernel, np.nan, np.maximum(squares, 0.0))

    def _together(self, squares: np.ndarray) -> np.ndarray:
        """The squared lengths that margins are measured by."""
        return squares

    def _leads(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return smallest_margins(outputs, labels)

    def bounds(self) -> np.ndarray:
        """From all coefficients, and from those of at least the last half of the updates."""
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
        own = is_own(supports.labels, self.problems())
        mixture, proved = convex_combinations.hull_mixture(coefs, own, self._has_intercept())
        return convex_combinations.mixture_bounds(self._quadratic(mixture, supports), proved)

    def _has_intercept(self) -> bool:
        return self.tail.offset > 0.0

    def _used(self) -> Supports:
        """The supports, also in the middle of a fit."""
        training = self.training
        if training is None:
            assert self.supports is not None
            return self.supports
        training.take_over_coefficients()
        return self._everyone(training).take(np.flatnonzero(training.coefs.any(axis=0)))

    def _everyone(self, training: KernelFit) -> Supports:
        """All rows of a fit, as if they were supports."""
        return Supports(
            training.points,
            np.arange(training.points.size()),
            training.labels,
            training.diagonal,
            training.coefs,
            training.marks,
            training.averages,
        )

    def _quadratic(self, weights: np.ndarray, supports: Supports) -> np.ndarray:
        """At least the squared lengths of sums of the supports, without the intercept."""
        diagonal = bounds.without_intercept(supports.diagonal, self.tail.offset)
        ridges = self.space().ridges(supports.points)
        return self.products.quadratic(self.kernel, weights, supports.points, diagonal, ridges)

    def updates(self) -> int:
        return int(self.scalars.table.updates.sum())

    def is_finite(self) -> bool:
        numbers = [self.scalars.table.norm2]
        numbers += [each.coefs for each in (self.training, self.supports) if each is not None]
        return all(bool(np.isfinite(each).all()) for each in numbers)


class PairKernelModel(KernelModel):
    """Weights with a free intercept, learned from pairs of examples; see `PairSpace`."""

    bias: Annotated[np.ndarray, Array("problems")]

    def __init__(
        self,
        spec: ModelSpec,
        problems: int,
        width: int,
        tail: Tail,
        kernel: Kernel,
        products: Products,
    ) -> None:
        super().__init__(spec, problems, width, tail._replace(offset=0.0), kernel, products)
        self.bias = np.zeros(problems)
        self.members = np.full((problems, 2), NOBODY)

    def space_over(self, linear: LinearSpace, places: np.ndarray) -> PairSpace:
        sizes = dict(zip(("problems", "coordinates"), linear.weights.shape, strict=True))
        pair = blank(PairSpace, sizes, linear=linear, bias=self.bias, numbers=places)
        for c, side in np.argwhere(places >= 0):
            pair.members[2 * c + side, places[c, side]] = 1.0
            pair.squares[c, side] = linear.geometry.diagonal[places[c, side]]
        return pair

    def present(
        self, rows: Points, targets: Any, order: np.ndarray, rule: Any, trace: Trace = NO_TRACE
    ) -> None:
        if self.training is not None:
            is_multiclass = self.problems() > 1
            for c, side in np.argwhere(self.members >= 0):
                own = targets.labels[self.members[c, side]] == (c if is_multiclass else 1)
                if own != (side == POSITIVE):
                    raise ValueError("warm_start with a kernel needs the labels of the last fit.")
        super().present(rows, targets, order, rule, trace)

    def free_intercepts(self) -> np.ndarray:
        return self.bias.copy()

    def _has_intercept(self) -> bool:
        return True


class JointKernelModel(KernelModel):
    """Weights of several classes that are learned together; see `JointSpace`."""

    loop = staticmethod(learn_jointly)

    def space_over(self, linear: LinearSpace, places: np.ndarray) -> Any:
        return new_joint_space(linear, self.spec)

    def _costs(self) -> np.ndarray:
        """Of each class over its rivals; empty if all are 1."""
        return np.array(self.spec.costs or ())

    def verdicts(self) -> int:
        return 1

    def scales(self) -> np.ndarray:
        return self.scalars.table.scale[:1, None]

    def sum_up(self, coefs: np.ndarray, outputs: np.ndarray) -> None:
        scalars = self.scalars.table
        scalars.norm2[0] = scalars.scale[0] ** 2 * (coefs * outputs).sum()
        scalars.norm_error[0] = 0.0

    def _together(self, squares: np.ndarray) -> np.ndarray:
        return squares.sum(keepdims=True)

    def _leads(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return np.array([joint_bounds.joint_leads(outputs, labels, self._costs())])

    def _bounds_from(self, coefs: np.ndarray, supports: Supports) -> np.ndarray:
        mixture = joint_bounds.joint_mixture(coefs, supports.labels)
        squares, offset = self._quadratic(mixture, supports).sum(), self.tail.offset
        radius = bounds.radius_of_features(self.tally.largest_xx[0], offset)
        given = mixture, supports.labels, squares, radius, self._costs(), offset > 0.0
        return np.array([joint_bounds.mixture_bound(*given)])

    def updates(self) -> int:
        return int(self.scalars.table.updates[0])

    def ceiling(self, rows: Any, radius: float) -> float:
        return super().ceiling(rows, radius) / joint_bounds.of_rivals(self._costs()).min()
