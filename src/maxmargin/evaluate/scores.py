"""The confusion matrix of predictions, and statistics derived from it."""

from __future__ import annotations

from typing import Any

import numpy as np

# The scores of more rows are not kept, so there is no area under the curve for them.
MOST_SCORES = 10**7


class Scores:
    """Counts of true and predicted classes, the log loss, and, for two classes, the scores.

    ``classes`` are the sorted labels that can be predicted. At most ``most`` scores are kept.
    """

    def __init__(self, classes: np.ndarray, most: int = MOST_SCORES) -> None:
        self.classes, self.most = classes, most
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
        """Add rows with labels, predicted labels, and their scores or probabilities."""
        size = self.classes.size
        places = np.minimum(np.searchsorted(self.classes, y), size - 1)
        truth = np.where(self.classes[places] == y, places, size)
        if self._unseen is None and (truth == size).any():
            self._unseen = y[truth == size][:1].tolist()[0]
        self.count(truth, np.searchsorted(self.classes, predicted), outputs, probabilities)

    def count(
        self,
        truth: np.ndarray,
        predicted: np.ndarray,
        outputs: np.ndarray | None = None,
        probabilities: np.ndarray | None = None,
    ) -> None:
        """Add rows whose labels are given as class codes."""
        size = self.classes.size
        self.counts += np.bincount(truth * size + predicted, minlength=self.counts.size).reshape(
            self.counts.shape
        )
        seen = truth < size
        if probabilities is not None:
            chosen = probabilities[np.flatnonzero(seen), truth[seen]]
            self._log_loss -= float(np.log(np.maximum(chosen, np.finfo(chosen.dtype).eps)).sum())
            self._with_probabilities += chosen.size
        if self._outputs is None or outputs is None or self.rows() > self.most:
            self._outputs, self._truth = None, []
            return
        self._outputs.append(outputs[seen])
        self._truth.append(truth[seen].astype(np.int8))

    def wants_outputs(self) -> bool:
        return self._outputs is not None

    def rows(self) -> int:
        return int(self.counts.sum())

    def mistakes(self) -> int:
        return self.rows() - int(np.trace(self.counts[:-1]))

    def report(self) -> dict[str, Any]:
        """All statistics as JSON types; NaN for 0 / 0."""
        rows, mistakes, labels = self.rows(), self.mistakes(), self.classes.tolist()
        correct, predicted = np.diag(self.counts[:-1]), self.counts.sum(axis=0)
        actual = self.counts.sum(axis=1)
        with np.errstate(invalid="ignore"):
            recall, precision = correct / actual[:-1], correct / predicted
        occurring, count = actual[:-1] > 0, self._with_probabilities
        log_loss = self._log_loss / count if count else None
        return {
            "rows": rows,
            "mistakes": mistakes,
            "accuracy": 1 - mistakes / rows if rows else np.nan,
            "largest_class": float(actual[:-1].max() / rows) if rows else np.nan,
            "balanced_accuracy": float(recall[occurring].mean()) if occurring.any() else None,
            "auc": self._area(),
            "log_loss": log_loss,
            "classes": [
                {
                    "label": label,
                    "rows": int(actual[k]),
                    "predicted": int(predicted[k]),
                    "recall": float(recall[k]),
                    "precision": float(precision[k]),
                }
                for k, label in enumerate(labels)
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
