"""Rows as kernels see them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.kernels.room import appended


class Points:
    """Rows, their squared norms where the kernel needs them, and perhaps factors of products.

    Where weights act by a soft margin, ``worth`` says how often each row counts.

    With a precomputed kernel, rows are the numbers of training rows, or lines of kernel values.
    """

    def __init__(
        self,
        X: Any,
        squares: np.ndarray | None = None,
        factors: np.ndarray | None = None,
        worth: np.ndarray | None = None,
    ) -> None:
        self.X = X
        self.squares = squares
        self.factors = factors
        self.worth = worth
        # Places at which rows were put since somebody has begun to follow them.
        self.changes: list[np.ndarray] | None = None

    def size(self) -> int:
        return self.X.shape[0]

    def take(self, which: Any) -> Points:
        """Some of the rows, by numbers or a slice."""
        others = (self.squares, self.factors, self.worth)
        parts = (None if part is None else part[which] for part in others)
        return Points(self.X[which], *parts)

    def bare(self) -> Points:
        """The same without factors, on the host."""
        return Points(self.X, self.squares, worth=self.worth)

    def with_worth(self, worth: np.ndarray) -> Points:
        return Points(self.X, self.squares, self.factors, worth)

    def on_host(self) -> Points:
        return self

    def small_groups(self) -> list[Any]:
        return [self.X[start : start + 32] for start in range(0, self.size(), 32)]

    def same_as(self, others: Points) -> bool:
        if sparse.issparse(self.X) or sparse.issparse(others.X):
            mine, their = sparse.csr_matrix(self.X), sparse.csr_matrix(others.X)
            return mine.shape == their.shape and (mine != their).nnz == 0
        return np.array_equal(self.X, others.X)

    def room(self, size: int) -> Points:
        """Room for so many rows like these."""
        if sparse.issparse(self.X):
            X = sparse.csr_matrix((size, self.X.shape[1]), dtype=self.X.dtype)
        else:
            X = np.zeros((size, *self.X.shape[1:]), self.X.dtype)
        squares = None if self.squares is None else np.zeros(size)
        factors = self.factors
        if factors is not None:
            factors = np.zeros((size, factors.shape[1]), factors.dtype)
        return Points(X, squares, factors)

    def with_width(self, width: int) -> Points:
        """The same rows with more features, all 0."""
        if sparse.issparse(self.X):
            X = self.X.copy()
            X.resize(X.shape[0], width)
        else:
            X = np.pad(self.X, ((0, 0), (0, width - self.X.shape[1])))
        factors = self.factors
        if factors is not None:
            factors = np.pad(factors, ((0, 0), (0, width - factors.shape[1])))
        return Points(X, self.squares, factors, self.worth)

    def laid_out_like(self, others: Points) -> Points:
        """The same rows, sparse or dense as ``others`` are."""
        if sparse.issparse(self.X) == sparse.issparse(others.X):
            return self
        dense = sparse.issparse(self.X)
        return Points(self.X.toarray() if dense else sparse.csr_matrix(self.X), self.squares)

    def put(self, places: np.ndarray, others: Points, which: np.ndarray) -> None:
        """Replace the rows at ``places`` by rows of ``others``, which are laid out alike."""
        if sparse.issparse(self.X):
            source = np.arange(self.size())
            source[places] = self.size() + which
            self.X = sparse.vstack([self.X, others.X], "csr")[source]
        else:
            self.X = self.X.astype(np.promote_types(self.X.dtype, others.X.dtype), copy=False)
            self.X[places] = others.X[which]
        if self.squares is not None and others.squares is not None:
            self.squares[places] = others.squares[which]
        if self.factors is not None:
            factors = others.X if others.factors is None else others.factors
            self.factors[places] = factors[which]
        if self.changes is not None:
            self.changes.append(places)

    def followed_by(self, others: Points) -> Points:
        if self.size() == 0:
            return others
        if sparse.issparse(self.X) or sparse.issparse(others.X):
            X = sparse.vstack([sparse.csr_matrix(self.X), sparse.csr_matrix(others.X)], "csr")
        else:
            X = np.concatenate([self.X, others.X])
        squares = worth = None
        if self.squares is not None and others.squares is not None:
            squares = np.concatenate([self.squares, others.squares])
        if self.worth is not None or others.worth is not None:
            worth = np.concatenate([self.weights(), others.weights()])
        return Points(X, squares, worth=worth)

    def grown_by(self, others: Points) -> Points:
        """`followed_by`, again and again: what is there is not copied each time."""
        apart = any(sparse.issparse(each.X) for each in (self, others)) or self.X.ndim != 2
        if apart or self.size() == 0 or self.worth is not None or others.worth is not None:
            return self.followed_by(others)
        squares = None
        if self.squares is not None and others.squares is not None:
            squares = appended(self.squares, others.squares)
        return Points(appended(self.X, others.X, axis=0), squares)

    def weights(self) -> np.ndarray:
        """How often each row counts."""
        return np.ones(self.size()) if self.worth is None else self.worth


def squared_norms(X: Any) -> np.ndarray:
    """``x.x`` of each row, summed in float64."""
    if sparse.issparse(X):
        exact = X.astype(np.float64, copy=False)
        return np.asarray(exact.multiply(exact).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


def as_type(X: Any, dtype: Any) -> Any:
    return library_of(X).ascontiguousarray(X, dtype=dtype)


def library_of(X: Any) -> Any:
    """NumPy, or whatever library of the same functions an array belongs to."""
    return np if isinstance(X, np.ndarray) else sys.modules[type(X).__module__.partition(".")[0]]
