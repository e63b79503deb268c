"""Predictions, and how they are answered."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.estimator import OnlineClassifier
from maxmargin.evaluate.predicted import classes_by
from maxmargin.serve.bodies import Question
from maxmargin.serve.pupil import outputs_of
from maxmargin.serve.refusals import unlearnable
from maxmargin.serve.service import Service


def predicted(service: Service, rows: Any) -> list[Any]:
    """The class of each row."""
    learner, labels = service.live.learner, service.labels
    try:
        if not learner.__sklearn_is_fitted__():
            return [_class_of_zero(labels)] * len(rows)
        if len(rows) == 1:
            if isinstance(rows, list):
                return [learner.predict_one(rows[0])]
            if isinstance(rows, np.ndarray) and service.live.preparing() is None:
                return [learner.predict_one(rows[0])]
        outputs = _outputs(learner, rows)
        return [labels[code] for code in classes_by(outputs).tolist()]
    except ValueError as error:
        raise unlearnable(str(error)) from None


def answer(service: Service, asked: Question) -> dict[str, Any]:
    """What is said of a question, but for ids."""
    if not asked.scores and not asked.proba:
        return _said(asked, predicted(service, asked.rows))
    learner, labels, count = service.live.learner, service.labels, len(asked.rows)
    try:
        if learner.__sklearn_is_fitted__():
            outputs = _outputs(learner, asked.rows)
        else:
            outputs = np.zeros((count, 1 if len(labels) == 2 else len(labels)))
        found = _said(asked, [labels[code] for code in classes_by(outputs).tolist()])
        if asked.scores:
            each = np.hstack([-outputs, outputs]) if outputs.shape[1] == 1 else outputs
            found["scores"] = _by_class(asked, labels, each)
        if asked.proba:
            found["probabilities"] = _by_class(asked, labels, _chances(learner, asked.rows))
    except ValueError as error:
        raise unlearnable(str(error)) from None
    return found


def _outputs(learner: OnlineClassifier, rows: Any) -> np.ndarray:
    return outputs_of(learner, rows).reshape(len(rows), -1)


def _chances(learner: OnlineClassifier, rows: Any) -> np.ndarray:
    if not hasattr(learner, "predict_proba"):
        raise unlearnable("proba: the learner has no probabilities; calibration='online' gives it.")
    if isinstance(rows, list):
        return np.array([list(learner.predict_proba_one(row).values()) for row in rows])
    return learner.predict_proba(rows)


def _class_of_zero(labels: list[Any]) -> Any:
    return labels[1] if len(labels) == 2 else labels[0]


def _said(asked: Question, classes: list[Any]) -> dict[str, Any]:
    return {"predictions": classes} if asked.several else {"prediction": classes[0]}


def _by_class(asked: Question, labels: list[Any], numbers: np.ndarray) -> Any:
    names = [str(label) for label in labels]
    found = [dict(zip(names, each, strict=True)) for each in numbers.tolist()]
    return found if asked.several else found[0]
