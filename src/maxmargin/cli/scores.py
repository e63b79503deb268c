"""How good predictions are, beside a guess: counts of classes, and what they say."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.cli.output import percent

# Scores of more rows are not kept, and the area under the curve is not known then.
MOST_SCORES = 10**7
MOST_LINES = 10  # classes with a line of their own


class Scores:
    """Counts of true and predicted classes, and of two classes the scores.

    Attributes
    ----------
    counts : array of shape (n_classes + 1, n_classes)
        Rows of each true class, last of classes that the model does not know, by what was
        predicted.
    """

    def __init__(self, classes: np.ndarray) -> None:
        self.classes = classes
        self.counts = np.zeros((classes.size + 1, classes.size), dtype=np.int64)
        self._outputs: list[np.ndarray] | None = [] if classes.size == 2 else None
        self._truth: list[np.ndarray] = []

    def add(self, y: np.ndarray, predicted: np.ndarray, outputs: np.ndarray | None) -> None:
        """Some rows: their labels, what was predicted, and by which scores."""
        size = self.classes.size
        places = np.minimum(np.searchsorted(self.classes, y), size - 1)
        truth = np.where(self.classes[places] == y, places, size)
        said = np.searchsorted(self.classes, predicted)
        self.counts += np.bincount(truth * size + said, minlength=self.counts.size).reshape(
            self.counts.shape
        )
        if self._outputs is None or outputs is None or self.rows() > MOST_SCORES:
            self._outputs = None
            return
        known = truth < size
        self._outputs.append(outputs[known])
        self._truth.append(truth[known])

    def wants_outputs(self) -> bool:
        """Are scores of use?"""
        return self._outputs is not None

    def rows(self) -> int:
        return int(self.counts.sum())

    def mistakes(self) -> int:
        return self.rows() - int(np.trace(self.counts[:-1]))

    def report(self) -> dict[str, Any]:
        """All that there is to say, in JSON's types."""
        rows, mistakes, labels = self.rows(), self.mistakes(), self.classes.tolist()
        own, said, there = np.diag(self.counts[:-1]), self.counts.sum(axis=0), self._there()
        with np.errstate(invalid="ignore"):
            recall, precision = own / there[:-1], own / said
        occurring = there[:-1] > 0
        return {
            "rows": rows,
            "mistakes": mistakes,
            "accuracy": 1 - mistakes / rows,
            "largest_class": float(there.max() / rows),
            "balanced_accuracy": float(recall[occurring].mean()) if occurring.any() else None,
            "auc": self._area(),
            "classes": [
                {
                    "label": label,
                    "rows": int(there[k]),
                    "predicted": int(said[k]),
                    "recall": float(recall[k]),
                    "precision": float(precision[k]),
                }
                for k, label in enumerate(labels)
            ],
            "unknown_labels": int(there[-1]),
            "confusion": self.counts[:-1].tolist(),
        }

    def _there(self) -> np.ndarray:
        return self.counts.sum(axis=1)

    def _area(self) -> float | None:
        """Under the ROC curve of the second of two classes, if both occur."""
        if not self._outputs or (self._there()[:2] == 0).any():
            return None
        from sklearn.metrics import roc_auc_score

        return float(roc_auc_score(np.concatenate(self._truth), np.concatenate(self._outputs)))


def score_lines(report: dict[str, Any]) -> dict[str, str | None]:
    """The same for people: first what can be compared with a guess, then class by class."""
    right, largest = report["accuracy"], report["largest_class"]
    beside = f"{percent(right)} of {report['rows']:,} rows right; the largest class has "
    lines: dict[str, str | None] = {"test": beside + percent(largest)}
    balanced = f"{percent(report['balanced_accuracy'])} right, the mean over classes"
    if report["auc"] is not None:
        balanced += f"; AUC {report['auc']:.4f}"
    lines["balanced"] = balanced
    if len(report["classes"]) <= MOST_LINES:
        for each in report["classes"]:
            lines[f"  {each['label']}"] = (
                f"{percent(each['recall'])} of {each['rows']:,} found; "
                f"{percent(each['precision'])} of {each['predicted']:,} predicted right"
            )
    said = [each["label"] for each in report["classes"] if each["predicted"]]
    if len(said) == 1 and len(report["classes"]) > 1:
        lines["beware"] = f"the model says {said[0]} of every row; --class-weight balanced may help"
    if report["unknown_labels"]:
        lines["unknown"] = f"{report['unknown_labels']:,} rows have labels that were not learnt"
    return lines
