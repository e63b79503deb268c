"""How good predictions are, in words for people."""

from __future__ import annotations

from typing import Any

from maxmargin.cli.output import percent

MOST_LINES = 10  # classes with a line of their own


def score_lines(report: dict[str, Any]) -> dict[str, str | None]:
    """The same for people: first what can be compared with a guess, then class by class."""
    accuracy, largest = percent(report["accuracy"]), percent(report["largest_class"])
    lines: dict[str, str | None] = {
        "accuracy": f"{accuracy} on {report['rows']:,} test rows; largest class: {largest}"
    }
    if report["unknown_labels"]:
        example = report["unknown_label"]
        rows = f"{report['unknown_labels']:,} rows have labels that the model does not know"
        lines["unknown"] = rows if example is None else f"{rows}, such as {example!r}"
    balanced = f"{percent(report['balanced_accuracy'])} mean recall over the classes"
    if report["auc"] is not None:
        balanced += f"; AUC {report['auc']:.4f}"
    if report["log_loss"] is not None:
        balanced += f"; log loss {report['log_loss']:.4f}"
    lines["balanced"] = balanced
    if len(report["classes"]) <= MOST_LINES:
        for each in report["classes"]:
            lines[f"  {each['label']}"] = (
                f"recall {percent(each['recall'])} of {each['rows']:,} rows; "
                f"precision {percent(each['precision'])} of {each['predicted']:,} predictions"
            )
    if (label := only_answer(report)) is not None:
        lines["warning"] = (
            f"the model predicts {label} for every row; --class-weight balanced may help"
        )
    return lines


def only_answer(report: dict[str, Any]) -> Any:
    """The class that was predicted for every row, if that is so."""
    predicted = [each["label"] for each in report["classes"] if each["predicted"]]
    return predicted[0] if len(predicted) == 1 and len(report["classes"]) > 1 else None
