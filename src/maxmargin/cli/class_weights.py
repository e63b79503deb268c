"""What rows of a class count, as ``--class-weight`` says."""

from __future__ import annotations

import math
from typing import Any

from maxmargin.cli import learner_options
from maxmargin.cli.errors import in_words, misuse
from maxmargin.cli.output import listed

BALANCED = "balanced"
OPTION = "--class-weight"


def parsed(text: str) -> str | dict[str, float]:
    """``balanced``, or weights by the labels as they were typed."""
    if text.strip() == BALANCED:
        return BALANCED
    weights: dict[str, float] = {}
    for part in text.split(","):
        label, equals, number = (word.strip() for word in part.rpartition("="))
        if not (label and equals):
            misuse(f"{OPTION} takes label=number, with commas, or {BALANCED}; got {part!r}.")
        if label in weights:
            misuse(f"{OPTION}: the class {label!r} has two weights.")
        try:
            weights[label] = float(number)
        except ValueError:
            misuse(f"{OPTION}: the weight of {label!r} is not a number, {number!r}.")
        if not 0.0 < weights[label] < math.inf:
            misuse(f"{OPTION}: the weight of {label!r} must be positive and finite, not {number}.")
    return weights


def of_classes(weights: str | dict[str, float], source: Any, classes: Any) -> Any:
    """The same by the labels of the data: ``classes``, or those that are found there.

    All rows are looked at only if the first ones do not have all labels that are named.
    """
    if isinstance(weights, str):
        return weights
    labels = source.glance().classes if classes is None else classes
    if labels is None:
        raise ValueError(f"{source.name} has no labels.")
    found = [_meant(text, labels) for text in weights]
    if None in found and classes is None:
        labels = source.survey().classes
        found = [_meant(text, labels) for text in weights]
    for text, label in zip(weights, found, strict=True):
        if label is None:
            misuse(f"{OPTION}: there is no class {text!r} among {listed(list(labels))}.")
    return dict(zip(found, weights.values(), strict=True))


def _meant(text: str, labels: Any) -> Any:
    """The label that was typed, a number however it is written; None if there is none."""
    typed = learner_options.value_of(text)
    for label in labels:
        plain = label.item() if hasattr(label, "item") else label
        if text == str(plain) or (
            typed == plain and isinstance(typed, bool) == isinstance(plain, bool)
        ):
            return plain
    return None


def give(learners: list[Any], text: str | None, source: Any, classes: Any) -> None:
    """Give learners the weights that were typed, if there are any."""
    if text is None:
        return
    weights = of_classes(parsed(text), source, classes)
    for learner in learners:
        if "class_weight" not in learner.get_params(deep=False):
            misuse(f"{OPTION}: {type(learner).__name__} does not support class weights.")
        learner.set_params(class_weight=weights)
        try:
            learner.check_parameters()
        except ValueError as error:
            misuse(in_words(error))
