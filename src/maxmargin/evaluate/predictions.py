"""Predictions for rows, and their losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Predictions(NamedTuple):
    """Predictions for some rows; the code of an unseen class in ``truth`` is the class count."""

    truth: np.ndarray
    predicted: np.ndarray
    outputs: np.ndarray | None = None  # one output for two classes, else one for each
    probabilities: np.ndarray | None = None  # of shape (n_rows, n_classes)

    def part(self, rows: slice | np.ndarray) -> Predictions:
        outputs = None if self.outputs is None else self.outputs[rows]
        probabilities = None if self.probabilities is None else self.probabilities[rows]
        return Predictions(self.truth[rows], self.predicted[rows], outputs, probabilities)


def joined(parts: Sequence[Predictions]) -> Predictions:
    truth, predicted, outputs, probabilities = zip(*parts, strict=True)
    return Predictions(
        np.concatenate(truth), np.concatenate(predicted), _all_of(outputs), _all_of(probabilities)
    )


def _all_of(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if len(there) == len(parts) else None


def classes_by(outputs: np.ndarray) -> np.ndarray:
    """The predicted class codes."""
    if outputs.shape[1] == 1:
        return (outputs[:, 0] >= 0.0).astype(np.int64)
    return outputs.argmax(axis=1)


def hinge_losses(outputs: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The hinge loss of each row, given its class; see `Progress.losses`."""
    return np.maximum(0.0, 1.0 - leads(outputs, codes))


def leads(outputs: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The lead of each row's class over the best other one; for two classes, the signed output."""
    if outputs.shape[1] == 1:
        return np.where(codes == 1, outputs[:, 0], -outputs[:, 0])
    rows = np.arange(codes.size)
    rivals = outputs.copy()
    rivals[rows, codes] = -np.inf
    return outputs[rows, codes] - rivals.max(axis=1)
