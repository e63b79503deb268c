"""Models whose weights are vectors over the features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from maxmargin.certificates import bounds, geometric_margins, joint_bounds
from maxmargin.certificates.bounds import Hull
from maxmargin.certificates.evidence import Evidence, evidence_of
from maxmargin.core import array_fields
from maxmargin.core.array_fields import NEVER, Saved, blank, without_private_coordinates
from maxmargin.core.joint_loop import learn_jointly, new_rivals
from maxmargin.core.loop import learn, maintain, run_loop
from maxmargin.core.row_scans import largest_square, lowest_lead, lowest_outputs
from maxmargin.core.rows import NO_TAIL, DenseRows, SparseRows, Tail, WeightedTail
from maxmargin.core.trace import NO_TRACE, Trace
from maxmargin.models.base import Beginning, Built, OnlineModel, build_for, new_tally
from maxmargin.models.model_formulas import Planes
from maxmargin.models.spec import DiagonalSpec, LinearSpec, WeightsSpec
from maxmargin.spaces.certificate_vectors import (
    MeanSpace,
    MeanWitness,
    Witness,
    mean_weights,
)
from maxmargin.spaces.diagonal_space import AdaptiveRates, Confidence, DiagonalSpace, Leader
from maxmargin.spaces.euclid import Euclid
from maxmargin.spaces.joint_space import JointSpace, JointWitness, KBest, OneBest
from maxmargin.spaces.linear_space import LinearSpace, fold_all
from maxmargin.spaces.pair_space import ELSEWHERE, FOREIGN, NOBODY, POSITIVE, PairSpace
from maxmargin.spaces.pnorm import new_pnorm
from maxmargin.spaces.pnorm_plane import PlaneSpace
from maxmargin.spaces.problem_scalars import AWAITING, ROUNDING, SINCE_SNAPSHOT, mark_masses

Rows = DenseRows | SparseRows

# With more weights, only the imbalance bound is computed, which needs no certificate vectors.
MOST_WITNESSED_WEIGHTS = 2**24
# Larger weights are copied only for batches of at least as many values.
MOST_COPIED_WEIGHTS = 2**16
# Statistics that are kept for each column.
METRICS: dict[str, Any] = {
    "confidence": Confidence,
    "adaptive rates": AdaptiveRates,
    "leader": Leader,
}


def as_rows(X: Any, tail: Any) -> Rows:
    """Rows over the memory of ``X``, read-only, each with the coordinates of ``tail``."""
    if sparse.issparse(X):
        values, columns, starts = map(read_only, (X.data, X.indices, X.indptr))
        return SparseRows(values, columns, starts, X.shape[1], tail)
    return DenseRows(read_only(X), tail)


def read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.setflags(write=False)
    return view


class LinearModel(OnlineModel):
    """Weights whose intercept, if any, is the weight of one more coordinate.

    ``private`` is the number of rows with a private coordinate that is stored.
    """

    p: Annotated[float, Saved(at_least=1.0)]
    linear: Annotated[LinearSpace, Saved()]
    spec: LinearSpec

    loop = staticmethod(learn)
    learns_rows_in_place = True

    def __init__(
        self, spec: LinearSpec, problems: int, width: int, private: int, tail: Tail, p: float
    ) -> None:
        self.spec, self.tail, self.p, self.tally = spec, tail, p, new_tally()
        self.in_fit = False
        size, split = width + 1 + private, tail.offset > 0.0
        sizes = {"problems": problems, "coordinates": size}
        off = set() if spec.average else {"average", "past"}
        if not spec.certified or problems * size > MOST_WITNESSED_WEIGHTS:
            off |= {"share", "mark", "mark_share"}
        elif not split:
            off |= {"share", "mark_share"}
        by_rows = spec.in_plane and not spec.has_pairs()
        kind: Any = PlaneSpace if by_rows and p != 2.0 else LinearSpace  # which has the same fields
        self.linear = blank(
            kind,
            sizes,
            geometry=Euclid(2.0, width) if p == 2.0 else new_pnorm(p, problems, size),
            width=width,
            witness=blank(Witness, sizes, off=off, split=split),
        )
        self._allocate(sizes)

    def _allocate(self, sizes: dict[str, int]) -> None:
        """Allocate the arrays that a subclass adds to the linear ones."""

    @property
    def space(self) -> Any:
        """The space of the compiled loop."""
        return self.linear

    @property
    def scored_by(self) -> Any:
        """The part of the space that computes outputs to predict by."""
        return self.space

    def view(self) -> Any:
        """The space, reduced to the arrays that its method `output` needs to predict one row.

        Passing an array to machine code takes time.
        """
        witness, average = self.linear.witness, self.spec.average
        kept = MeanWitness(witness.average, witness.past) if average else ()
        linear = self.linear._replace(witness=kept)
        space = self.scored_by
        space = linear if space is self.linear else space._replace(linear=linear)
        return MeanSpace(space, self.tally) if average else space

    def rows(self, X: Any, sample_weight: np.ndarray | None = None) -> Rows:
        if sample_weight is None or self.tail.private == 0.0:
            return as_rows(X, self.tail)
        return as_rows(X, weighted_tail(self, read_only(sample_weight)))

    def problems(self) -> int:
        return self.linear.weights.shape[0]

    def width(self) -> int:
        return self.linear.width

    def invalid_reason(self) -> str:
        witness: Any = self.linear.witness
        if self.linear.geometry.p != self.p:
            return f"the model is not one for the parameters: p is {self.p}"
        if (witness.average.shape[0] > 0) != self.spec.averages():
            return "the model is not one for the parameters: linear.witness.average"
        if witness.past.size != witness.average.shape[0]:
            return "linear.witness.past is not one of each average"
        return "" if self._fits(witness) else "the vectors of linear.witness do not fit together"

    def _fits(self, witness: Any) -> bool:
        """True if these vectors, of which some may be missing, can be used together."""
        same = witness.share.shape == witness.mark_share.shape
        return same and witness.share.shape[0] <= witness.mark.shape[0]

    def private_coordinates(self) -> int:
        return self.linear.weights.shape[1] - self.linear.width - 1

    # ------------------------------------------------------------------------------------ learning
    def begin_fit(self, rows: Any) -> None:
        self.in_fit = True

    def end_fit(self) -> None:
        self.in_fit = False

    def begin_rows(self) -> None:
        """Forget row numbers: later rows are numbered from 0 again."""

    def keeps_row_numbers(self) -> bool:
        """True if the model refers to rows by their numbers."""
        return False

    def copy(self) -> LinearModel:
        return array_fields.own_arrays(self)

    def continued(self) -> LinearModel:
        model = self.copy()
        model.forget_bounds()
        model.begin_rows()
        return model

    def forget_bounds(self, which: Any = slice(None)) -> None:
        """Let bounds use only later coefficients, because the rows of earlier ones are gone."""
        scalars = self.linear.scalars.table
        next_mark: np.ndarray = scalars.next_mark.copy()
        scalars.next_mark[which] = scalars.updates[which]
        self._take_snapshots(np.flatnonzero(scalars.updates >= scalars.next_mark))
        scalars.next_mark[:] = next_mark
        scalars.bound[which] = np.inf
        scalars.certifiable[which] = np.minimum(scalars.certifiable[which], SINCE_SNAPSHOT)

    def streaming(self, rows: int, owned: bool = False) -> LinearModel:
        if self.p != 2.0 and self.tail.private > 0.0:
            raise ValueError(
                f"partial_fit cannot keep a soft margin with p={self.p}; use fit, or p=2."
            )
        model = self
        if self.private_coordinates():
            model = self._without_private_coordinates()
        elif not owned:
            is_small = self.linear.weights.size <= max(MOST_COPIED_WEIGHTS, rows * self.width())
            if (rows > 1 and is_small) or self.keeps_row_numbers():
                model = self.copy()
        model.begin_rows()
        return model

    def without_rows(self) -> LinearModel:
        """The model after a weighted fit: its bounds, without the parts that depend on weights."""
        model = self._without_private_coordinates()
        proved = self.bounds()
        model.linear.scalars.table.bound[: proved.size] = proved
        return model

    def _without_private_coordinates(self) -> LinearModel:
        """A copy without private coordinates, of which only sums of squares are kept.

        A sum of squares cannot be split at the last snapshot, so a new snapshot is taken.
        """
        model: LinearModel = array_fields.without_private_coordinates(self, self.width())
        private, table = self.linear.weights[:, self.width() + 1 :], model.linear.scalars.table
        table.hidden_positive += (np.maximum(private, 0.0) ** 2).sum(axis=1)
        table.hidden_negative += (np.minimum(private, 0.0) ** 2).sum(axis=1)
        for name in ("positive", "negative", "hidden_positive", "hidden_negative"):
            table[f"mark_{name}"] = table[name]
        witness: Any = model.linear.witness
        witness.mark[:] = model.linear.weights[: witness.mark.shape[0]]
        witness.mark_share[:] = witness.share
        return model

    def grown(self, width: int, which: Sequence[int], codes: np.ndarray) -> LinearModel:
        return array_fields.grown(self, which, width, self.width(), codes)

    def allows_unused_columns(self, width: int) -> bool:
        return self.spec.p != "log" and self.problems() * (width + 1) <= MOST_WITNESSED_WEIGHTS

    def learn_from(
        self, rows: Any, targets: Any, order: np.ndarray, rule: Any, trace: Trace = NO_TRACE
    ) -> None:
        space, tally = self.space, self.tally
        run_loop(rows, targets, order, rule, space, tally, trace, self.loop, self.maintain)
        if not self.in_fit:
            self.begin_rows()

    def maintain(self, space: Any) -> None:
        """Fold scales (`core.loop.maintain`) and take snapshots, when the loop asks for it."""
        scalars = self.linear.scalars.table
        limit, scales = self.linear.geometry.scale_limit(), np.abs(scalars.scale)
        if not ((1.0 / limit <= scales) & (scales <= limit)).all():  # avoids compiling it
            maintain(space)
        problems = np.flatnonzero(scalars.updates >= scalars.next_mark)
        if problems.size:
            scalars.bound[problems] = bounds.hull_bounds(self.hull(), problems)
            self._take_snapshots(problems)

    def _take_snapshots(self, problems: np.ndarray) -> None:
        """They are due whenever the updates have doubled, so their cost per update vanishes."""
        witness = self.linear.witness
        for mark, vectors in (
            (witness.mark, self.linear.weights),
            (witness.mark_share, witness.share),
        ):
            if mark.size:
                mark[problems] = vectors[problems]
        mark_masses(self.linear.scalars.table, problems)

    def with_weights(
        self, coefficients: np.ndarray, intercepts: np.ndarray, *, trials: int
    ) -> LinearModel:
        """A copy of this untrained model with these weights, as if after so many trials.

        Their rows are unknown, so bounds use only what is learned later.
        """
        if not (np.isfinite(coefficients).all() and np.isfinite(intercepts).all()):
            raise ValueError("The weights are not all numbers.")
        offset = self.tail.offset
        if offset == 0.0 and np.any(intercepts):
            raise ValueError("There are intercepts, but no coordinate for them.")
        model = self.copy()
        model.linear.weights[:, : self.width()] = coefficients
        if offset > 0.0:
            model.linear.weights[:, self.width()] = np.asarray(intercepts) / offset
        model.tally.trials = trials
        fold_all(model.linear)
        return model.continued()

    # ----------------------------------------------------------------------------- what was learned
    def weights(self) -> np.ndarray:
        """The weights of features, the intercept's coordinate, and private coordinates."""
        vectors = self.linear.weights if self.p == 2.0 else self.linear.geometry.dual()
        return self._averaged(vectors, self.linear.scalars.table.scale)

    def _averaged(self, weights: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """The scaled weights, or their mean over all trials if the model averages."""
        if not self.spec.average or self.trials() == 0:
            return weights * scales[:, None]
        witness = self.linear.witness
        return mean_weights(weights, scales, witness.average, witness.past, self.trials())

    def coefficients(self) -> np.ndarray:
        return self.weights()[:, : self.linear.width]

    def intercepts(self) -> np.ndarray:
        return self.tail.offset * self.weights()[:, self.linear.width]

    def free_intercepts(self) -> np.ndarray:
        """Intercepts that are not weights of a coordinate."""
        return np.zeros(self.linear.scalars.table.size)

    def outputs(self, X: Any) -> np.ndarray:
        coefficients = self.coefficients()[:, : X.shape[1]]  # without spare columns
        return safe_sparse_dot(X, coefficients.T, dense_output=True) + self.intercepts()

    def formula(self, features: int) -> Planes:
        return Planes(self.coefficients()[:, :features], self.intercepts())

    def margins(self, rows: Any, targets: Any) -> np.ndarray:
        weights = self.weights()
        lowest, rounding = np.empty(weights.shape[0]), bounds.rounding_of_products(weights)
        lowest_outputs(rows, targets, weights, self.free_intercepts(), rounding, lowest)
        return geometric_margins(lowest, weights, self.linear.width, self.p)

    def bounds(self) -> np.ndarray:
        return bounds.hull_bounds(self.hull())

    def evidence(self, features: int) -> list[Evidence]:
        intercept = self.tail.offset > 0.0 or self.spec.has_pairs()
        return evidence_of(self.hull(), features, intercept, self.tail.private)

    def hull(self) -> Hull:
        """The sums behind the bounds."""
        linear, witness = self.linear, self.linear.witness
        largest_xx, offset = float(self.tally.largest_xx[0]), self.tail.offset
        return Hull(
            geometry=linear.geometry,
            width=linear.width,
            split=witness.split,
            weights=linear.weights,
            mark=witness.mark,
            share=witness.share,
            mark_share=witness.mark_share,
            scalars=linear.scalars,
            radius=bounds.radius_of_features(largest_xx, offset, self.p),
        )

    def ceiling(self, rows: Any, radius: float) -> float:
        private = self.tail.private / np.sqrt(np.min(getattr(rows.tail, "sample_weight", 1.0)))
        # Below p = 2 the p-norm exceeds the Euclidean one by at most this factor.
        factor = (self.width() + 1) ** max(0.0, 1.0 / self.p - 0.5)
        return bounds.ceiling(factor * float(np.hypot(radius, private)), joint=self.is_joint)

    def updates(self) -> int:
        updates = self.linear.scalars.table.updates
        return int(updates[0] if self.is_joint else updates.sum())

    def is_finite(self) -> bool:
        numbers = self.linear.scalars.table.norm2, self.linear.weights
        return all(bool(np.isfinite(each).all()) for each in numbers)


class PairModel(LinearModel):
    """Weights with a free intercept, learned from pairs of examples."""

    pair: Annotated[PairSpace, Saved()]

    def _allocate(self, sizes: dict[str, int]) -> None:
        self.pair = blank(PairSpace, sizes, linear=self.linear)

    @property
    def space(self) -> Any:
        return self.pair

    def begin_rows(self) -> None:
        numbers = self.pair.numbers
        numbers[numbers >= 0] = ELSEWHERE

    def keeps_row_numbers(self) -> bool:
        return bool((self.pair.numbers >= 0).any())

    def continued(self) -> LinearModel:
        model: Any = super().continued()
        numbers = model.pair.numbers
        numbers[numbers != NOBODY] = FOREIGN
        model.await_own_members()
        return model

    def await_own_members(self) -> None:
        """Let bounds use only coefficients after the last step along a foreign member."""
        foreign = (self.pair.numbers == FOREIGN).any(axis=1)
        certifiable = self.linear.scalars.table.certifiable
        np.minimum(certifiable, AWAITING, out=certifiable, where=foreign)

    def maintain(self, space: Any) -> None:
        super().maintain(space)
        scalars, is_known = self.linear.scalars.table, (self.pair.numbers != FOREIGN).all(axis=1)
        if (ready := is_known & (scalars.certifiable == AWAITING)).any():
            scalars.certifiable[ready] = SINCE_SNAPSHOT
            self.forget_bounds(ready)

    def _without_private_coordinates(self) -> PairModel:
        model: Any = super()._without_private_coordinates()
        for c, side in np.argwhere(self.pair.numbers >= 0):
            weight = self.linear.weights[c, self.width() + 1 + self.pair.numbers[c, side]]
            model.pair.private[c, side] = weight
            # After a warm start, the private weight of a row may be that of a row of the other
            # class. Steps along it then decrease the sum of squares, which no longer bounds them.
            if weight < 0.0 if side == POSITIVE else weight > 0.0:
                model.pair.numbers[c, side] = FOREIGN
        model.await_own_members()
        return model

    def without_rows(self) -> LinearModel:
        # Private coordinates of members may be shorter than those of other rows.
        model: Any = super().without_rows()
        model.pair.numbers[:] = NOBODY
        for array in (model.pair.members, model.pair.squares, model.pair.private):
            array[:] = 0.0
        return model

    def intercepts(self) -> np.ndarray:
        return self.pair.bias.copy()

    def free_intercepts(self) -> np.ndarray:
        return self.pair.bias


class DiagonalModel(LinearModel):
    """Weights that move along ``Sigma x``, for the diagonal matrix of a `DiagonalSpace`.

    They are no sums of rows, so margins are bounded only by the norms of the rows.
    """

    diagonal: Annotated[DiagonalSpace, Saved()]
    spec: DiagonalSpec

    def _allocate(self, sizes: dict[str, int]) -> None:
        table, spec = self.linear.scalars.table, self.spec
        table.certifiable, table.next_mark = 0.0, NEVER
        parameters: Any = {"follows": spec.scaling == "columns"}
        if spec.regularization is not None:
            parameters |= asdict(spec.regularization)
        metric = blank(METRICS[spec.metric or ""], sizes, **parameters)
        self.diagonal = blank(DiagonalSpace, sizes, linear=self.linear, metric=metric)

    @property
    def space(self) -> Any:
        return self.diagonal

    @property
    def scored_by(self) -> Any:
        return self.linear


def weighted_tail(model: Any, sample_weight: np.ndarray) -> WeightedTail:
    """The coordinates behind the features of rows with these weights."""
    if model.p != 2.0:
        raise ValueError(
            "Sample weights cannot be combined with a soft margin for p != 2: use soft_margin=0, "
            "or p=2."
        )
    if model.spec.has_pairs() and not model.private_coordinates():
        raise ValueError(
            "Sample weights cannot be combined with a soft margin for pairs on a stream: use fit, "
            "soft_margin=0, or another learner."
        )
    return WeightedTail(model.tail.offset, model.tail.private, sample_weight)


def new_joint_space(linear: LinearSpace, spec: WeightsSpec) -> JointSpace:
    classes = linear.weights.shape[0]
    return JointSpace(linear, new_rivals(classes), rivals_policy(spec, classes))


def rivals_policy(spec: WeightsSpec, classes: int) -> OneBest | KBest:
    """The policy that selects the rivals in a step."""
    most = spec.most_rivals(classes)
    return OneBest(1) if most is None else KBest(min(most, classes - 1))


class JointModel(LinearModel):
    """Weights of several classes, whose common scalars are in ``linear.scalars.table[0]``."""

    joint: Annotated[JointSpace, Saved()]

    loop = staticmethod(learn_jointly)
    is_joint = True

    def _allocate(self, sizes: dict[str, int]) -> None:
        off = () if self.spec.average else ("average", "past")
        self.linear = self.linear._replace(witness=blank(JointWitness, sizes, off=off))
        self.joint = new_joint_space(self.linear, self.spec)

    @property
    def space(self) -> Any:
        return self.joint

    def _fits(self, witness: Any) -> bool:
        # The loop does not ask whether there are marks.
        return bool(witness.mark.shape == self.linear.weights.shape)

    def forget_bounds(self, which: Any = slice(None)) -> None:
        self.linear.scalars.table.certifiable[0] = 0.0  # old coefficients cannot be separated

    def _without_private_coordinates(self) -> JointModel:
        model: JointModel = without_private_coordinates(self, self.width())
        table = model.linear.scalars.table
        table.hidden_positive[0] += (self.linear.weights[:, self.width() + 1 :] ** 2).sum()
        table.mark_positive[0], table.mark_negative[0] = table.positive[0], table.negative[0]
        table.mark_hidden_positive[0] = table.hidden_positive[0]
        model.linear.witness.mark[:] = model.linear.weights
        return model

    def maintain(self, space: Any) -> None:
        maintain(space)
        scalars = self.linear.scalars.table
        if scalars.updates[0] >= scalars.next_mark[0]:
            self.linear.witness.mark[:] = self.linear.weights
            mark_masses(scalars, np.zeros(1, np.intp))

    def weights(self) -> np.ndarray:
        return self._averaged(self.linear.weights, self.linear.scalars.table.scale[:1])

    def margins(self, rows: Any, targets: Any) -> np.ndarray:
        """A lower bound on the lead of each row's class over its rivals, over the length of W."""
        weights = self.weights()
        length = np.linalg.norm(np.delete(weights, self.width(), axis=1))
        rounding = bounds.rounding_of_products(weights.reshape(1, -1))  # at least that of each line
        lead = lowest_lead(rows, targets, weights, float(rounding[0]))
        return np.array([lead / length if length > 0.0 else 0.0])

    def bounds(self) -> np.ndarray:
        scalars = self.linear.scalars.table[0]
        if scalars.certifiable == 0.0:
            return np.array([np.inf])
        weights, hidden = self.linear.weights, scalars.hidden_positive
        of_all = self._bound_from(weights, hidden, scalars.positive)
        rounded = hidden * (1.0 + 8.0 * ROUNDING * (scalars.updates + 1.0))
        since_snapshot = self._bound_from(
            weights - self.linear.witness.mark,
            rounded - scalars.mark_hidden_positive,
            scalars.positive - scalars.mark_positive,
        )
        return np.array([min(of_all, since_snapshot)])

    def _bound_from(self, weights: np.ndarray, hidden: float, mass: float) -> float:
        width, offset, scalars = self.width(), self.tail.offset, self.linear.scalars.table[0]
        squares = (np.delete(weights, width, axis=1) ** 2).sum() + hidden
        imbalance = weights[:, width] / offset if offset > 0.0 else np.zeros(1)
        radius = bounds.radius_of_features(self.tally.largest_xx[0], offset)
        bound = joint_bounds.joint_bound(squares, imbalance, mass, radius, offset > 0.0)
        lost = joint_bounds.joint_rounding(scalars.updates, scalars.positive, mass, radius)
        return bound + lost

    def evidence(self, features: int) -> list[Evidence]:
        return []


# ---------------------------------------------------------------------------------- specifications
@build_for.register
def _linear(spec: LinearSpec, given: Beginning) -> Built:
    spec.check(given.problems, given.unseen)
    if spec.is_joint(given.problems):
        return _of_features(JointModel, spec, given)
    return _of_features(PairModel if spec.has_pairs() else LinearModel, spec, given)


@build_for.register
def _diagonal(spec: DiagonalSpec, given: Beginning) -> Built:
    spec.check(given.problems, given.unseen)
    return _of_features(DiagonalModel, spec, given)


def _of_features(kind: type[LinearModel], spec: LinearSpec, given: Beginning) -> Built:
    width, radius = given.X.shape[1], given.radius
    p = spec.exponent(width)
    if radius is not None and spec.intercept_scaling == "max" and p != 2.0:
        geometry = new_pnorm(p, 0, width)
        radius = float(np.sqrt(largest_square(as_rows(given.X, NO_TAIL), geometry)))
    private = given.X.shape[0] if spec.soft_margin > 0.0 and radius is not None else 0
    model = kind(spec, given.problems, width, private, spec.tail(radius), p)
    return Built(model, model.rows(given.X, given.sample_weight), radius or 0.0)
