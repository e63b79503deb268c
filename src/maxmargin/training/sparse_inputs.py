"""Sparse matrices of users, made safe before anybody follows their indices.

SciPy and the compiled loops read where ``indptr`` and ``indices`` point, without a look whether
that is inside. So both are looked at first, once, whoever made them.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from maxmargin.core.row_scans import are_canonical, first_malformed
from maxmargin.training.types import Matrix


def sound(X: Matrix) -> tuple[Matrix, bool]:
    """``X`` itself if it is safe to follow, and whether it is known to be canonical CSR.

    Arrays that are not contiguous, or whose indices are of a type that loops do not take, are
    copied, and only these. Raises if an index lies outside.
    """
    if X.format == "coo":
        for name, indices, size in zip(("row", "column"), (X.row, X.col), X.shape, strict=True):
            if indices.size and not 0 <= indices.min() <= indices.max() < size:
                raise ValueError(_invalid(X, f"it has a {name} outside 0..{size - 1}"))
    if X.format not in ("csr", "csc"):
        return X, False
    major, minor = X.shape if X.format == "csr" else X.shape[::-1]
    line, place = ("row", "column") if X.format == "csr" else ("column", "row")
    parts = X.data, X.indices, X.indptr
    data = np.ascontiguousarray(X.data)
    indices, starts = (_as_indices(X, array) for array in (X.indices, X.indptr))
    if starts.size != major + 1 or data.ndim != 1 or data.size != indices.size:
        raise ValueError(_invalid(X, "its arrays do not have the lengths that its shape asks for"))
    canonical = are_canonical(indices, starts, minor)
    bad, canonical = (-1, True) if canonical else first_malformed(indices, starts, minor)
    if bad >= 0:
        start, stop = int(starts[bad]), int(starts[bad + 1])
        inside = 0 <= start <= stop <= indices.size
        what = f"has a {place} outside 0..{minor - 1}" if inside else "lies outside its arrays"
        raise ValueError(_invalid(X, f"{line} {bad} {what}"))
    if any(new is not old for new, old in zip((data, indices, starts), parts, strict=True)):
        form = f"{X.format}_{'matrix' if sparse.isspmatrix(X) else 'array'}"
        X = getattr(sparse, form)((data, indices, starts), shape=X.shape)
    return X, canonical and X.format == "csr"


def _as_indices(X: Matrix, array: np.ndarray) -> np.ndarray:
    """Contiguous, of 32 or 64 bits, and signed: then what is too large for that is negative."""
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(_invalid(X, f"its indices are of the type {array.dtype}"))
    if array.dtype in (np.int32, np.int64) and array.dtype.isnative:
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array, dtype=np.int32 if array.dtype.itemsize < 4 else np.int64)


def _invalid(X: Matrix, what: str) -> str:
    return f"Input X is not a valid {X.format.upper()} matrix: {what}."
