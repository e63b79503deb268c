"""Hyperplanes from a solver that used all rows at once."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot

from maxmargin._extras import is_on_device
from maxmargin.certificates.evidence import Evidence
from maxmargin.core.array_fields import Array, new_arrays
from maxmargin.kernels.points import library_of
from maxmargin.models.model_formulas import Planes
from maxmargin.solvers.newton import Solution


class Hyperplanes:
    """Weights and intercepts, with the sums that prove the bounds on their margins.

    It has the query methods of a `Model`, but cannot learn.

    Attributes
    ----------
    sums : weighted sums of the rows behind each bound, of both classes and of the positive one
    masses, hidden : sums of their coefficients, and of squares in private coordinates
    grounds : for each problem: whether it has an intercept, the private coordinate of a row, the
        number of rows in the sums, and the largest norm of a row
    proved : the bounds, which do not follow from sums with the hinge loss
    """

    weights: Annotated[np.ndarray, Array("problems", "features")]
    bias: Annotated[np.ndarray, Array("problems")]
    sums: Annotated[np.ndarray, Array("problems", 2, "features")]
    masses: Annotated[np.ndarray, Array("problems", 2)]
    hidden: Annotated[np.ndarray, Array("problems", 2)]
    grounds: Annotated[np.ndarray, Array("problems", 4)]
    proved: Annotated[np.ndarray, Array("problems")]

    has_supports = False

    def __init__(self, problems: int, width: int) -> None:
        vars(self).update(new_arrays(Hyperplanes, {"problems": problems, "features": width}))

    @classmethod
    def of(cls, found: Solution) -> Hyperplanes:
        model = cls(found.weights.shape[0], found.weights.shape[1] - 1)
        model.weights, model.bias = found.weights[:, :-1].copy(), found.weights[:, -1].copy()
        model.proved = found.bounds
        for c, behind in enumerate(found.evidence):
            model.sums[c], model.masses[c] = behind.vectors, behind.masses
            model.hidden[c] = behind.hidden
            model.grounds[c] = behind.split, behind.private, behind.updates, behind.radius
        return model

    def width(self) -> int:
        return self.weights.shape[1]

    def problems(self) -> int:
        return self.bias.size

    def verdicts(self) -> int:
        return self.bias.size

    def trials(self) -> int:
        """0, so that margins measured by a fit stay valid."""
        return 0

    def coefficients(self) -> np.ndarray:
        return self.weights

    def intercepts(self) -> np.ndarray:
        return self.bias

    def outputs(self, X: Any) -> np.ndarray:
        """``w.x + b`` for each row and problem."""
        if type(X) is not np.ndarray and is_on_device(X):
            outputs = X @ library_of(X).asarray(np.ascontiguousarray(self.weights.T))
            return np.asarray(outputs.get()) + self.bias
        return safe_sparse_dot(X, self.weights.T, dense_output=True) + self.bias

    def formula(self, features: int) -> Planes:
        return Planes(self.weights, self.bias)

    def bounds(self) -> np.ndarray:
        """Upper bounds on the best margins."""
        return self.proved

    def evidence(self, features: int) -> list[Evidence]:
        if not self.grounds.any():
            return []
        return [
            Evidence(
                p=2.0,
                intercept=bool(split),
                private=float(private),
                split=bool(split),
                vectors=self.sums[c],
                masses=(float(self.masses[c, 0]), float(self.masses[c, 1])),
                hidden=(float(self.hidden[c, 0]), float(self.hidden[c, 1])),
                updates=int(updates),
                radius=float(radius),
            )
            for c, (split, private, updates, radius) in enumerate(self.grounds)
        ]
