"""Features by which a kernel is approximated where its matrix would be too large (Nystroem).

With landmarks L among the rows, ``K(x, L) M`` are features whose inner products equal the kernel
values between landmarks, for ``M M' = K(L, L)^-1``. Eigenvectors with negligible eigenvalues are
left out. Weights w of these features are the expansion ``M w`` over the landmarks. Certificates
concern the space of the features.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.points import Points
from maxmargin.kernels.products import Products
from maxmargin.solvers.block_passes import BlockPasses
from maxmargin.solvers.kernel_oracle import KernelRows
from maxmargin.solvers.linear_oracle import LinearRows
from maxmargin.solvers.newton import Solution
from maxmargin.solvers.solutions import KernelExpansion

# Landmarks are drawn from so many times as many random rows.
CANDIDATES = 4
# Smaller eigenvalues, relative to the largest, are left out.
SMALLEST_EIGENVALUE = 1e-10
# Kernel values that are computed at a time, on a device and here.
ON_DEVICE, HERE = 2**26, 2**21


class LandmarkFeatures(NamedTuple):
    """The features of rows, computed anew in each pass.

    kernel, points, products : the rows, and what computes kernel values
    numbers, landmarks : the rows among them that are landmarks
    mixing : the matrix M, of shape (landmarks, features)
    """

    kernel: Kernel
    points: Points
    products: Products
    numbers: np.ndarray
    landmarks: Points
    mixing: np.ndarray

    @property
    def size(self) -> int:
        return self.points.size()

    @property
    def at_once(self) -> int:
        return max(1, (HERE if self.products.xp is np else ON_DEVICE) // self.numbers.size)

    @property
    def mixed(self) -> int:
        return self.numbers.size

    def taken(self, which: Any) -> Any:
        some = self.points.take(which if isinstance(which, slice) else self.products.host(which))
        values = self.products.xp.empty((some.size(), self.numbers.size))
        self.products.values_in(self.kernel, some, self.landmarks, values)
        return values

    def coefficients(self, weights: np.ndarray) -> np.ndarray:
        return weights @ self.mixing.T

    def sums(self, of_columns: np.ndarray) -> np.ndarray:
        return of_columns @ self.mixing

    def expansion(self, found: Solution, features: int) -> KernelExpansion:
        """The solution as sums over landmarks, for rows with so many features."""
        points = self.landmarks.bare()
        needs_squares = self.kernel.points(points.X[:1]).squares is not None
        return KernelExpansion(
            bias=found.weights[:, -1].copy(),
            proved=found.bounds,
            kernel=self.kernel.forget_rows(),
            points=Points(points.X, points.squares if needs_squares else None),
            numbers=self.numbers,
            coefs=self.coefficients(found.weights[:, :-1]),
            features=features,
            products=self.products,
        )


def landmark_features(rows: KernelRows, count: int) -> LandmarkFeatures:
    """Features by so many landmarks, or as many rows as count."""
    there, random = np.flatnonzero(rows.sample_weight > 0.0), np.random.default_rng(0)
    candidates = random.permutation(there)[: CANDIDATES * count]
    points = rows.points.take(candidates).bare()
    chosen = pivots(rows.kernel, points, min(count, candidates.size), random)
    numbers = np.sort(candidates[chosen])
    landmarks, here = rows.points.take(numbers), Products()
    on_host = landmarks.bare()
    matrix = here.gram(rows.kernel, on_host, on_host).astype(float, copy=False)
    found, vectors = linalg.eigh(matrix, check_finite=False)
    kept = found > SMALLEST_EIGENVALUE * found.max()
    mixing = vectors[:, kept] / np.sqrt(found[kept])
    return LandmarkFeatures(rows.kernel, rows.points, rows.products, numbers, landmarks, mixing)


def pivots(kernel: Kernel, points: Points, count: int, random: np.random.Generator) -> np.ndarray:
    """Rows drawn one by one, by the squared distance from the span of those drawn before.

    Chen, Epperly, Tropp and Webber, "Randomly pivoted Cholesky", 2023.
    """
    left, products = kernel.diagonal(points).copy(), Products()
    lines, chosen = np.empty((count, points.size())), list[int]()
    while len(chosen) < count and left.max() > SMALLEST_EIGENVALUE:
        k = int(random.choice(left.size, p=left / left.sum()))
        n = len(chosen)
        line = products.gram(kernel, points.take([k]), points)[0] - lines[:n, k] @ lines[:n]
        lines[n] = line / np.sqrt(line[k])
        left = np.maximum(left - lines[n] ** 2, 0.0)
        left[k] = 0.0
        chosen.append(k)
    return np.array(chosen)


def landmark_rows(rows: KernelRows, features: LandmarkFeatures) -> LinearRows:
    """The rows in the space of these features."""
    here = rows.products.here
    passes = BlockPasses(
        rows.products, features, here(rows.signs), here(rows.sample_weight), rows.intercept
    )
    # Features are products of kernel values with the mixing matrix, which are rounded relative to
    # the norms of both.
    largest = float(np.sqrt(rows.kernel.diagonal(rows.points).max()))
    norms = np.sqrt(float(features.numbers.size)) * np.linalg.norm(features.mixing, 2)
    return LinearRows(
        passes=passes,
        sample_weight=rows.sample_weight,
        width=features.mixing.shape[1],
        filled=features.mixing.shape[1],
        intercept=rows.intercept,
        radius=largest * max(1.0, largest * float(norms)),
    )
