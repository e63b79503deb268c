"""Models of linear experts and experts on random Fourier features, which predict by one mixture."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from sklearn.utils import check_random_state

from maxmargin.core.array_fields import Saved, blank
from maxmargin.core.loop import present
from maxmargin.core.rows import Tail
from maxmargin.core.trace import NO_TRACE, Trace
from maxmargin.models.base import new_tally
from maxmargin.models.expert_model import ExpertModel, new_expert_space, parts_of
from maxmargin.models.model_formulas import ExpertPlanes, MixedPlanes, Waves
from maxmargin.models.spec import ModelSpec
from maxmargin.spaces.expert_space import ExpertSpace
from maxmargin.spaces.fourier_space import (
    BY_JOINED_RANGES,
    BY_RANGES,
    FIRST_ROWS,
    ON_FEATURES,
    WIDTHS,
    FourierExperts,
    FourierSpace,
    directions_for,
)

# The first rows and the directions take 2 kB for each column, with 256 components.
MOST_COLUMNS = 2**16


class FourierModel(ExpertModel):
    """One mixture of linear experts, and of experts on random features, for each problem.

    Parameters
    ----------
    spec, tail : see `Model`
    problems, width : number of mixtures and of features
    random_state : that of the directions
    """

    space: Annotated[FourierSpace, Saved()]  # type: ignore[assignment]

    def __init__(
        self, spec: ModelSpec, problems: int, width: int, tail: Tail, random_state: Any
    ) -> None:
        check_width(width)
        self.spec, self.tail, self.tally, self.unsettled = spec, tail, new_tally(), False
        members = rules_on_features(spec)
        linear = new_expert_space(spec.mixture, problems, width)
        sizes = {
            "problems": problems,
            "coordinates": width + 1,
            "components": spec.n_components,
            "directions": spec.n_components,
            "members": members,
        }
        curves = blank(FourierExperts, sizes)
        # A generator that is shared stays as it is: a model that is built again has the same seed.
        curves.seed[0] = copy.deepcopy(check_random_state(random_state)).randint(2**31 - 1)
        self.space = FourierSpace(linear, curves)

    def linear(self) -> ExpertSpace:
        return self.space.linear

    def grown(self, width: int, which: Sequence[int], codes: np.ndarray) -> FourierModel:
        check_width(width)
        grown: FourierModel = super().grown(width, which, codes)  # type: ignore[assignment]
        return grown

    def present(
        self, rows: Any, targets: Any, order: np.ndarray, rule: Any, trace: Trace = NO_TRACE
    ) -> None:
        present(rows, targets, order, rule, self.space, self.tally, trace, maintain=self.maintain)

    def maintain(self, space: FourierSpace) -> None:
        """Find the widths, once the first rows are there."""
        curves = space.curves
        if curves.taken[0] == FIRST_ROWS and curves.medians[0] == 0.0:
            width, count = self.width(), curves.angles.size // 2
            directions, medians = directions_for(curves.kept[:, :width], curves.seed[0], count)
            curves.directions[0, :width], curves.pending[...] = directions, 1
            curves.medians[...] = medians  # from here on there are features

    def settle(self) -> None:
        self.maintain(self.space)
        super().settle()

    def formula(self, features: int) -> MixedPlanes:
        formula, first = super().formula(features), self.space.linear.column_experts()
        for c in range(self.problems()):
            if self.space.awake(c) == first:  # the others predict as these do
                formula.shares[c, first:] = 0.0
                formula.shares[c] /= formula.shares[c].sum()
        return formula

    def planes(self, features: int) -> list[ExpertPlanes]:
        curves, width = self.space.curves, min(features, self.width())
        count, problems = curves.angles.size // 2, self.problems()
        unit, own_widths = 1.0 / np.sqrt(count), enumerate((BY_RANGES, BY_JOINED_RANGES))
        angles = [
            curves.directions[0, :width, k * count : (k + 1) * count] * (widths[0] / each)
            for k, widths in own_widths
            for each in widths
        ]
        # Axes: problem, width, component (of pairs), part (cosine or sine), rule.
        own = unit * curves.weights.reshape(problems, len(WIDTHS), count, 2, -1)
        rules = own.shape[-1]
        weights = np.zeros((problems, rules, len(WIDTHS), 2, len(WIDTHS), count))
        for w in range(len(WIDTHS)):
            weights[:, :, w, :, w] = own[:, w].transpose(0, 3, 2, 1)
        experts = rules * len(WIDTHS)
        curved = ExpertPlanes(
            Waves(np.hstack(angles)),
            weights.reshape(problems, experts, -1),
            np.zeros((problems, experts)),
        )
        return [*super().planes(features), curved]


def rules_on_features(spec: ModelSpec) -> int:
    """The number of rules on the features of one width."""
    return spec.mixture.count(ON_FEATURES) // len(WIDTHS)


def shapes_of_weights(spec: ModelSpec, problems: int, width: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the largest arrays of a mixture, by their names in files."""
    direct, standardized = map(len, parts_of(spec.mixture))
    rules = rules_on_features(spec)
    place = "space.linear" if rules else "space"
    shapes: dict[str, tuple[int, ...]] = {
        f"{place}.columns.weights": (problems, width + 1, direct),
        f"{place}.standardized.weights": (problems, width + 1, standardized),
    }
    if rules:
        curved = problems * len(WIDTHS), spec.n_components, rules
        shapes["space.curves.weights"] = curved
    return shapes


def check_width(width: int) -> None:
    """Raise if random features of so many columns would take too much memory."""
    if width > MOST_COLUMNS:
        raise ValueError(
            f"kernel='rbf' supports at most {MOST_COLUMNS} columns, because it stores n_components "
            f"numbers for each of them; X has {width}. Use kernel='linear' instead."
        )
