"""Linear models of several classes that are learned jointly."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from maxmargin.certificates import bounds, joint_bounds
from maxmargin.certificates.evidence import Evidence
from maxmargin.core.array_fields import Saved, blank, without_private_coordinates
from maxmargin.core.joint_loop import learn_jointly, new_rivals
from maxmargin.core.loop import maintain
from maxmargin.core.row_scans import lowest_lead
from maxmargin.models.linear_model import LinearModel
from maxmargin.models.spec import WeightsSpec
from maxmargin.spaces.joint_space import JointSpace, JointWitness, KBest, OneBest
from maxmargin.spaces.linear_space import LinearSpace
from maxmargin.spaces.problem_scalars import ROUNDING, mark_masses


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
