"""The rows of a stream in blocks of limited size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.streams import Block, Source, StreamError
from maxmargin.training import inputs
from maxmargin.training.sample_weights import check_weights


class StreamRows(NamedTuple):
    """Rows of a matrix or a list of dicts, with labels and weights."""

    X: Any
    y: Any
    weight: np.ndarray | None

    def size(self) -> int:
        return len(self.y)

    def part(self, which: slice) -> StreamRows:
        X = rows_of(self.X.iloc if hasattr(self.X, "iloc") else self.X, which)
        return StreamRows(X, self.y[which], None if self.weight is None else self.weight[which])

    def weights(self) -> np.ndarray:
        return np.ones(self.size()) if self.weight is None else self.weight


def rows_of(X: Any, which: slice) -> Any:
    """A slice of rows; of a CSR matrix a view, where SciPy would copy."""
    if not sparse.issparse(X) or X.format != "csr":
        return X[which]
    start, stop, step = which.indices(X.shape[0])
    if step != 1 or stop < start:
        return X[which]
    starts = X.indptr[start : stop + 1]
    used = slice(starts[0], starts[-1])
    part = type(X)((X.data[used], X.indices[used], starts - starts[0]), (stop - start, X.shape[1]))
    part.has_canonical_format = X.has_canonical_format
    return part


def joined_rows(some: StreamRows, others: StreamRows) -> StreamRows:
    weight = None
    if some.weight is not None or others.weight is not None:
        weight = np.concatenate([some.weights(), others.weights()])
    if isinstance(some.X, list):
        return StreamRows(some.X + others.X, some.y + others.y, weight)
    if sparse.issparse(some.X) or sparse.issparse(others.X):
        X = sparse.vstack([some.X, others.X], "csr")
    else:
        X = np.concatenate([some.X, others.X])
    return StreamRows(X, np.concatenate([some.y, others.y]), weight)


def classes_of(source: Source) -> np.ndarray:
    """The labels of a source (of a pipe, those in its first block)."""
    classes = source.survey().classes
    if classes is None:
        raise ValueError(f"{source.name} has no labels.")
    return classes


def labelled(blocks: Iterable[Block], name: str) -> Iterator[tuple[Any, Any, Any]]:
    """Rows, labels and weights of the blocks of a source, which must not become wider."""
    width = None
    for block in blocks:
        width = width or block.X.shape[1]
        if block.X.shape[1] != width:
            raise StreamError(
                f"{name}, before row {block.end:,}: rows have become wider; set the number of "
                "columns with n_features=."
            )
        yield block.X, block.y, block.weight


def pieces(stream: Any, y: Any, sample_weight: Any, most: int, step: int) -> Iterator[StreamRows]:
    """Blocks of at most ``most`` rows or ``step`` dicts, which end at multiples of that."""
    if y is not None:
        stream = [(stream, y, sample_weight)]
    elif sparse.issparse(stream) or isinstance(stream, np.ndarray):
        raise ValueError("progressive needs y for a matrix of rows.")
    elif sample_weight is not None:
        raise ValueError("sample_weight goes with y; an iterable gives triples (X, y, weight).")
    seen, dicts = 0, list[tuple[Any, Any, Any]]()
    for block in stream:
        if len(block) not in (2, 3):
            raise ValueError("progressive needs y, or an iterable of pairs (X, y).")
        X, labels, weight = (*block, None)[:3]
        if isinstance(X, dict):
            dicts.append((X, labels, weight))
            seen += 1
            if seen % step == 0:
                yield _of_dicts(dicts)
                dicts = []
            continue
        if dicts:
            yield _of_dicts(dicts)
            dicts = []
        if not hasattr(X, "shape") and not isinstance(X, (list, tuple)):
            raise ValueError(f"progressive needs a matrix of rows, got {type(X).__name__}.")
        X = sparse.csr_matrix(X) if sparse.issparse(X) else X
        X = np.asarray(X) if isinstance(X, (list, tuple)) else X
        labels = inputs.check_y(labels, X.shape[0])
        weights = None if weight is None else check_weights(weight, X.shape[0])
        rows, start = StreamRows(X, labels, weights), 0
        while start < labels.size:
            part = rows.part(slice(start, start + most - seen % most))
            yield part
            seen += part.size()
            start += part.size()
    if dicts:
        yield _of_dicts(dicts)


def _of_dicts(rows: list[tuple[Any, Any, Any]]) -> StreamRows:
    X, y, weights = map(list, zip(*rows, strict=True))
    if all(weight is None for weight in weights):
        return StreamRows(X, y, None)
    weights = [1.0 if weight is None else weight for weight in weights]
    return StreamRows(X, y, check_weights(weights, len(rows)))
