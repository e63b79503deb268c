"""What a stream gives, in pieces of at most so many rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin import streams
from maxmargin.streams import Block, Option, OptionError, Source
from maxmargin.training import inputs
from maxmargin.training.sample_weights import check_weights


def opened(stream: Any, y: Any) -> Any:
    """``stream``, or the source of the file that it names."""
    return streams.open(stream, y) if isinstance(stream, str | os.PathLike) else stream


def classes_of(source: Source) -> np.ndarray:
    """The labels of a source, of a pipe those in its first block."""
    classes = source.survey().classes
    if classes is None:
        raise ValueError(f"{source.name} has no labels.")
    return classes


def labelled(blocks: Iterable[Block], name: str) -> Iterator[tuple[Any, Any, Any]]:
    """Rows, labels and weights of the blocks of the source ``name``."""
    width = None
    for block in blocks:
        width = width or block.X.shape[1]
        if block.X.shape[1] != width:
            raise OptionError(
                f"{name}, before row {block.end.row:,}: rows have become wider; "
                "say the number of columns with ",
                Option("n_features", ""),
                ".",
            )
        yield block.X, block.y, block.weight


def pieces(
    stream: Any, y: Any, sample_weight: Any, most: int
) -> Iterator[tuple[Any, Any, np.ndarray | None]]:
    """Rows, labels and weights of at most so many rows, that end at multiples of that number."""
    if y is not None:
        stream = [(stream, y, sample_weight)]
    elif sparse.issparse(stream) or isinstance(stream, np.ndarray):
        raise ValueError("progressive needs y for a matrix of rows.")
    elif sample_weight is not None:
        raise ValueError("sample_weight goes with y; an iterable gives triples (X, y, weight).")
    seen = 0
    for block in stream:
        if len(block) not in (2, 3):
            raise ValueError("progressive needs y, or an iterable of pairs (X, y).")
        X, labels, weight = (*block, None)[:3]
        if isinstance(X, dict):
            seen += 1
            yield X, labels, None if weight is None else check_weights(weight, 1)
            continue
        if not hasattr(X, "shape") and not isinstance(X, (list, tuple)):
            raise ValueError(f"progressive needs a matrix of rows, got {type(X).__name__}.")
        X = sparse.csr_matrix(X) if sparse.issparse(X) else X
        X = np.asarray(X) if isinstance(X, (list, tuple)) else X
        labels = inputs.check_y(labels, X.shape[0])
        weights = None if weight is None else check_weights(weight, X.shape[0])
        rows = X.iloc if hasattr(X, "iloc") else X
        start = 0
        while start < labels.size:
            stop = min(labels.size, start + most - seen % most)
            part = slice(start, stop)
            yield rows[part], labels[part], None if weights is None else weights[part]
            seen += stop - start
            start = stop
