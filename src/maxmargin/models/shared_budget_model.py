"""A kernel's model in bounded memory for classes that are learned together: one set of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.certificates import bounds, joint_bounds
from maxmargin.core.joint_loop import learn_jointly, new_rivals
from maxmargin.models.budget_model import BudgetModel, SharedStore
from maxmargin.models.joint_model import rivals_policy
from maxmargin.spaces.budget_space import SharedSlotSpace, SlotSpace


class SharedBudgetModel(BudgetModel):
    """Weights of several classes over at most `budget` rows in all; see `SharedSlotSpace`.

    Each row has a coefficient for each class.
    """

    new_store = SharedStore
    loop = staticmethod(learn_jointly)

    def space_over(self, slots: SlotSpace) -> SharedSlotSpace:
        classes = self.problems()
        rivals = new_rivals(classes, self.spec.costs)
        return SharedSlotSpace(slots, rivals, rivals_policy(self.spec, classes), np.zeros(classes))

    def _costs(self) -> np.ndarray:
        """Of each class over its rivals; empty if all are 1."""
        return np.array(self.spec.costs or ())

    def verdicts(self) -> int:
        return 1

    def scales(self) -> np.ndarray:
        return np.full((self.problems(), 1), self.scalars.table.scale[0])

    def _leads(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return np.array([joint_bounds.joint_leads(outputs, labels, self._costs())])

    def _bound(self, c: int) -> float:
        """By the coefficients with the signs of their constraints, and by all projections.

        The second needs the imbalance of full steps where there is an intercept, which is not kept.
        """
        store, mine, intercept = self.store, self.scalars.table[0], self.shift > 0.0
        taken = int(store.slots.taken[0])
        labels, costs = store.labels[0, :taken], self._costs()
        mixture = joint_bounds.joint_mixture(mine.scale * store.slots.coefs[:, :taken], labels)
        square = self._square_of_sum(0, mixture)
        given = mixture, labels, square, self._radius(), costs, intercept
        bound = joint_bounds.mixture_bound(*given)
        if np.isnan(square):
            return np.nan
        if self.eviction.slack is not None and mine.certifiable and not intercept:
            mass = mine.scale * mine.positive
            # A constraint has what is cut off from its row in two blocks.
            length = np.sqrt(self._squared_length(0)) + self._cut_off(0, np.sqrt(2.0) * mass)
            projected = length / mass if mass > 0.0 else np.inf
            if costs.size:
                projected = joint_bounds.bound_in_costs(projected, mass, mine.scale * mine.negative)
            bound = np.minimum(bound, projected)  # NaN if one is
        return float(bound) * (1.0 + bounds.RELATIVE_SLACK)

    def ceiling(self, rows: Any, radius: float) -> float:
        largest = float(np.sqrt(self.largest_square + self.ridge))
        return bounds.ceiling(largest, joint=True) / joint_bounds.of_rivals(self._costs()).min()

    def updates(self) -> int:
        return int(self.scalars.table.updates[0])
