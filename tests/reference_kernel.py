"""Kernels in plain NumPy, and rows that have the inner products of a Gram matrix.

On `rows_of` a Gram matrix, the learners of ``reference`` and ``reference_pnorm`` do what those with
the kernel do.
"""

import numpy as np
import reference
from reference import Array


def rbf(X: Array, Z: Array, gamma: float) -> Array:
    """exp(-gamma |x - z|^2), a row for each x and a column for each z."""
    return np.array([[np.exp(-gamma * np.sum((x - z) ** 2)) for z in Z] for x in X])


def poly(X: Array, Z: Array, gamma: float, degree: int, coef0: float) -> Array:
    """(gamma x.z + coef0)^degree, a row for each x and a column for each z."""
    return np.array([[(gamma * np.dot(x, z) + coef0) ** degree for z in Z] for x in X])


def rows_of(K: Array) -> Array:
    """Rows F with ``F F' = K``."""
    values, vectors = np.linalg.eigh(K)
    rows: Array = vectors * np.sqrt(np.maximum(values, 0.0))
    return rows


def max_margin(K: Array, signs: Array, intercept: bool) -> float:
    return reference.max_margin(rows_of(K), signs, intercept)[0]
