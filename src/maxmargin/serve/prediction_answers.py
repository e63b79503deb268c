"""Predictions, and how they are answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from maxmargin.evaluate.predictions import classes_by
from maxmargin.serve.arrow_tables import rows_of_table, table_of
from maxmargin.serve.bodies import (
    ARROW,
    JSON,
    PREDICT,
    PredictRow,
    PredictRows,
    Question,
    check_containers,
    read_lines,
)
from maxmargin.serve.events import table_to_bytes
from maxmargin.serve.http_errors import HTTPError, bad_request, unprocessable
from maxmargin.serve.requests import (
    AwaitLabels,
    check_count,
    check_rows,
    checked_id,
    new_id,
    rows_of,
)
from maxmargin.serve.scored_learner import outputs_of
from maxmargin.serve.served_model import ServedModel
from maxmargin.streams.arrow import arrow

# The fields of an answer for one row, and their names in an answer for many.
PLURAL = {"prediction": "predictions", "set": "sets", "id": "ids"}


def answered(
    model: ServedModel, kind: str, options: Mapping[str, str], body: bytes
) -> tuple[bytes, AwaitLabels | None]:
    """The answer to ``POST /predict``, and the predictions that are to wait for their labels."""
    if kind == ARROW:
        return _answered_table(model, options, body)
    limits = model.limits
    items: Iterable[tuple[str, PredictRow | PredictRows]]
    if kind == JSON:
        check_containers(body, limits.rows)
        items = [("", PREDICT.read(body))]
    else:
        items = read_lines(PREDICT, body, limits.rows)
    waiting: dict[str, list[Any]] = {}  # rows and answers by id, of which the first counts
    count, size, answers = 0, 0, []
    for where, question in items:
        is_batch = isinstance(question, PredictRows)
        raw = question.rows if isinstance(question, PredictRows) else [question.row]
        try:
            rows, ids = rows_of(raw, limits.rows), _ids(question, len(raw), limits.id_length)
            check_rows(model, rows)
            count += len(raw)
            if count > limits.rows:
                raise HTTPError(413, f"there are more than {limits.rows:,} rows in all.")
            size += _size_of(model, question, len(raw))
            if size > (most := limits.answer_bytes):
                raise HTTPError(413, f"the answer would have more than {most:,} bytes.")
            columns = answer(model, rows, question)
        except HTTPError as error:
            raise error.at(where) from None
        if ids is not None:
            columns["id"] = ids
            for key, *found in zip(ids, raw, columns["prediction"], strict=True):
                waiting.setdefault(key, found)
        answers.append(msgspec.json.encode(_fields(columns, is_batch)))
    content = answers[0] if kind == JSON else b"\n".join([*answers, b""])
    if not waiting:
        return content, None
    known, labels = ([*each] for each in zip(*waiting.values(), strict=True))
    return content, AwaitLabels([*waiting], known, labels, 2 * len(body))


def _ids(question: PredictRow | PredictRows, rows: int, most: int) -> list[str] | None:
    """The ids of the predictions, if they are to wait for their labels."""
    given = question.ids if isinstance(question, PredictRows) else question.id
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, list):
        return [new_id() for _ in range(rows)] if given else None
    check_count("ids", given, rows)
    if len(set(given)) < rows:
        raise bad_request("ids has the same id twice.")
    return [checked_id(each, most) for each in given]


def _fields(columns: dict[str, list[Any]], is_batch: bool) -> dict[str, Any]:
    if is_batch:
        return {PLURAL.get(name, name): values for name, values in columns.items()}
    return {name: values[0] for name, values in columns.items()}


def _answered_table(
    model: ServedModel, options: Mapping[str, str], body: bytes
) -> tuple[bytes, AwaitLabels | None]:
    table = table_of(body, model.limits)
    drop = [options.get(name) for name in ("label", "weight")]
    table = table.select([name for name in table.column_names if name not in drop])
    rows = rows_of_table(model.live, table)
    check_rows(model, rows)
    columns = answer(model, rows, Question())
    task = None
    if options.get("ids") == "true":
        classes = columns["prediction"]
        columns["id"] = ids = [new_id() for _ in classes]
        if isinstance(rows, list):
            raw = rows
        else:
            raw = rows.tolist() if isinstance(rows, np.ndarray) else table.to_pylist()
        raw = msgspec.json.decode(msgspec.json.encode(raw, enc_hook=str))  # as JSON has them
        task = AwaitLabels(ids, raw, classes, len(body) + table.nbytes)
    return table_to_bytes(arrow().table(columns)), task


def _size_of(model: ServedModel, question: Question, rows: int) -> int:
    """About how many bytes the scores, probabilities and sets in an answer take."""
    numbers = question.scores + question.proba + question.set
    return numbers and numbers * rows * sum(len(str(label)) + 28 for label in model.labels)


def answer(model: ServedModel, rows: Any, question: Question) -> dict[str, list[Any]]:
    """The predictions, scores and probabilities of all rows, by the fields of an answer."""
    learner, labels = model.live.learner, model.labels
    try:
        if not learner.__sklearn_is_fitted__():
            outputs = np.zeros((len(rows), 1 if len(labels) == 2 else len(labels)))
        elif len(rows) == 1 and _asks_class(model, rows, question):
            return {"prediction": [learner.predict_one(rows[0])]}
        else:
            outputs = outputs_of(learner, rows).reshape(len(rows), -1)
        found = {"prediction": [labels[code] for code in classes_by(outputs).tolist()]}
        if question.scores:
            each = np.hstack([-outputs, outputs]) if outputs.shape[1] == 1 else outputs
            found["scores"] = _by_class(labels, each)
        if question.proba:
            found["probabilities"] = _by_class(labels, _probabilities(model, rows))
        if question.set:
            found["set"] = _sets(model, rows)
    except (ValueError, OverflowError) as error:  # an integer may be too large for a float
        raise unprocessable(str(error)) from None
    return found


def _asks_class(model: ServedModel, rows: Any, question: Question) -> bool:
    """Is only the class asked for, of rows that `predict_one` takes?"""
    if question.scores or question.proba or question.set:
        return False
    if isinstance(rows, np.ndarray):
        return model.live.preparing() is None
    return isinstance(rows, list)


def _probabilities(model: ServedModel, rows: Any) -> np.ndarray:
    learner = model.live.learner
    if not hasattr(learner, "predict_proba"):
        raise unprocessable(
            "proba: the learner has no probabilities; calibration='online' gives it."
        )
    if isinstance(rows, list):
        return np.array([list(learner.predict_proba_one(row).values()) for row in rows])
    return learner.predict_proba(rows)


def _sets(model: ServedModel, rows: Any) -> list[list[Any]]:
    """The classes in the prediction set of each row; all of them before any row was learned."""
    learner, labels = model.live.learner, model.labels
    if getattr(learner, "coverage", None) is None:
        raise unprocessable("set: the learner has no prediction sets; coverage=0.9 gives it.")
    if not learner.__sklearn_is_fitted__():
        return [list(labels)] * len(rows)
    if isinstance(rows, list):
        found = [learner.predict_set_one(row) for row in rows]
        return [[label for label in labels if label in each] for each in found]
    return [learner.classes_[inside].tolist() for inside in learner.predict_set(rows)]


def _by_class(labels: list[Any], numbers: np.ndarray) -> list[dict[str, float]]:
    names = [str(label) for label in labels]
    return [dict(zip(names, each, strict=True)) for each in numbers.tolist()]
