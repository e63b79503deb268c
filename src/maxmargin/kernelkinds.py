"""Kernel models with a free intercept, and of several classes together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.core.loop import learn_jointly
from maxmargin.core.rows import Tail
from maxmargin.kernelmodel import KernelModel
from maxmargin.kernels import Points
from maxmargin.spaces.joint import joint_bound, new_joint_space
from maxmargin.spaces.linear import LinearSpace
from maxmargin.spaces.pair import NOBODY, PairSpace


class PairKernelModel(KernelModel):
    """Weights with a free intercept, learnt from pairs of examples; see `PairSpace`."""

    def __init__(self, problems: int, width: int, tail: Tail, *args: Any, **kwargs: Any) -> None:
        super().__init__(problems, width, tail._replace(offset=0.0), *args, **kwargs)
        self.bias = np.zeros(problems)
        self.members = np.full((problems, 2), NOBODY)

    def space_over(self, linear: LinearSpace, numbers: np.ndarray) -> PairSpace:
        problems, size = linear.weights.shape
        members = np.zeros((2 * problems + 1, size))
        squares = np.zeros((problems, 2))
        for c, side in np.argwhere(numbers >= 0):
            members[2 * c + side, numbers[c, side]] = 1.0
            squares[c, side] = linear.geometry.diagonal[numbers[c, side]]
        return PairSpace(linear, self.bias, members, numbers, squares, np.zeros((problems, 2)))

    def _grow_supports(self, width: int, which: Sequence[int], numbers: np.ndarray) -> None:
        super()._grow_supports(width, which, numbers)
        self.bias, self.members = self.bias[which], self.members[which]

    def free_intercepts(self) -> np.ndarray:
        return self.bias.copy()

    def _has_intercept(self) -> bool:
        return True


class JointKernelModel(KernelModel):
    """Weights of several classes that are learnt together; see `JointSpace`."""

    loop = staticmethod(learn_jointly)

    def __init__(self, *args: Any, most: int | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.most = most

    def space_over(self, linear: LinearSpace, numbers: np.ndarray) -> Any:
        return new_joint_space(linear, self.most)

    def verdicts(self) -> int:
        return 1

    def scales(self) -> np.ndarray:
        return self.scalars.scale[:1, None]

    def largest_margin(self, radius: float) -> float:
        return float(np.sqrt(2.0)) * super().largest_margin(radius)

    def sum_up(self, coefs: np.ndarray, outputs: np.ndarray) -> None:
        self.scalars.norm2[0] = self.scalars.scale[0] ** 2 * (coefs * outputs).sum()
        self.scalars.slop[0] = 0.0

    def _squared_lengths(self, weights: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        return super()._squared_lengths(weights, outputs).sum(keepdims=True)

    def _leads(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        rows = np.arange(labels.size)
        own = outputs[labels, rows]
        rivals = outputs.copy()
        rivals[labels, rows] = -np.inf
        return (own - rivals.max(axis=0)).min(keepdims=True)

    def _bounds_from(
        self, coefs: np.ndarray, points: Points, diagonal: np.ndarray, labels: np.ndarray
    ) -> np.ndarray:
        """Coefficients of rivals count where they are negative, those of own classes follow."""
        rows = np.arange(labels.size)
        mixture = np.minimum(coefs, 0.0)
        mixture[labels, rows] = 0.0
        lifts = -mixture.sum(axis=0)
        mixture[labels, rows] = lifts
        squares = self._quadratic(mixture, points, diagonal).sum()
        radius = np.sqrt(max(self.tally.rr[0] - self.shift, 0.0))
        imbalance = mixture.sum(axis=1)
        bound = joint_bound(squares, imbalance, lifts.sum(), radius, self.shift > 0.0)
        return np.array([bound])
