"""Exact solutions as records: hyperplanes, and expansions in the space of a kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot

from maxmargin._extras import is_on_device
from maxmargin.certificates.evidence import Evidence
from maxmargin.core.array_fields import Array, Saved, blank
from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.points import Points, library_of
from maxmargin.kernels.products import CHUNK, Products
from maxmargin.models.kernel_model import products_on
from maxmargin.models.model_formulas import Formula, Planes, kernel_formula
from maxmargin.solvers.newton import Solution


@dataclass(frozen=True, eq=False)
class ExactSolution:
    """Intercepts, and proved upper bounds on the best margins.

    There is one bound for each problem, or a single one for classes that were solved together.
    """

    bias: Annotated[np.ndarray, Array("problems")]
    proved: Annotated[np.ndarray, Array("margins")]

    has_supports = False
    outputs_are_odds = False

    def problems(self) -> int:
        return self.bias.size

    def n_margins(self) -> int:
        return self.proved.size

    def trials(self) -> int:
        """No row is learned one by one, so margins measured by a fit stay valid."""
        return 0

    def updates(self) -> int:
        return 0

    def mistakes(self) -> int:
        return 0

    def intercepts(self) -> np.ndarray:
        return self.bias

    def bounds(self) -> np.ndarray:
        return self.proved

    def evidence(self, features: int) -> list[Evidence]:
        """The sums behind the bounds, which can be added up over machines."""
        return []


@dataclass(frozen=True, eq=False)
class Hyperplanes(ExactSolution):
    """Weights and intercepts, with the sums that prove the bounds on their margins.

    Attributes
    ----------
    sums : weighted sums of the rows behind each bound, of both classes and of the positive one
    masses, hidden : sums of their coefficients, and of squares in private coordinates
    grounds : for each problem: whether it has an intercept, the private coordinate of a row, the
        number of rows in the sums, and the largest norm of a row
    """

    weights: Annotated[np.ndarray, Array("problems", "features")]
    sums: Annotated[np.ndarray, Array("problems", 2, "features")]
    masses: Annotated[np.ndarray, Array("problems", 2)]
    hidden: Annotated[np.ndarray, Array("problems", 2)]
    grounds: Annotated[np.ndarray, Array("problems", 4)]

    @classmethod
    def of(
        cls, found: Solution, features: int | None = None, columns: np.ndarray | None = None
    ) -> Hyperplanes:
        """The solution, whose weights are those of some columns of so many, by default of all."""
        problems, size = found.weights.shape
        sizes = {"problems": problems, "margins": found.bounds.size}
        model = blank(cls, {**sizes, "features": features or size - 1}, proved=found.bounds)
        here: Any = slice(None) if columns is None else columns
        model.weights[:, here], model.bias[:] = found.weights[:, :-1], found.weights[:, -1]
        for c, behind in enumerate(found.evidence):
            model.sums[c][:, here], model.masses[c] = behind.vectors, behind.masses
            model.hidden[c] = behind.hidden
            model.grounds[c] = behind.split, behind.private, behind.updates, behind.radius
        return model

    def width(self) -> int:
        return self.weights.shape[1]

    def coefficients(self) -> np.ndarray:
        return self.weights

    def outputs(self, X: Any) -> np.ndarray:
        """``w.x + b`` for each row and problem."""
        if type(X) is not np.ndarray and is_on_device(X):
            outputs = X @ library_of(X).asarray(np.ascontiguousarray(self.weights.T))
            return np.asarray(outputs.get()) + self.bias
        return safe_sparse_dot(X, self.weights.T, dense_output=True) + self.bias

    def formula(self, features: int) -> Formula:
        return Planes(self.weights, self.bias)

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


@dataclass(frozen=True, eq=False)
class KernelExpansion(ExactSolution):
    """Weights ``w = sum_k a_k phi(x_k)`` over the rows with coefficients.

    Attributes
    ----------
    points, numbers, coefs : these rows, their row numbers in the fit, and their coefficients
    features : the number of columns of rows
    products : what computes kernel values
    """

    kernel: Annotated[Kernel, Saved()]
    points: Annotated[Points, Saved()]
    numbers: Annotated[np.ndarray, Array("supports", dtype=np.int64)]
    coefs: Annotated[np.ndarray, Array("problems", "supports")]
    features: Annotated[int, Saved()]
    products: Products

    has_supports = True

    @classmethod
    def of(cls, found: Solution, data: Any, features: int) -> KernelExpansion:
        """The solution for the rows of a fit, `kernel_oracle.KernelRows`."""
        coefs, bias = found.weights[:, :-1], found.weights[:, -1].copy()
        used = np.flatnonzero(coefs.any(axis=0))
        points, kernel = data.points.take(used), data.kernel
        needs_squares = kernel.points(points.X[:1]).squares is not None
        return cls(
            bias=bias,
            proved=found.bounds,
            kernel=kernel.forget_rows(),
            points=Points(points.X, points.squares if needs_squares else None),
            numbers=used.astype(np.int64),
            coefs=np.ascontiguousarray(coefs[:, used]),
            features=features,
            products=data.products,
        )

    def width(self) -> int:
        return self.features

    def weights(self) -> np.ndarray:
        return self.coefs

    def coefficients(self) -> np.ndarray:
        raise AttributeError("coef_ is only there with kernel='linear'; see dual_coef_.")

    def support_numbers(self) -> np.ndarray:
        return self.numbers

    def support_rows(self) -> Any:
        """The rows with coefficients; none with a precomputed kernel."""
        return np.empty((0, 0)) if self.kernel.only_in_fit else self.points.X

    def outputs(self, X: Any) -> np.ndarray:
        """``w.phi(x) + b`` for each row and problem."""
        outputs, products = np.empty((X.shape[0], self.problems())), self.products
        for start in range(0, X.shape[0], CHUNK):
            part = slice(start, start + CHUNK)
            new = products.new_points(self.kernel, X[part])
            outputs[part] = products.weighted_sums(self.kernel, self.coefs, self.points, new, 0.0).T
        return outputs + self.bias

    def formula(self, features: int) -> Formula:
        return kernel_formula(self.kernel, self.points, self.coefs, self.bias, features)

    def on(self, device: str) -> KernelExpansion:
        """The same with kernel values computed on another device."""
        if device != "cpu" and not self.kernel.formula:
            raise ValueError(
                "device='cuda' computes the kernels 'linear', 'poly', 'rbf' and 'laplacian' only."
            )
        return replace(self, products=products_on(device))
