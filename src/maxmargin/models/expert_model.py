"""Models of many experts, which predict by the mixture of their probabilities."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy import linalg
from sklearn.utils import check_random_state

from maxmargin.core import array_fields
from maxmargin.core.array_fields import Saved, blank
from maxmargin.core.loop import run_loop
from maxmargin.core.rows import Tail
from maxmargin.core.trace import NO_TRACE, Trace
from maxmargin.experts.expert_loop import Experts, learn_rows, outputs_of_all
from maxmargin.experts.full_matrix import FullMatrix, invalid_variances, slots_for
from maxmargin.experts.landmark_features import MOST_LANDMARKS, NEAR_LANDMARKS
from maxmargin.experts.mixture import new_mixture
from maxmargin.experts.random_features import (
    BY_JOINED_RANGES,
    BY_RANGES,
    FIRST_ROWS,
    OF_WAVES,
    ON_FEATURES,
    WIDTHS,
    NoFeatures,
    RandomFeatures,
    measures_of,
)
from maxmargin.experts.scaled_columns import ROOTED, SCALES, ScaledColumns
from maxmargin.experts.standardized_columns import (
    STANDARDIZED,
    STANDARDIZED_ROOTED,
    StandardizedColumns,
    invalid_list,
)
from maxmargin.experts.votes import invalid_weights
from maxmargin.models.base import Beginning, Built, OnlineModel, build_for, new_tally
from maxmargin.models.linear_model import MOST_COPIED_WEIGHTS, Rows, as_rows
from maxmargin.models.model_formulas import (
    Curves,
    ExpertPlanes,
    Likeness,
    MixedPlanes,
    Planes,
    Standardization,
    UncertainPlanes,
)
from maxmargin.models.spec import MixtureSpec

# The first rows and the directions take 2 kB for each column, with 256 components.
MOST_COLUMNS = 2**16


def new_experts(spec: MixtureSpec, problems: int, width: int, random_state: Any) -> Experts:
    """Experts at w = 0, and a mixture of them."""
    kinds = spec.mixture
    direct, standardized = parts_of(kinds)
    sizes = {
        "problems": problems,
        "coordinates": width + 1,
        "linear": len(direct),
        "standardized": len(standardized),
        "experts": len(kinds),
        "components": spec.n_components,
        "landmarks": min(spec.n_components, MOST_LANDMARKS),
        "directions": spec.n_components,
        "members": rules_on_features(spec),
        "slots": slots_for(width, spec.full_matrix_columns),
    }
    confident = len(direct) - direct.count(ROOTED)
    scales = np.zeros(len(direct), np.int64)
    scales[:confident] = [SCALES.index(kind) for kind in direct[:confident]]
    plain = standardized.count(STANDARDIZED)
    curves: RandomFeatures | NoFeatures = NoFeatures()
    if sizes["members"]:
        check_width(width)
        curves = blank(RandomFeatures, sizes)
        # A generator that is shared stays as it is: a model that is built again has the same seed.
        curves.seed[0] = copy.deepcopy(check_random_state(random_state)).randint(2**31 - 1)
    mixture = new_mixture(problems, len(kinds))
    mixture.slopes[:, 0] = 1.0  # outputs of the expert with a full matrix are log-odds
    full = blank(FullMatrix, sizes, limit=spec.full_matrix_columns, width=width)
    if full.limit == 0:
        full.leave()
        mixture.dismiss_first()
    return blank(
        Experts,
        sizes,
        full=full,
        columns=blank(ScaledColumns, sizes, confident=confident, scales=scales, width=width),
        standardized=blank(StandardizedColumns, sizes, confident=plain, width=width),
        curves=curves,
        mixture=mixture,
    )


def parts_of(kinds: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The kinds of experts on columns as they are, and on standardized ones."""
    standardized = STANDARDIZED, STANDARDIZED_ROOTED
    direct = tuple(kind for kind in kinds if kind in (*SCALES, ROOTED))
    return direct, tuple(kind for kind in kinds if kind in standardized)


def standardization(columns: StandardizedColumns, features: int) -> Standardization:
    """What makes features of the values of the first columns."""
    seen, which = float(columns.rows_seen[0]), slice(min(features, columns.width))
    counts, means, squares = columns.counts[0], columns.means[0], columns.squares[0]
    parts = np.where(columns.centered[0] > 0.0, counts / max(seen, 1.0), 0.0)
    spreads = squares + means**2 * counts * (1.0 - parts)
    return Standardization(
        centers=(means * parts)[which],
        spreads=np.where(parts > 0.0, spreads * (1.0 + 1.0 / max(seen, 1.0)), spreads)[which],
        counts=np.where(parts > 0.0, seen, counts + 1.0)[which],
    )


class ExpertModel(OnlineModel):
    """One mixture of experts for each problem.

    Parameters
    ----------
    spec, tail : see `OnlineModel`
    problems, width : number of mixtures and of features
    random_state : that of random features
    """

    experts: Annotated[Experts, Saved()]
    spec: MixtureSpec

    loop: ClassVar[Any] = staticmethod(learn_rows)
    outputs_are_odds: ClassVar[bool] = True
    learns_rows_in_place: ClassVar[bool] = True

    def __init__(
        self, spec: MixtureSpec, problems: int, width: int, tail: Tail, random_state: Any
    ) -> None:
        self.spec, self.tail, self.tally = spec, tail, new_tally()
        self.experts = new_experts(spec, problems, width, random_state)

    @property
    def space(self) -> Experts:
        """What the loop learns."""
        return self.experts

    def rows(self, X: Any, sample_weight: np.ndarray | None = None) -> Rows:
        return as_rows(X, self.tail)

    def problems(self) -> int:
        return self.experts.updates_made.size

    def width(self) -> int:
        return self.experts.columns.width

    def has_features(self) -> bool:
        """True if there are experts on random features."""
        return isinstance(self.experts.curves, RandomFeatures)

    # ------------------------------------------------------------------------------------ learning
    def copy(self) -> ExpertModel:
        return array_fields.own_arrays(self)

    def streaming(self, rows: int, owned: bool = False) -> ExpertModel:
        size, width = self.experts.columns.weights.size, self.width()
        is_small = size <= max(MOST_COPIED_WEIGHTS, rows * width)
        return self.copy() if rows > 1 and is_small and not owned else self

    def grown(self, width: int, which: Sequence[int], codes: np.ndarray) -> ExpertModel:
        if self.has_features():
            check_width(width)
        model = array_fields.grown(self, which, width, self.width(), codes)
        slots = slots_for(width, self.experts.full.limit)
        full = array_fields.resized(model.experts.full, slots=slots)
        model.experts = model.experts._replace(full=full)
        return model

    def allows_unused_columns(self, width: int) -> bool:
        return True

    def learn_from(
        self, rows: Any, targets: Any, order: np.ndarray, rule: Any, trace: Trace = NO_TRACE
    ) -> None:
        parts = rows, targets, order, rule, self.experts, self.tally, trace
        run_loop(*parts, learn=learn_rows, maintain=self.maintain)

    def view(self) -> Any:
        """What gives outputs, in buffers of its own."""
        return array_fields.own_buffers(self.experts)

    def maintain(self, experts: Experts) -> None:
        """Find the widths of random features, once the first rows are there."""
        curves = experts.curves
        if not isinstance(curves, RandomFeatures) or curves.have_features():
            return
        if curves.taken[0] == FIRST_ROWS:
            width, count = self.width(), curves.scratch.angles.size // 2
            found = measures_of(curves.kept[:, :width], curves.seed[0], count)
            curves.directions[0, :width], curves.pending[...] = found.directions, 1
            curves.landmarks.units[0, :width] = found.units
            curves.medians[...] = found.medians  # from here on there are features

    # ----------------------------------------------------------------------------- what was learned
    def updates(self) -> int:
        return int(self.experts.updates_made.sum())

    def invalid_reason(self) -> str:
        experts = self.experts
        return (
            invalid_weights(experts.mixture.weights)
            or invalid_list(experts.standardized)
            or invalid_variances(experts.full)
        )

    def is_finite(self) -> bool:
        """Weights that are not show in the outputs, and so in the sigmoids of these."""
        mixture = self.experts.mixture
        numbers = mixture.weights, mixture.slopes, mixture.offsets, mixture.follows
        return all(bool(np.isfinite(each).all()) for each in numbers)

    def outputs(self, X: Any) -> np.ndarray:
        """The log-odds of the positive class of each problem."""
        rows, found = self.rows(X), np.empty((X.shape[0], self.problems()))
        outputs_of_all(rows, self.view(), found)
        return found

    def formula(self, features: int) -> MixedPlanes:
        experts, mixture, first = self.experts, self.experts.mixture, self.first()
        shares, on_columns = mixture.weights.copy(), experts.on_columns()
        for c in range(self.problems()):
            awake = experts.curves.awake(c, shares.shape[1], on_columns)
            if awake < shares.shape[1]:  # the others follow the mixture of these
                shares[c, awake:] = 0.0
                shares[c] /= shares[c].sum()
        offsets = mixture.offsets + mixture.follows * mixture.surprises[:, None]
        return MixedPlanes(
            groups=self.planes(features),
            slopes=mixture.slopes[:, first:].copy(),
            offsets=offsets[:, first:],
            shares=shares[:, first:],
        )

    def first(self) -> int:
        """The number of the first expert that has not left."""
        return int(self.experts.full.left[0])

    def planes(self, features: int) -> list[ExpertPlanes | UncertainPlanes]:
        """The outputs of the experts, for rows of so many features."""
        planes: list[ExpertPlanes | UncertainPlanes] = [*self.diagonal_planes(features)]
        if self.first() == 0:
            planes = [self.full_planes(features), *planes]
        return [*planes, self.curved_planes(features)] if self.has_features() else planes

    def diagonal_planes(self, features: int) -> list[ExpertPlanes]:
        """The outputs of the experts on columns as they are, and on standardized ones."""
        width, offset, experts = self.width(), self.tail.offset, self.experts
        basis = standardization(experts.standardized, features)
        return [
            ExpertPlanes(
                how,
                np.swapaxes(part.weights[:, : min(features, width)], 1, 2).copy(),
                offset * part.weights[:, width],
            )
            for how, part in ((None, experts.columns), (basis, experts.standardized))
        ]

    def full_planes(self, features: int) -> UncertainPlanes:
        """The output of the expert with a full matrix."""
        full, offset = self.experts.full, self.tail.offset
        features = min(features, full.limit)
        variances, which = full.variances.copy(), slice(1, 1 + features)
        diagonals = np.einsum("css->cs", variances)  # a view
        diagonals[diagonals == 0.0] = 1.0  # of new columns
        return UncertainPlanes(
            standardization(self.experts.standardized, features),
            full.weights[:, which].copy(),
            offset * full.weights[:, 0],
            variances[:, which, which].copy(),
            offset * variances[:, which, 0],
            offset**2 * variances[:, 0, 0],
        )

    def curved_planes(self, features: int) -> ExpertPlanes:
        """The outputs of the experts on random features, and on those of landmarks."""
        curves, width = self.experts.curves, min(features, self.width())
        count, problems = curves.scratch.angles.size // 2, self.problems()
        unit, own_widths = 1.0 / np.sqrt(count), enumerate((BY_RANGES, BY_JOINED_RANGES))
        angles = [
            curves.directions[0, :width, k * count : (k + 1) * count] * (widths[0] / each)
            for k, widths in own_widths
            for each in widths
        ]
        # Axes: problem, width, component (of pairs), part (cosine or sine), rule.
        own = unit * curves.weights.reshape(problems, len(WIDTHS), count, 2, -1)
        rules = own.shape[-1]
        weights = np.zeros((problems, rules, len(WIDTHS), 2, len(OF_WAVES), count))
        for w in range(len(OF_WAVES)):
            weights[:, :, w, :, w] = own[:, w].transpose(0, 3, 2, 1)
        experts = rules * len(WIDTHS)
        likeness, on_likeness = self.likeness(width)
        both = weights.reshape(problems, experts, -1), on_likeness.reshape(problems, experts, -1)
        return ExpertPlanes(
            Curves(np.hstack(angles), likeness),
            np.concatenate(both, axis=2),
            np.zeros(both[0].shape[:2]),
        )

    def likeness(self, width: int) -> tuple[Likeness, np.ndarray]:
        """The landmarks that there are, and the weights of their kernel values.

        Axes: problem, rule, width, landmark.
        """
        curves, marks = self.experts.curves, self.experts.curves.landmarks
        size, counts = marks.heights.shape[1], marks.counts
        shape = self.problems(), len(WIDTHS), *curves.weights.shape[1:]
        of_lines = curves.weights.reshape(shape)
        which = np.concatenate([size * w + np.arange(count) for w, count in enumerate(counts)])
        weights = np.zeros((self.problems(), of_lines.shape[3], len(WIDTHS), which.size))
        for w, count in enumerate(counts):
            factor = marks.factors[w, :count, :count].T + np.diag(marks.heights[w, :count])
            line, first = len(OF_WAVES) + w, counts[:w].sum()
            solved = linalg.solve_triangular(factor, np.eye(count), lower=True)
            own = np.einsum("cke,kl->cel", of_lines[:, line, :count], solved)
            weights[:, :, line, first : first + count] = own
        bends = 0.5 / np.repeat(np.square(NEAR_LANDMARKS), counts)
        points = marks.points[0, :width, which].T
        return Likeness(marks.units[0, :width].copy(), points, marks.squares[which], bends), weights

    def pooled(self) -> Planes:
        """One plane for each problem: the mean of the experts' log-odds, by their weights.

        Unlike the log-odds of the mean, which are `outputs`, and without the surprise of the last
        row: such a plane is for any row. Of standardized columns it has ``d sqrt(count / spread)``,
        to which their features tend with more rows.
        """
        mixture, width = self.experts.mixture, self.width()
        direct, scaled = self.diagonal_planes(width)
        basis = standardization(self.experts.standardized, width)
        first, slopes = self.experts.on_standardized(), mixture.weights * mixture.slopes
        intercepts = np.hstack([direct.intercepts, scaled.intercepts])
        offsets = (mixture.weights * mixture.offsets).sum(axis=1)
        offsets += (slopes[:, 1:] * intercepts).sum(axis=1)
        weights = np.einsum("ce,cej->cj", slopes[:, 1:first], direct.weights)
        units = np.sqrt(basis.counts / np.where(basis.spreads > 0.0, basis.spreads, np.inf))
        own = np.einsum("ce,cej->cj", slopes[:, first:], scaled.weights)
        if self.first() == 0:
            tangent = self.full_planes(width).tangent()
            offsets += slopes[:, 0] * tangent.intercepts
            own[:, : tangent.weights.shape[1]] += slopes[:, :1] * tangent.weights
        own *= units
        return Planes(weights + own, offsets - own @ basis.centers)


def rules_on_features(spec: MixtureSpec) -> int:
    """The number of rules on the features of one width."""
    return spec.mixture.count(ON_FEATURES) // len(WIDTHS)


def shapes_of_weights(spec: MixtureSpec, problems: int, width: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the largest arrays of a mixture, by their names in files."""
    direct, standardized = map(len, parts_of(spec.mixture))
    shapes: dict[str, tuple[int, ...]] = {
        "experts.full.weights": (problems, slots_for(width, spec.full_matrix_columns)),
        "experts.columns.weights": (problems, width + 1, direct),
        "experts.standardized.weights": (problems, width + 1, standardized),
    }
    if rules := rules_on_features(spec):
        shapes["experts.curves.weights"] = problems * len(WIDTHS), spec.n_components, rules
    return shapes


def check_width(width: int) -> None:
    """Raise if random features of so many columns would take too much memory."""
    if width > MOST_COLUMNS:
        raise ValueError(
            f"kernel='rbf' supports at most {MOST_COLUMNS} columns, because it stores n_components "
            f"numbers for each of them; X has {width}. Use kernel='linear' instead."
        )


@build_for.register
def _mixture(spec: MixtureSpec, given: Beginning) -> Built:
    tail, width = Tail(float(spec.fit_intercept), 0.0), given.X.shape[1]
    model = ExpertModel(spec, given.problems, width, tail, given.random_state)
    return Built(model, model.rows(given.X), given.radius or 0.0)
