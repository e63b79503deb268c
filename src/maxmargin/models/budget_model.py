"""Kernel models in bounded memory: at most `budget` supporting rows for each problem.

Memory is allocated once, with the first rows: for the rows themselves, one matrix of kernel values
(or its Cholesky factor) for each problem, and the kernel values of one block of new rows.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np

from maxmargin.certificates import bounds, convex_combinations
from maxmargin.certificates.bounds import projected_bound
from maxmargin.core.array_fields import (
    Array,
    Buffer,
    Saved,
    blank,
    grown,
    resized,
)
from maxmargin.core.loop import learn, run_loop
from maxmargin.core.rows import Tail
from maxmargin.core.targets import of_rows
from maxmargin.core.trace import NO_TRACE, Trace
from maxmargin.kernels.functions import Kernel, finite_diagonal
from maxmargin.kernels.points import Points, shallow_copy
from maxmargin.kernels.products import CHUNK, Products
from maxmargin.models.base import Beginning, Built, Diverged, build_for
from maxmargin.models.budget_policies import BLOCK, Eviction, eviction_for
from maxmargin.models.kernel_model import LARGEST_SHARE, SupportModel, arguments_for
from maxmargin.models.spec import BudgetSpec
from maxmargin.spaces.budget_space import (
    FROM_BEFORE,
    Slots,
    SlotSpace,
    weigh,
)
from maxmargin.spaces.gram import UnitRows
from maxmargin.spaces.pair_space import NOBODY
from maxmargin.spaces.problem_scalars import AWAITING, Scalars


@dataclass(eq=False, kw_only=True)
class SupportStore:
    """The rows of all problems, in slots; each problem has its own rows.

    ``numbers`` are row numbers of a fit or trials of a stream, ``labels`` class codes. ``points``
    has the rows of each problem, and is empty before the first one. ``cross`` has the kernel values
    of a block's rows with those in the slots.
    """

    slots: Annotated[Slots, Saved()]
    numbers: Annotated[np.ndarray, Array("problems", "slots", dtype=np.int64)]
    labels: Annotated[np.ndarray, Array("problems", "slots", dtype=np.int32, below="classes")]
    points: Annotated[list[Points], Saved()]
    dtype: Annotated[np.dtype, Saved()] = field(default_factory=lambda: np.dtype(float))
    cross: Annotated[np.ndarray, Buffer(f"problems * {BLOCK} * slots", dtype=None)]

    def problems(self) -> int:
        """The number of sets of rows."""
        return self.slots.taken.size

    def capacity(self) -> int:
        """The number of slots of each problem."""
        return self.slots.coefs.shape[1]

    def resized(self, capacity: int, like: Points, dtype: Any) -> SupportStore:
        """A store with ``capacity`` slots for each problem, for rows like these."""
        more: SupportStore = resized(self, dtype, slots=capacity)
        more.dtype, slots = np.dtype(dtype), np.arange(self.capacity())
        more.points = [like.zeros(capacity) for _ in range(self.problems())]
        for store, smaller in zip(more.points, self.points, strict=False):
            store.put(slots, smaller, slots)
        return more

    def store_rows(self, new: Points, ids: np.ndarray, labels: np.ndarray) -> None:
        """Copy the rows of a block that were assigned slots."""
        for c, store in enumerate(self.points):
            sources = self.slots.sources[c]
            places = (sources != FROM_BEFORE).nonzero()[0]
            if places.size:
                which = sources[places]
                store.put(places, new, which)
                self.numbers[c][places] = ids[which]
                self.labels[c][places] = labels[which]
                sources[places] = FROM_BEFORE

    def copy(self) -> SupportStore:
        """A copy to learn with, which changes nothing of this one before `store_rows`."""
        other = shallow_copy(self)
        other.slots = Slots(*[array.copy() for array in self.slots])
        return other

    def copy_rows(self) -> None:
        """Copy the rows in the slots, which may be shared with another store."""
        self.points = copy.deepcopy(self.points)
        self.numbers, self.labels = self.numbers.copy(), self.labels.copy()

    def grown(self, width: int, which: Sequence[int], codes: np.ndarray) -> SupportStore:
        """A store in which problem c continues problem ``which[c]``."""
        more: SupportStore = grown(self, which, width, codes=codes)
        # Two problems may continue the same one, each with its own rows.
        sources = [self.points[c] for c in which if self.points]
        more.points = [copy.deepcopy(source.with_width(width)) for source in sources]
        return more

    def together(self) -> tuple[Points, np.ndarray, np.ndarray]:
        """The rows, coefficients and numbers of all problems, problem by problem."""
        taken = self.slots.taken
        stores = [store.take(slice(0, taken[c])).bare() for c, store in enumerate(self.points)]
        stores = copy.deepcopy(stores)  # users may keep them, and slots are overwritten in place
        points = stores[0]
        for store in stores[1:]:
            points = points.followed_by(store)
        coefs = np.zeros((self.slots.coefs.shape[0], int(taken.sum())))
        for c, end in enumerate(np.cumsum(taken)):
            coefs[c, end - taken[c] : end] = self.slots.coefs[c, : taken[c]]
        numbers = np.concatenate([self.numbers[c, : taken[c]] for c in range(taken.size)])
        return points, coefs, numbers


def new_store(problems: int) -> SupportStore:
    """A store without slots."""
    sizes = {"problems": problems, "slots": 0}
    return blank(SupportStore, sizes, dtype=np.float64, points=[])


class BudgetModel(SupportModel):
    """Weight vectors ``w = sum_p a_p phi(x_p)`` over at most `budget` rows each."""

    spec: BudgetSpec
    eviction: Annotated[Eviction, Saved()]
    store: Annotated[SupportStore, Saved()]
    scalars: Annotated[Scalars, Saved()]
    largest_square: Annotated[float, Saved(at_least=0.0)]
    _bounds: Annotated[np.ndarray | None, Array("n_margins", name="bounds", optional=True)]

    def __init__(
        self,
        spec: BudgetSpec,
        problems: int,
        width: int,
        tail: Tail,
        kernel: Kernel,
        products: Products,
        eviction: Eviction,
    ) -> None:
        super().__init__(spec, problems, width, tail, kernel, products)
        self.eviction, self.store = eviction, new_store(problems)
        self.ridge = tail.private**2
        self.largest_square = 0.0
        self.in_fit = False
        self._together: tuple[Points, np.ndarray, np.ndarray] | None = None

    loop: ClassVar[Any] = staticmethod(learn)

    def scales(self) -> np.ndarray:
        """The scale of the coefficients of each problem."""
        return np.asarray(self.scalars.table)["scale"][:, None]

    # ------------------------------------------------------------------------------------ learning
    def weighted(self, points: Points, sample_weight: np.ndarray | None) -> Points:
        """The rows unchanged: weights act only through steps."""
        if sample_weight is not None and self.ridge > 0.0:
            raise ValueError(
                "Sample weights cannot be combined with a soft margin on a budget: use "
                "soft_margin=0, or no budget."
            )
        return points

    def begin_fit(self, rows: Points) -> None:
        self.in_fit = True
        self.largest_square = float(finite_diagonal(self.kernel, rows).max())
        if not self.store.points:
            return
        points, _, numbers = self._supports()
        are_rows = numbers.max(initial=-1) < rows.size()
        if not are_rows or not rows.take(numbers).same_as(points):
            raise ValueError("warm_start with a kernel needs the rows of the last fit.")

    def end_fit(self) -> None:
        self.in_fit = False
        if self.kernel.only_in_fit:
            self.bounds()  # while there are kernel values
        self.kernel = self.kernel.forget_rows()

    def ceiling(self, rows: Any, radius: float) -> float:
        return bounds.ceiling(float(np.sqrt(self.largest_square + self.ridge)))

    def copy(self) -> BudgetModel:
        return copy.deepcopy(self, {id(self.spec): self.spec})  # never copies a user's kernel

    def streaming(self, rows: int, owned: bool = False) -> BudgetModel:
        self.check_can_stream()
        if owned or rows <= BLOCK:
            return self
        model = self._learner()
        model.store.copy_rows()
        model.eviction.copy_products()
        return model

    def _learner(self) -> BudgetModel:
        """A copy to learn a block with, which changes nothing of this model."""
        model = shallow_copy(self)
        model.tally, model.scalars = self.tally.copy(), Scalars(self.scalars.table.copy())
        model.store, model.eviction = self.store.copy(), self.eviction.copy()
        return model

    def grown(self, width: int, which: Sequence[int], codes: np.ndarray) -> BudgetModel:
        model = grown(self, which, width, codes=codes)
        model._width, model.kernel = width, self.kernel.with_width(width)
        model._bounds = model._together = None
        model.store = self.store.grown(width, which, codes)
        model.eviction = self.eviction.grown(which)
        return model

    def learn_from(
        self, rows: Points, targets: Any, order: np.ndarray, rule: Any, trace: Trace = NO_TRACE
    ) -> None:
        """Learn block by block; a block that makes weights infinite changes nothing."""
        if order.size == 0 and not self.store.points:
            self._allocate(self.products.kept(self.kernel, rows, np.inf))
        kernel = self.kernel if self.in_fit else self.kernel.exact_enough_for(rows)
        for start in range(0, order.size, BLOCK):
            part, history = order[start : start + BLOCK], trace.history[start : start + BLOCK]
            here = trace._replace(history=history)
            self._present_block(rows, targets, part, rule, here, kernel)

    def _present_block(
        self,
        rows: Points,
        targets: Any,
        order: np.ndarray,
        rule: Any,
        trace: Trace,
        kernel: Kernel,
    ) -> None:
        learning = order >= 0
        numbers, places = np.where(learning, order, -1 - order), np.arange(order.size)
        # The id of a row is its number in a fit, and its trial in a stream.
        ids = numbers if self.in_fit else self.trials() + np.cumsum(learning) - 1
        ids = np.where(learning, ids, NOBODY)
        places = np.where(learning, places, -1 - places).astype(np.int32)
        touched = np.zeros(order.size if trace.stamp else 0, dtype=np.int32)
        here, targets = trace._replace(touched=touched), of_rows(targets, numbers)
        after = self._learner()
        new = after._converted(rows.take(numbers), kernel)
        slots, new = after._learn(new, ids, targets, places, rule, here)
        if not (self.in_fit or after.is_finite()):
            raise Diverged
        if np.count_nonzero(after.store.slots.sources != FROM_BEFORE):
            if order.size == 1:
                slots = slots._replace(products=after._own_products(new, ids))
            after.eviction.renew(slots)
            after.store.store_rows(new.on_host(), ids, targets.labels)
        self.kernel, self.tally, self.scalars = after.kernel, after.tally, after.scalars
        self.store, self.eviction = after.store, after.eviction
        self._bounds = self._together = None
        if touched.any():
            trace.touched[numbers[np.flatnonzero(touched)]] = trace.stamp

    def _converted(self, rows: Points, kernel: Kernel) -> Points:
        """The rows for this kernel, from now on that of the model, which may be in float64 now."""
        if kernel is self.kernel:
            return rows
        self.kernel = kernel
        stored = [self.kernel.points(store.X) for store in self.store.points]
        self.store.points = [self.products.kept(self.kernel, each, np.inf) for each in stored]
        self.store.cross = self.store.cross.astype(np.float64)
        return self.products.points(self.kernel, rows.X)

    def _learn(
        self,
        new: Points,
        ids: np.ndarray,
        targets: Any,
        order: np.ndarray,
        rule: Any,
        trace: Trace,
    ) -> tuple[SlotSpace, Points]:
        """Learn from the rows of a block, which are not copied to their slots yet."""
        size = new.size()
        if self.store.points:
            new = new.laid_out_like(self.store.points[0])
        new = self.products.kept(self.kernel, new, np.inf)
        diagonal = finite_diagonal(self.kernel, new) + self.shift + self.ridge
        self._allocate(new)
        store = self.store
        if size > 1:
            products = self._own_products(new, ids)
        else:  # a single row needs no product with itself before it gets a slot
            products = np.zeros((1, 1), self.kernel.value_type())
            products.flags.writeable = False
        cross = self._cross_products(new, ids, store.cross)
        outputs = np.empty((self.problems(), size))
        policy = self.eviction.enter(cross, self.shift, store.slots, order >= 0)
        slots = SlotSpace(
            store.slots, self.scalars, products, cross, diagonal, self.shift, outputs, policy
        )
        weigh(slots)
        rows = UnitRows(size, Tail(self.tail.offset, 0.0))
        run_loop(rows, targets, order, rule, slots, self.tally, trace, self.loop)
        self.eviction.leave(slots)
        return slots, new

    def _own_products(self, new: Points, ids: np.ndarray) -> np.ndarray:
        """Kernel values between the rows of a block; see `SlotSpace`."""
        products = _writable(self.products.gram(self.kernel, new, new))
        if self.ridge > 0.0:
            products += self.ridge * (ids[:, None] == ids)
        products.flags.writeable = False
        return products

    def allocate(self, points: list[Points], dtype: Any) -> None:
        """Store these rows with coefficients 0."""
        size, kernel = points[0].size(), self.kernel
        if any(each.size() != size for each in points) or size != (self.spec.budget or size):
            raise ValueError("store.points: there is not a row for each slot")
        self.store = self.store.resized(size, points[0], dtype)
        self.eviction = self.eviction.resized(size, dtype)
        self.store.points = points
        if not kernel.only_in_fit:
            self.store.cross = self.store.cross.astype(kernel.value_type())

    def _allocate(self, new: Points) -> None:
        """Allocate memory: once with a budget, otherwise whenever a block might not fit."""
        store, budget = self.store, self.spec.budget
        needed = budget or int(store.slots.taken.max(initial=0)) + new.size()
        if needed > store.capacity():
            dtype = self.kernel.value_type()
            capacity = budget or max(2 * store.capacity(), needed)
            self.store = store.resized(capacity, new, dtype)
            self.eviction = self.eviction.resized(capacity, dtype)

    def _cross_products(self, new: Points, ids: np.ndarray, buffer: np.ndarray) -> np.ndarray:
        """Kernel values of a block's rows with those in the slots, written to ``buffer``."""
        size, store = new.size(), self.store
        slots, taken, problems = store.capacity(), store.slots.taken, store.problems()
        cross = buffer[: problems * size * slots].reshape(-1, slots)
        if problems == 1 and taken[0] == slots:
            cross = _writable(self.products.gram(self.kernel, new, store.points[0], cross))
        else:
            for c, points in enumerate(store.points):
                here = points if taken[c] == slots else points.take(slice(0, int(taken[c])))
                lines = slice(c * size, (c + 1) * size)
                cross[lines, : taken[c]] = self.products.gram(self.kernel, new, here)
        if self.ridge > 0.0:
            for c, numbers in enumerate(store.numbers):
                same = ids[:, None] == numbers[: taken[c]]
                cross[c * size : (c + 1) * size, : taken[c]] += self.ridge * same
        return cross

    # ----------------------------------------------------------------------------- what was learned
    def _supports(self) -> tuple[Points, np.ndarray, np.ndarray]:
        if self._together is None:
            self._together = self.store.together()
        return self._together

    def weights(self) -> np.ndarray:
        return self._supports()[1] * self.scales()

    def coefficients(self) -> np.ndarray:
        if not self.kernel.is_linear:
            return super().coefficients()
        return np.asarray(self.weights() @ self.support_points().X)

    def support_numbers(self) -> np.ndarray:
        return self._supports()[2]

    def support_points(self) -> Points:
        return self._supports()[0]

    def margins(self, rows: Points, targets: Any) -> np.ndarray:
        weights, numbers = self.weights(), self.support_numbers()
        outputs = np.empty((self.problems(), rows.size()))
        # As in `KernelModel.over_training_rows`.
        is_separate = self.shift > LARGEST_SHARE * (self.largest_square + self.ridge)
        given = self.kernel, weights, self.support_points()
        shift = 0.0 if is_separate else self.shift
        for start in range(0, rows.size(), CHUNK):
            part = slice(start, start + CHUNK)
            outputs[:, part] = self.products.weighted_sums(*given, rows.take(part), shift)
        if is_separate:
            outputs += self.shift * weights.sum(axis=1)[:, None]
        np.add.at(outputs.T, numbers, self.ridge * weights.T)
        leads = self._leads(outputs, targets.labels)
        lengths = np.array([self._squared_length(c) for c in range(self.n_margins())]) ** 0.5
        return convex_combinations.measured(leads, lengths, self.scalars)

    def bounds(self) -> np.ndarray:
        if self._bounds is None:
            table, count = self.scalars.table, self.n_margins()
            proved = np.array([self._bound(c) for c in range(count)])
            proved[table.certifiable[:count] == AWAITING] = np.inf
            self._bounds = np.minimum(table.bound[:count], proved)
        return self._bounds

    def _bound(self, c: int) -> float:
        """The better bound: by coefficients with the signs of their rows, or by projections."""
        store, scalars, intercept = self.store, self.scalars.table[c], self.shift > 0.0
        taken = int(store.slots.taken[c])
        is_positive = store.labels[c : c + 1, :taken] == (c if self.problems() > 1 else 1)
        coefs = scalars.scale * store.slots.coefs[c : c + 1, :taken]
        mixture, proved = convex_combinations.hull_mixture(coefs, is_positive, intercept)
        bound = np.sqrt(self._square_of_sum(c, mixture)) if proved[0] else np.inf
        if self.eviction.slack is not None and scalars.certifiable:
            masses = scalars.scale * scalars.positive, scalars.scale * scalars.negative
            length, radius = np.sqrt(self._squared_length(c)), self._radius()
            cut = self._cut_off(c, sum(masses))
            projected = projected_bound(length, cut, masses, radius, intercept)
            bound = np.minimum(bound, projected)  # NaN if one is
        return float(bound) * (1.0 + bounds.RELATIVE_SLACK)

    def _radius(self) -> float:
        """The largest norm of a row that caused an update, without the intercept."""
        return float(bounds.radius_of_features(self.tally.largest_xx[0], self.tail.offset))

    def _cut_off(self, c: int, mass: float) -> float:
        """An upper bound on the length that projections cut off from steps with this mass."""
        assert self.eviction.slack is not None
        # In each step the squared distance has the rounding error of kernel values.
        rows = self.store.points[c].take(slice(0, int(self.store.slots.taken[c])))
        rounding = self.kernel.rounding(rows)
        scale = self.scalars.table[c].scale
        return float(scale * self.eviction.slack[c] + mass * self._radius() * np.sqrt(rounding))

    def _squared_length(self, c: int) -> float:
        """An upper bound on the squared length of ``w``, without the intercept."""
        taken = int(self.store.slots.taken[c])
        weights = self.scalars.table[c].scale * self.store.slots.coefs[c : c + 1, :taken]
        return self._square_of_sum(c, weights)

    def _square_of_sum(self, c: int, weights: np.ndarray) -> float:
        """An upper bound on the squared length of sums of rows, without the intercept."""
        store, taken = self.store, int(self.store.slots.taken[c])
        diagonal = bounds.without_intercept(store.slots.squares[c, :taken], self.tail.offset)
        rows = store.points[c].take(slice(0, taken))
        square = self.products.quadratic(self.kernel, weights, rows, diagonal, self.ridge).sum()
        # A row that occupies several slots has only one private coordinate.
        _, which = np.unique(store.numbers[c, :taken], return_inverse=True)
        for line in weights:
            together = np.bincount(which, line)
            square += self.ridge * (together @ together - line @ line)
        return float(square)

    def is_full(self) -> bool:
        budget = self.spec.budget
        return budget is not None and bool((self.store.slots.taken >= budget).any())

    def is_finite(self) -> bool:
        return bool(np.isfinite(self.store.slots.coefs).all())


def _writable(values: np.ndarray) -> np.ndarray:
    """The array, or a copy if it is not contiguous and writable."""
    flags = values.flags
    return values if flags.carray else np.require(values, requirements=["C", "W"])


@build_for.register
def _budget(spec: BudgetSpec, given: Beginning) -> Built:
    eviction = eviction_for(spec, given.problems, given.random_state)
    spec.check(given.problems, given.unseen)
    spec.kernel.check_device(on_budget=True)
    parts, rows, radius = arguments_for(spec, given, exact=eviction.exact)
    model = BudgetModel(*parts, eviction)
    return Built(model, model.weighted(rows, given.sample_weight), radius)
