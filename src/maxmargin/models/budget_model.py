"""A model in a kernel's space, in bounded memory: so many supporting rows for each problem.

Memory is allocated once, when the first rows come: the rows themselves, one matrix of kernel values
(or its Cholesky factor) for each problem, and the kernel values of one block of new rows.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from maxmargin.certificates import bounds, convex_combinations
from maxmargin.certificates.scalar_bounds import projected_bound
from maxmargin.core.array_fields import (
    NEVER,
    Array,
    Buffer,
    Saved,
    blank,
    grown,
    new_arrays,
    resized,
)
from maxmargin.core.loop import learn, present
from maxmargin.core.rows import Tail
from maxmargin.core.targets import of_rows
from maxmargin.core.trace import NO_TRACE, Trace
from maxmargin.kernels.functions import Kernel, finite_diagonal
from maxmargin.kernels.points import Points, shallow_copy
from maxmargin.kernels.products import CHUNK, Products
from maxmargin.models.base import new_tally
from maxmargin.models.budget_policies import BLOCK, Eviction
from maxmargin.models.kernel_model import LARGEST_SHARE, SupportModel, smallest_margins
from maxmargin.models.spec import ModelSpec
from maxmargin.spaces.budget_space import FROM_BEFORE, SharedSlots, Slots, SlotSpace, weigh
from maxmargin.spaces.gram import UnitRows
from maxmargin.spaces.pair_space import NOBODY
from maxmargin.spaces.problem_scalars import AWAITING, Scalars

ONLY_ROW = np.zeros(1, dtype=np.int32)
NO_NUMBERS = np.array([NOBODY])
# Machine code of `weigh` and `learn`, for single rows with these types of targets and values.
Code = dict[tuple[Any, ...], tuple[Any, Any]]


class Store:
    """The rows of all problems, each of which has its own, in slots.

    Attributes
    ----------
    slots : Slots
    numbers, labels : arrays of shape (problems, slots)
        Numbers of the rows in a fit, or their trials in a stream, and their class codes.
    points : list of Points
        The rows, for each problem; empty before the first ones come.
    dtype : data type of kernel values
    cross : array
        Kernel values of a block's rows with those in the slots.
    """

    layout: ClassVar[type[Slots | SharedSlots]] = Slots

    slots: Annotated[Slots | SharedSlots, Saved()]
    numbers: Annotated[np.ndarray, Array("problems", "slots", dtype=np.int64)]
    labels: Annotated[np.ndarray, Array("problems", "slots", dtype=np.int32, below="classes")]
    points: Annotated[list[Points], Saved()]
    dtype: Annotated[np.dtype, Saved()]
    cross: Annotated[np.ndarray, Buffer(f"problems * {BLOCK} * slots", dtype=None)]

    def __init__(self, problems: int) -> None:
        sizes = {"problems": problems, "slots": 0}
        self.slots, self.points, self.dtype = blank(self.layout, sizes), [], np.dtype(np.float64)
        vars(self).update(new_arrays(type(self), sizes, dtype=self.dtype))

    def problems(self) -> int:
        """The number of problems with rows of their own."""
        return self.slots.taken.size

    def lines(self, c: int) -> slice:
        """The lines of coefficients for these rows."""
        return slice(c, c + 1)

    def continued(self, which: Sequence[int]) -> Sequence[int]:
        """The sets of rows of a model whose problems continue these."""
        return which

    def capacity(self) -> int:
        """Slots of each problem."""
        return self.slots.coefs.shape[1]

    def allocate(self, capacity: int, like: Points, dtype: Any) -> None:
        """Allocate so many slots for each problem, for rows like these."""
        stores, everyone = self.points, np.arange(self.capacity())
        vars(self).update(vars(resized(self, dtype, slots=capacity)))
        self.dtype = np.dtype(dtype)
        self.points = [like.zeros(capacity) for _ in range(self.problems())]
        for store, smaller in zip(self.points, stores, strict=False):
            store.put(everyone, smaller, everyone)

    def take_in(self, new: Points, ids: np.ndarray, labels: np.ndarray) -> None:
        """Put those rows of a block into their slots that have got one."""
        for c, store in enumerate(self.points):
            sources = self.slots.sources[c]
            places = (sources != FROM_BEFORE).nonzero()[0]
            if places.size:
                which = sources[places]
                store.put(places, new, which)
                self.numbers[c][places] = ids[which]
                self.labels[c][places] = labels[which]
                sources[places] = FROM_BEFORE

    def beside(self) -> Store:
        """A copy to learn with; nothing changes this one before `take_in`."""
        other = shallow_copy(self)
        other.slots = self.layout(*[array.copy() for array in self.slots])
        return other

    def own_rows(self) -> None:
        """Copy the rows in the slots, which may be shared."""
        self.points = copy.deepcopy(self.points)
        self.numbers, self.labels = self.numbers.copy(), self.labels.copy()

    def grown(self, width: int, which: Sequence[int], codes: np.ndarray) -> Store:
        """One for other problems, in which c continues ``which[c]``."""
        more: Store = grown(self, which, width, codes=codes)
        # Two problems may continue the same one, each with rows of its own.
        sources = [self.points[c] for c in self.continued(which)]
        more.points = [copy.deepcopy(source.with_width(width)) for source in sources]
        return more

    def together(self) -> tuple[Points, np.ndarray, np.ndarray]:
        """The rows of all problems, those of the first one first; coefficients and numbers."""
        taken = self.slots.taken
        stores = [store.take(slice(0, taken[c])).bare() for c, store in enumerate(self.points)]
        stores = copy.deepcopy(stores)  # users may keep them, and slots are filled anew in place
        points = stores[0]
        for store in stores[1:]:
            points = points.followed_by(store)
        coefs = np.zeros((self.slots.coefs.shape[0], int(taken.sum())))
        for c, end in enumerate(np.cumsum(taken)):
            lines = self.lines(c)
            coefs[lines, end - taken[c] : end] = self.slots.coefs[lines, : taken[c]]
        numbers = np.concatenate([self.numbers[c, : taken[c]] for c in range(taken.size)])
        return points, coefs, numbers


class SharedStore(Store):
    """One set of rows for all classes, which are learned together."""

    layout = SharedSlots

    slots: Annotated[SharedSlots, Saved()]  # type: ignore[assignment]
    numbers: Annotated[np.ndarray, Array(1, "slots", dtype=np.int64)]
    labels: Annotated[np.ndarray, Array(1, "slots", dtype=np.int32, below="classes")]
    cross: Annotated[np.ndarray, Buffer(f"{BLOCK} * slots", dtype=None)]

    def lines(self, c: int) -> slice:
        return slice(None)

    def continued(self, which: Sequence[int]) -> Sequence[int]:
        return [0]


class Glance(NamedTuple):
    """The outputs of a single row, the row, and its `SlotSpace.cross`."""

    outputs: np.ndarray
    point: Points
    cross: np.ndarray


class BudgetModel(SupportModel):
    """Weight vectors ``w = sum_p a_p phi(x_p)`` over at most `budget` rows each.

    Parameters
    ----------
    spec, problems, width, tail, kernel, products
        See `KernelModel`.
    eviction : Eviction
        What to do when all slots are taken.
    """

    eviction: Annotated[Eviction, Saved()]
    store: Annotated[Store, Saved()]
    scalars: Annotated[Scalars, Saved()]
    largest_square: Annotated[float, Saved(at_least=0.0)]
    _bounds: Annotated[np.ndarray | None, Array("verdicts", name="bounds", optional=True)]

    def __init__(
        self,
        spec: ModelSpec,
        problems: int,
        width: int,
        tail: Tail,
        kernel: Kernel,
        products: Products,
        eviction: Eviction,
    ) -> None:
        self.spec, self.tail, self.kernel, self.products = spec, tail, kernel, products
        self.eviction, self.store = eviction, self.new_store(problems)
        self._width = width
        self.tally = new_tally()
        self.scalars = blank(Scalars, {"problems": problems})
        self.scalars.table.next_mark = NEVER
        self.ridge = tail.private**2
        self.largest_square = 0.0
        self.in_fit = self.unsettled = False
        self._bounds = None
        self._together: tuple[Points, np.ndarray, np.ndarray] | None = None
        self._last_block: Any = None

    new_store: ClassVar[type[Store]] = Store
    loop: ClassVar[Any] = staticmethod(learn)

    def problems(self) -> int:
        return self.scalars.table.size

    def scales(self) -> np.ndarray:
        """Of the coefficients, for each problem."""
        return np.asarray(self.scalars.table)["scale"][:, None]

    def space_over(self, slots: SlotSpace) -> Any:
        """The space that the loop runs on."""
        return slots

    # ------------------------------------------------------------------------------------ learning
    def weighted(self, points: Points, sample_weight: np.ndarray | None) -> Points:
        """The same rows: weights are only for steps here."""
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
            self.bounds()  # as long as kernel values are there
        self.kernel = self.kernel.forget_rows()

    def ceiling(self, rows: Any, radius: float) -> float:
        return bounds.ceiling(float(np.sqrt(self.largest_square + self.ridge)))

    def twin(self) -> BudgetModel:
        return copy.deepcopy(self, {id(self.spec): self.spec})  # a kernel in it is the user's own

    def streaming(self, rows: int, alone: bool = False) -> BudgetModel:
        self.check_can_stream()
        if alone:
            return self
        if rows <= BLOCK:
            return copy.copy(self)
        model = self._beside()  # a block needs the rows of the one before in their slots
        model.store.own_rows()
        model.eviction.own_products()
        return model

    def _beside(self) -> BudgetModel:
        """A copy to learn with; until it settles, this one stays as it is."""
        model = shallow_copy(self)
        model.tally, model.scalars = self.tally.copy(), Scalars(self.scalars.table.copy())
        model.store, model.eviction = self.store.beside(), self.eviction.beside()
        return model

    def settle(self) -> None:
        """Let the rows of the last block take their slots."""
        if self.unsettled:
            space, new, ids, labels = self._last_block
            self.eviction.renew(space)
            self.store.take_in(new, ids, labels)
            self.unsettled, self._last_block = False, None

    def grown(self, width: int, which: Sequence[int], codes: np.ndarray) -> BudgetModel:
        model = grown(self, which, width, codes=codes)
        model._width, model.kernel = width, self.kernel.with_width(width)
        model._bounds = model._together = None
        if self.store.points:
            model.store = self.store.grown(width, which, codes)
            model.eviction = self.eviction.grown(self.store.continued(which))
        else:
            store, model.eviction = self.new_store(len(which)), copy.deepcopy(self.eviction)
            model.store = store
        return model

    def present(
        self, rows: Points, targets: Any, order: np.ndarray, rule: Any, trace: Trace = NO_TRACE
    ) -> None:
        if not self.in_fit:
            rows = self._exact_enough(rows)
        if order.size == 0 and not self.store.points:
            self._allocate(self.products.kept(self.kernel, rows, np.inf))
        self._present_all(rows, targets, order, rule, trace)
        if self.in_fit:
            self.settle()

    def _exact_enough(self, rows: Points) -> Points:
        """The same rows; a stream may come to such for which float32 would not do."""
        before, self.kernel = self.kernel, self.kernel.exact_enough_for(rows)
        if self.kernel is before:
            return rows
        everyone = [self.kernel.points(store.X) for store in self.store.points]
        self.store.points = [self.products.kept(self.kernel, each, np.inf) for each in everyone]
        self.store.cross = self.store.cross.astype(np.float64)
        return self.products.points(self.kernel, rows.X)

    def _present_all(
        self, rows: Points, targets: Any, order: np.ndarray, rule: Any, trace: Trace
    ) -> None:
        for start in range(0, order.size, BLOCK):
            part = order[start : start + BLOCK]
            learning = part >= 0
            part = np.where(learning, part, -1 - part)
            # In `fit` a row has its number among all rows, in a stream that of its trial.
            ids = part if self.in_fit else self.trials() + np.cumsum(learning) - 1
            ids = np.where(learning, ids, NOBODY)
            touched = np.zeros(part.size if trace.stamp else 0, dtype=np.int32)
            history = trace.history[start : start + BLOCK]
            here = trace._replace(touched=touched, history=history)
            places = np.arange(part.size, dtype=np.int32)
            places = np.where(learning, places, -1 - places)
            self.settle()
            after = self._beside()
            after._learn(rows.take(part), ids, of_rows(targets, part), places, rule, here)
            vars(self).update(vars(after))  # at once, so that no block is learned by half
            if touched.any():
                trace.touched[part[np.flatnonzero(touched)]] = trace.stamp

    def after_row(self, glance: Glance, targets: Any, rule: Any, code: Code) -> BudgetModel:
        """A model that has learned from a single row, beside this one until it settles.

        This one must be settled, and have learned from no row since it looked at this one. ``code``
        is kept by the caller as long as the model and the rule are the same.
        """
        after = self._beside()
        new = after._exact_enough(glance.point)
        is_known = new is glance.point and self.ridge == 0.0
        cross, ids = glance.cross if is_known else None, np.array([self.trials()])
        after._learn(new, ids, targets, ONLY_ROW, rule, NO_TRACE, cross, code)
        return after

    def _learn(
        self,
        new: Points,
        ids: np.ndarray,
        targets: Any,
        order: np.ndarray,
        rule: Any,
        trace: Trace,
        cross: np.ndarray | None = None,
        code: Code | None = None,
    ) -> None:
        """Learn from the rows of a block, which take their slots when this is settled.

        ``cross`` are the `_cross_products`, if they were computed before.
        """
        size, store = new.size(), self.store
        if store.points:
            new = new.laid_out_like(store.points[0])
        new = self.products.kept(self.kernel, new, np.inf)
        diagonal = finite_diagonal(self.kernel, new) + self.shift + self.ridge
        self._allocate(new)
        if size > 1:
            products = self._own_products(new, ids)
        else:  # the product of a row with itself is not needed before it has a slot
            products = np.zeros((1, 1), self.kernel.value_type())
            products.flags.writeable = False
        if cross is None:
            cross = self._cross_products(new, ids, store.cross)
        self._bounds = self._together = None
        outputs = np.empty((self.problems(), size))
        policy = self.eviction.enter(cross, self.shift, store.slots, order >= 0)
        slots = SlotSpace(
            store.slots, self.scalars, products, cross, diagonal, self.shift, outputs, policy
        )
        space = self.space_over(slots)
        rows = UnitRows(size, Tail(self.tail.offset, 0.0))
        steps: tuple[Any, Any] = weigh, self.loop
        if code is not None:  # finding it takes longer than running it for a single row
            kinds = type(targets), cross.dtype, products.dtype
            if kinds not in code:
                given = rows, targets, order, 0, rule, space, self.tally, trace
                code[kinds] = weigh.entry(slots), self.loop.entry(*given)
            steps = code[kinds]
        steps[0](slots)
        present(rows, targets, order, rule, space, self.tally, trace, steps[1])
        self.eviction.leave(slots)
        self.unsettled, self._last_block = False, None
        if np.count_nonzero(store.slots.sources != FROM_BEFORE):
            if size == 1:
                slots = slots._replace(products=self._own_products(new, ids))
            self._last_block = slots, new.on_host(), ids, targets.labels
            self.unsettled = True

    def _own_products(self, new: Points, ids: np.ndarray) -> np.ndarray:
        """Kernel values between a block's rows; see `SlotSpace`."""
        products = _own(self.products.gram(self.kernel, new, new))
        if self.ridge > 0.0:
            products += self.ridge * (ids[:, None] == ids)
        products.flags.writeable = False
        return products

    def allocate(self, points: list[Points], dtype: Any) -> None:
        """Put these rows into the slots, with coefficients 0."""
        size, kernel = points[0].size(), self.kernel
        if any(each.size() != size for each in points) or size != (self.spec.budget or size):
            raise ValueError("store.points: there is not a row for each slot")
        self.store.allocate(size, points[0], dtype)
        self.eviction.allocate(self.store.problems(), size, dtype)
        self.store.points = points
        if not kernel.only_in_fit:
            self.store.cross = self.store.cross.astype(kernel.value_type())

    def _allocate(self, new: Points) -> None:
        """Allocate memory: once if there is a budget, else whenever a block might not fit."""
        store, budget = self.store, self.spec.budget
        needed = budget or int(store.slots.taken.max(initial=0)) + new.size()
        if needed > store.capacity():
            dtype = self.kernel.value_type()
            store.allocate(budget or max(2 * store.capacity(), needed), new, dtype)
            self.eviction.allocate(store.problems(), store.capacity(), dtype)

    def _cross_products(self, new: Points, ids: np.ndarray, buffer: np.ndarray) -> np.ndarray:
        """Kernel values between a block's rows and those in the slots; see `SlotSpace`.

        They are written to ``buffer``.
        """
        size, store = new.size(), self.store
        slots, taken, problems = store.capacity(), store.slots.taken, store.problems()
        cross = buffer[: problems * size * slots].reshape(-1, slots)
        if problems == 1 and taken[0] == slots:
            cross = _own(self.products.gram(self.kernel, new, store.points[0], cross))
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

    def output(self, X: Any) -> Glance:
        """The outputs for a single row, and what learning from it needs as well.

        There must be rows in the slots.
        """
        point, coefs = self.rows(X).laid_out_like(self.store.points[0]), self.store.slots.coefs
        # Not the buffer of the store: another thread may learn with it, in a copy of this model.
        buffer = np.zeros(self.store.problems() * self.store.capacity(), self.store.cross.dtype)
        cross = self._cross_products(point, NO_NUMBERS, buffer)
        sums = np.einsum("cp,cp->c", cross, coefs)
        if self.shift > 0.0:
            sums += self.shift * coefs.sum(axis=1)
        return Glance(self.scales()[:, 0] * sums, point, cross)

    def margins(self, rows: Points, targets: Any) -> np.ndarray:
        if not self.store.points:  # interrupted before anything was learned
            return np.zeros(self.problems())
        weights, numbers = self.weights(), self.support_numbers()
        outputs = np.empty((self.problems(), rows.size()))
        # As in `KernelModel.over_training_rows`.
        is_apart = self.shift > LARGEST_SHARE * (self.largest_square + self.ridge)
        given = self.kernel, weights, self.support_points()
        shift = 0.0 if is_apart else self.shift
        for start in range(0, rows.size(), CHUNK):
            part = slice(start, start + CHUNK)
            outputs[:, part] = self.products.weighted_sums(*given, rows.take(part), shift)
        if is_apart:
            outputs += self.shift * weights.sum(axis=1)[:, None]
        np.add.at(outputs.T, numbers, self.ridge * weights.T)
        leads = self._leads(outputs, targets.labels)
        lengths = np.array([self._squared_length(c) for c in range(self.verdicts())]) ** 0.5
        return convex_combinations.measured(leads, lengths, self.scalars)

    def _leads(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return smallest_margins(outputs, labels)

    def bounds(self) -> np.ndarray:
        if self._bounds is None:
            table, count = self.scalars.table, self.verdicts()
            proved = np.array([self._bound(c) for c in range(count)])
            proved[table.certifiable[:count] == AWAITING] = np.inf
            self._bounds = np.minimum(table.bound[:count], proved)
        return self._bounds

    def _bound(self, c: int) -> float:
        """By the coefficients with the signs of their rows, and by all projections together."""
        store, mine, intercept = self.store, self.scalars.table[c], self.shift > 0.0
        taken = int(store.slots.taken[c])
        own = store.labels[c : c + 1, :taken] == (c if self.problems() > 1 else 1)
        coefs = mine.scale * store.slots.coefs[c : c + 1, :taken]
        mixture, proved = convex_combinations.hull_mixture(coefs, own, intercept)
        bound = np.sqrt(self._square_of_sum(c, mixture)) if proved[0] else np.inf
        if self.eviction.slack is not None and mine.certifiable:
            masses = mine.scale * mine.positive, mine.scale * mine.negative
            length, radius = np.sqrt(self._squared_length(c)), self._radius()
            cut = self._cut_off(c, sum(masses))
            projected = projected_bound(length, cut, masses, radius, intercept)
            bound = np.minimum(bound, projected)  # NaN if one is
        return float(bound) * (1.0 + bounds.RELATIVE_SLACK)

    def _radius(self) -> float:
        """The largest norm of a row that brought an update, without the intercept."""
        return float(bounds.radius_of_features(self.tally.largest_xx[0], self.tail.offset))

    def _cut_off(self, c: int, mass: float) -> float:
        """At least the length of all that projections have cut off from steps with this mass."""
        assert self.eviction.slack is not None
        # A squared distance is off by what kernel values are, in each step.
        rows = self.store.points[c].take(slice(0, int(self.store.slots.taken[c])))
        rounding = self.products.rounding(self.kernel, rows)
        scale = self.scalars.table[c].scale
        return float(scale * self.eviction.slack[c] + mass * self._radius() * np.sqrt(rounding))

    def _squared_length(self, c: int) -> float:
        """At least the squared length of ``w``, without the intercept."""
        taken = int(self.store.slots.taken[c])
        weights = self.scalars.table[c].scale * self.store.slots.coefs[self.store.lines(c), :taken]
        return self._square_of_sum(c, weights)

    def _square_of_sum(self, c: int, weights: np.ndarray) -> float:
        """At least the squared length of sums of the rows of a problem, without the intercept."""
        store, taken = self.store, int(self.store.slots.taken[c])
        diagonal = bounds.without_intercept(store.slots.squares[c, :taken], self.tail.offset)
        rows = store.points[c].take(slice(0, taken))
        square = self.products.quadratic(self.kernel, weights, rows, diagonal, self.ridge).sum()
        # A row that has several slots is one and the same coordinate of the soft margin.
        _, which = np.unique(store.numbers[c, :taken], return_inverse=True)
        for line in weights:
            together = np.bincount(which, line)
            square += self.ridge * (together @ together - line @ line)
        return float(square)

    def updates(self) -> int:
        return int(self.scalars.table.updates.sum())

    def is_full(self) -> bool:
        budget = self.spec.budget
        return budget is not None and bool((self.store.slots.taken >= budget).any())

    def is_finite(self) -> bool:
        return bool(np.isfinite(self.store.slots.coefs).all())


def _own(values: np.ndarray) -> np.ndarray:
    """The same array, or a copy if it may not be changed."""
    flags = values.flags
    return values if flags.carray else np.require(values, requirements=["C", "W"])
