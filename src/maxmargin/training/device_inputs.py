"""Arrays of users that are on a GPU: checked there, and left there."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.core.loop import LARGEST_XX
from maxmargin.kernels.cuda import cupy_library
from maxmargin.training.feature_columns import Features
from maxmargin.training.options import Options
from maxmargin.training.types import Matrix


def on_host(array: ArrayLike) -> np.ndarray:
    """An array of a GPU, such as labels."""
    return cupy_library().xp.asarray(array).get()


def checked(options: Options, X: Matrix, features: Features | None) -> tuple[Matrix, Features]:
    """``X`` as a float array of CuPy, and its columns, which are ``features`` if there are such."""
    if options.device != "cuda":
        raise ValueError(
            f"X is on a GPU, and {options.name} is not: use device='cuda' and a kernel, or "
            "take X to the host."
        )
    xp = cupy_library().xp
    X = xp.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise ValueError(f"Expected 2D array of numbers, got shape {X.shape} of {X.dtype}.")
    if 0 in X.shape:
        raise ValueError(f"Found array with shape {X.shape}, while a minimum of 1 is required.")
    if features is not None and X.shape[1] != features.count:
        raise ValueError(
            f"X has {X.shape[1]} features, but {options.name} is expecting {features.count} "
            "features as input."
        )
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float32 if X.dtype == np.float16 else np.float64)
    return X, features or Features(X.shape[1])


def check_values(X: Matrix) -> float:
    """Raise if a row cannot be learned from; otherwise the largest norm of a row."""
    xp = cupy_library().xp
    squares = xp.square(X, dtype=np.float64).sum(axis=1)
    largest = float(squares.max())
    if not largest <= LARGEST_XX:
        row = int(xp.argmax(~(squares <= LARGEST_XX)))
        raise ValueError(
            f"Input X contains NaN, infinity or a value too large to be squared (row {row})."
        )
    return float(np.sqrt(largest))
