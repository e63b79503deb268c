"""What was predicted of some rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Predicted(NamedTuple):
    """What was predicted of some rows.

    Attributes
    ----------
    truth, said : arrays of the numbers of classes
        In ``truth``, that of a label which nobody knows is the number of classes.
    outputs : array of shape (n_rows, n_outputs), or None
        One output for two classes, else one for each.
    probabilities : array of shape (n_rows, n_classes), or None
        Probabilities.
    """

    truth: np.ndarray
    said: np.ndarray
    outputs: np.ndarray | None = None
    probabilities: np.ndarray | None = None

    def part(self, rows: slice | np.ndarray) -> Predicted:
        """What was predicted of these rows."""
        outputs = None if self.outputs is None else self.outputs[rows]
        probabilities = None if self.probabilities is None else self.probabilities[rows]
        return Predicted(self.truth[rows], self.said[rows], outputs, probabilities)


def joined(parts: Sequence[Predicted]) -> Predicted:
    """All rows of at least one part, in order."""
    truth, said, outputs, probabilities = zip(*parts, strict=True)
    return Predicted(
        np.concatenate(truth), np.concatenate(said), _all_of(outputs), _all_of(probabilities)
    )


def _all_of(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if len(there) == len(parts) else None


def classes_by(outputs: np.ndarray) -> np.ndarray:
    """The class numbers that these outputs predict."""
    if outputs.shape[1] == 1:
        return (outputs[:, 0] >= 0.0).astype(np.int64)
    return outputs.argmax(axis=1)


def hinge_losses(outputs: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The hinge loss of each row, given its class; see `Progress.losses`."""
    if outputs.shape[1] == 1:
        leads = np.where(codes == 1, outputs[:, 0], -outputs[:, 0])
    else:
        rows = np.arange(codes.size)
        own, rivals = outputs[rows, codes], outputs.copy()
        rivals[rows, codes] = -np.inf
        leads = own - rivals.max(axis=1)
    return np.maximum(0.0, 1.0 - leads)
