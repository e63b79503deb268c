"""Models whose weights are vectors over the features, one per class, all learned together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from maxmargin.certificates import bounds, joint_bounds
from maxmargin.certificates.evidence import Evidence
from maxmargin.core.array_fields import Saved, blank, without_private_coordinates
from maxmargin.core.joint_loop import learn_jointly, new_rivals
from maxmargin.core.loop import maintain
from maxmargin.core.row_scans import lowest_lead
from maxmargin.core.rows import Tail
from maxmargin.models.linear_model import LinearModel
from maxmargin.models.resizing import sum_up_private_blocks
from maxmargin.models.spec import ModelSpec
from maxmargin.spaces.joint_space import JointSpace, JointWitness, KBest, OneBest
from maxmargin.spaces.linear_space import LinearSpace
from maxmargin.spaces.problem_scalars import ROUNDING


def new_joint_space(linear: LinearSpace, spec: ModelSpec) -> JointSpace:
    """A space over the weights of ``linear``."""
    classes = linear.weights.shape[0]
    return JointSpace(linear, new_rivals(classes, spec.costs), rivals_policy(spec, classes))


def rivals_policy(spec: ModelSpec, classes: int) -> OneBest | KBest:
    """Which rivals of a row a step takes into account."""
    most = spec.most_rivals(classes)
    return OneBest(1) if most is None else KBest(min(most, classes - 1))


def check_costs(wanted: Sequence[Sequence[float]], classes: int) -> None:
    """Raise unless so many classes are learned together, 0 if each is learned for itself."""
    if classes == 0:
        raise ValueError(
            "The 'costs' parameter is for three or more classes that are learned together: with "
            "multiclass='k-best' or '1-best', and without intercept='pair'."
        )
    if len(wanted) != classes:
        raise ValueError(
            f"The 'costs' parameter is for {len(wanted)} classes, but there are {classes}."
        )


class JointModel(LinearModel):
    """Weights of several classes; ``linear.scalars.table[0]`` is about all of them."""

    joint: Annotated[JointSpace, Saved()]

    loop = staticmethod(learn_jointly)
    is_joint = True

    def __init__(
        self, spec: ModelSpec, problems: int, width: int, private: int, tail: Tail, p: float
    ) -> None:
        super().__init__(spec, problems, width, private, tail, p)
        sizes = {"problems": problems, "coordinates": width + 1 + private}
        witness = blank(JointWitness, sizes, off=() if spec.average else ("average", "past"))
        self.linear = self.linear._replace(witness=witness)
        self.joint = new_joint_space(self.linear, spec)

    @property
    def space(self) -> Any:
        return self.joint

    def verdicts(self) -> int:
        return 1

    def forget_bounds(self, which: Any = slice(None)) -> None:
        self.linear.scalars.table.certifiable[0] = 0.0  # old coefficients are here to stay

    def _without_private_coordinates(self) -> JointModel:
        model = without_private_coordinates(self, self.width())
        sum_up_private_blocks(self.linear, model.linear)
        return model

    def maintain(self, space: Any) -> None:
        maintain(space)

    def weights(self) -> np.ndarray:
        return self._averaged(self.linear.weights, self.linear.scalars.table.scale[:1])

    def margins(self, rows: Any, targets: Any) -> np.ndarray:
        """The lead of each row's own class over its rivals, at least, over the length of W."""
        weights = self.weights()
        length = np.linalg.norm(np.delete(weights, self.width(), axis=1))
        rounding = bounds.rounding_of_products(weights.reshape(1, -1))  # of all lines, at least
        lead = lowest_lead(rows, targets, weights, float(rounding[0]), self.joint.rivals)
        return np.array([lead / length if length > 0.0 else 0.0])

    def bounds(self) -> np.ndarray:
        mine = self.linear.scalars.table[0]
        if mine.certifiable == 0.0:
            return np.array([np.inf])
        weights, hidden = self.linear.weights, mine.hidden_positive
        ever = self._bound_from(weights, hidden, mine.positive, mine.negative)
        since = self._bound_from(
            weights - self.linear.witness.mark,
            hidden * (1.0 + 8.0 * ROUNDING * (mine.updates + 1.0)) - mine.mark_hidden_positive,
            mine.positive - mine.mark_positive,
            mine.negative - mine.mark_negative,
        )
        return np.array([min(ever, since)])

    def _bound_from(
        self, weights: np.ndarray, hidden: float, mass: float, costs_of_mass: float
    ) -> float:
        width, offset, mine = self.width(), self.tail.offset, self.linear.scalars.table[0]
        squares = (np.delete(weights, width, axis=1) ** 2).sum() + hidden
        imbalance = weights[:, width] / offset if offset > 0.0 else np.zeros(1)
        radius = bounds.radius_of_features(self.tally.largest_xx[0], offset)
        radius *= joint_bounds.spread(self.joint.rivals.costs, self._classes_with_rows())
        bound = joint_bounds.joint_bound(squares, imbalance, mass, radius, offset > 0.0)
        bound += joint_bounds.joint_rounding(mine.updates, mine.positive, mass, radius)
        if self.spec.costs is None:
            return bound
        bound += joint_bounds.joint_rounding(mine.updates, mine.negative, costs_of_mass, radius)
        return joint_bounds.bound_in_costs(bound, mass, costs_of_mass)

    def _classes_with_rows(self) -> int:
        """Those, at least, whose rows brought updates; see `JointSpace.book_all`."""
        updates = self.linear.scalars.table.updates
        return int((updates[1:] > 0).sum() + (updates[0] > updates[1:].sum()))

    def ceiling(self, rows: Any, radius: float) -> float:
        return super().ceiling(rows, radius) / joint_bounds.of_rivals(self.joint.rivals.costs).min()

    def evidence(self, features: int) -> list[Evidence]:
        return []

    def updates(self) -> int:
        return int(self.linear.scalars.table.updates[0])
