"""Predictions for rows, their losses, and counts of right and wrong ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.certificates.error_bound import error_bound

# The scores of more rows are not kept, so there is no area under the curve for them.
MOST_SCORES = 10**7


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


class Scores:
    """Counts of true and predicted classes, the log loss, and, for two classes, the scores.

    ``classes`` are the sorted labels that can be predicted. At most `MOST_SCORES` are kept.
    """

    def __init__(self, classes: np.ndarray) -> None:
        self.classes = classes
        # By true class (the last row is for unseen classes) and predicted class.
        self.counts = np.zeros((classes.size + 1, classes.size), dtype=np.int64)
        self._outputs: list[np.ndarray] | None = [] if classes.size == 2 else None
        self._truth: list[np.ndarray] = []
        self._log_loss, self._with_probabilities = 0.0, 0
        self._unseen: Any = None  # a label that is not among the classes

    def add(
        self,
        y: np.ndarray,
        predicted: np.ndarray,
        outputs: np.ndarray | None = None,
        probabilities: np.ndarray | None = None,
    ) -> None:
        """Add rows with labels, predicted labels, and perhaps more."""
        size = self.classes.size
        places = np.minimum(np.searchsorted(self.classes, y), size - 1)
        truth = np.where(self.classes[places] == y, places, size)
        if self._unseen is None and (truth == size).any():
            self._unseen = y[truth == size][:1].tolist()[0]
        cells = truth * size + np.searchsorted(self.classes, predicted)
        counts = np.bincount(cells, minlength=self.counts.size)
        self.counts += counts.reshape(self.counts.shape)
        seen = truth < size
        if probabilities is not None:
            chosen = probabilities[np.flatnonzero(seen), truth[seen]]
            self._log_loss -= float(np.log(np.maximum(chosen, np.finfo(chosen.dtype).eps)).sum())
            self._with_probabilities += chosen.size
        if self._outputs is None or outputs is None or self.rows() > MOST_SCORES:
            self._outputs, self._truth = None, []
            return
        self._outputs.append(outputs[seen])
        self._truth.append(truth[seen].astype(np.int8))

    def wants_outputs(self) -> bool:
        return self._outputs is not None

    def rows(self) -> int:
        return int(self.counts.sum())

    def report(self) -> dict[str, Any]:
        """All statistics as JSON types; NaN for 0 / 0."""
        rows, count = self.rows(), self._with_probabilities
        correct, predicted = np.diag(self.counts[:-1]), self.counts.sum(axis=0)
        actual = self.counts.sum(axis=1)
        mistakes = rows - int(correct.sum())
        with np.errstate(invalid="ignore"):
            recall, precision = correct / actual[:-1], correct / predicted
        occurring = actual[:-1] > 0
        names = "label", "rows", "predicted", "recall", "precision"
        columns = self.classes, actual[:-1], predicted, recall, precision
        return {
            "rows": rows,
            "mistakes": mistakes,
            "accuracy": 1 - mistakes / rows if rows else np.nan,
            "error_bound": error_bound(mistakes, rows).bound,
            "largest_class": float(actual[:-1].max() / rows) if rows else np.nan,
            "balanced_accuracy": float(recall[occurring].mean()) if occurring.any() else None,
            "auc": self._area(),
            "log_loss": self._log_loss / count if count else None,
            "classes": [
                dict(zip(names, each, strict=True))
                for each in zip(*(column.tolist() for column in columns), strict=True)
            ],
            "unknown_labels": int(actual[-1]),
            "unknown_label": self._unseen,
            "confusion": self.counts[:-1].tolist(),
        }

    def _area(self) -> float | None:
        """The area under the ROC curve, if both classes occur."""
        if not self._outputs or (self.counts[:2].sum(axis=1) == 0).any():
            return None
        from sklearn.metrics import roc_auc_score

        return float(roc_auc_score(np.concatenate(self._truth), np.concatenate(self._outputs)))
