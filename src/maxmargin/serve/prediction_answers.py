"""Predictions, and how they are answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from maxmargin.estimator import OnlineClassifier
from maxmargin.evaluate.predictions import classes_by
from maxmargin.serve.bodies import (
    ARROW,
    JSON,
    PREDICT,
    check_containers,
    read_lines,
)
from maxmargin.serve.commands import Await, new_id
from maxmargin.serve.events import table_to_bytes
from maxmargin.serve.http_errors import HTTPError, unprocessable
from maxmargin.serve.requests import Question, check_rows, question_of, rows_of_table, table_of
from maxmargin.serve.scored_learner import outputs_of
from maxmargin.serve.served_model import ServedModel
from maxmargin.streams.arrow import arrow


def predicted(model: ServedModel, rows: Any) -> list[Any]:
    """The class of each row."""
    learner, labels = model.live.learner, model.labels
    try:
        if not learner.__sklearn_is_fitted__():
            return [_class_of_zero(labels)] * len(rows)
        if len(rows) == 1:
            if isinstance(rows, list):
                return [learner.predict_one(rows[0])]
            if isinstance(rows, np.ndarray) and model.live.preparing() is None:
                return [learner.predict_one(rows[0])]
        outputs = _outputs(learner, rows)
        return [labels[code] for code in classes_by(outputs).tolist()]
    except (ValueError, OverflowError) as error:  # an integer may be too large for a float
        raise unprocessable(str(error)) from None


def answered(
    model: ServedModel, kind: str, options: Mapping[str, str], body: bytes
) -> tuple[bytes, Await | None]:
    """The answer to ``POST /predict``, and the predictions that are to wait for their labels."""
    if kind == ARROW:
        return _answered_table(model, options, body)
    limits, rows, size = model.limits, 0, 0
    waiting: dict[str, tuple[Any, Any]] = {}
    if kind == JSON:
        check_containers(body, limits.rows)
        asked = question_of(model, PREDICT.read(body))
        _check_size(_size_of(model, asked), limits.answer_bytes)
        content = msgspec.json.encode(_answer_with_ids(model, asked, waiting))
    else:
        lines = []
        for where, each in read_lines(PREDICT, body, limits.rows):
            try:
                asked = question_of(model, each)
                rows += len(asked.rows)
                if rows > limits.rows:
                    raise HTTPError(413, f"there are more than {limits.rows:,} rows in all.")
                size += _size_of(model, asked)
                _check_size(size, limits.answer_bytes)
                lines.append(msgspec.json.encode(_answer_with_ids(model, asked, waiting)))
            except HTTPError as error:
                raise error.at(where) from None
        content = b"\n".join([*lines, b""])
    if not waiting:
        return content, None
    raw, labels = ([*each] for each in zip(*waiting.values(), strict=True))
    return content, Await([*waiting], raw, labels, 2 * len(body))


def _answer_with_ids(
    model: ServedModel, asked: Question, waiting: dict[str, tuple[Any, Any]]
) -> dict[str, Any]:
    """The answer to a question; rows with ids, and their classes, are put into ``waiting``."""
    said = answer(model, asked)
    if asked.ids is not None:
        classes = said["predictions"] if asked.is_batch else [said["prediction"]]
        for key, row, label in zip(asked.ids, asked.raw, classes, strict=True):
            waiting.setdefault(key, (row, label))
        said |= {"ids": asked.ids} if asked.is_batch else {"id": asked.ids[0]}
    return said


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise HTTPError(413, f"the answer would have more than {most:,} bytes.")


def _answered_table(
    model: ServedModel, options: Mapping[str, str], body: bytes
) -> tuple[bytes, Await | None]:
    table = table_of(model, body)
    drop = [options.get(name) for name in ("label", "weight")]
    table = table.select([name for name in table.column_names if name not in drop])
    rows = rows_of_table(model, table)
    check_rows(model, rows)
    classes = predicted(model, rows)
    columns: dict[str, Any] = {"prediction": classes}
    task = None
    if options.get("ids") == "true":
        columns["id"] = ids = [new_id() for _ in classes]
        if isinstance(rows, list):
            raw = rows
        else:
            raw = rows.tolist() if isinstance(rows, np.ndarray) else table.to_pylist()
        raw = msgspec.json.decode(msgspec.json.encode(raw, enc_hook=str))  # as JSON has them
        task = Await(ids, raw, classes, len(body) + table.nbytes)
    return table_to_bytes(arrow().table(columns)), task


def _size_of(model: ServedModel, asked: Question) -> int:
    """About how many bytes the scores and probabilities in an answer take."""
    if not asked.scores and not asked.proba:
        return 0
    numbers = asked.scores + asked.proba
    return numbers * len(asked.rows) * sum(len(str(label)) + 28 for label in model.labels)


def answer(model: ServedModel, asked: Question) -> dict[str, Any]:
    """What is said of a question, but for ids."""
    if not asked.scores and not asked.proba:
        return _said(asked, predicted(model, asked.rows))
    learner, labels, count = model.live.learner, model.labels, len(asked.rows)
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
            found["probabilities"] = _by_class(asked, labels, _probabilities(learner, asked.rows))
    except (ValueError, OverflowError) as error:  # an integer may be too large for a float
        raise unprocessable(str(error)) from None
    return found


def _outputs(learner: OnlineClassifier, rows: Any) -> np.ndarray:
    return outputs_of(learner, rows).reshape(len(rows), -1)


def _probabilities(learner: OnlineClassifier, rows: Any) -> np.ndarray:
    if not hasattr(learner, "predict_proba"):
        raise unprocessable(
            "proba: the learner has no probabilities; calibration='online' gives it."
        )
    if isinstance(rows, list):
        return np.array([list(learner.predict_proba_one(row).values()) for row in rows])
    return learner.predict_proba(rows)


def _class_of_zero(labels: list[Any]) -> Any:
    return labels[1] if len(labels) == 2 else labels[0]


def _said(asked: Question, classes: list[Any]) -> dict[str, Any]:
    return {"predictions": classes} if asked.is_batch else {"prediction": classes[0]}


def _by_class(asked: Question, labels: list[Any], numbers: np.ndarray) -> Any:
    names = [str(label) for label in labels]
    found = [dict(zip(names, each, strict=True)) for each in numbers.tolist()]
    return found if asked.is_batch else found[0]
