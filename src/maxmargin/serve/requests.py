"""From the bodies of requests to tasks; what a model cannot take is refused."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from maxmargin.serve.arrow_sizes import table_within
from maxmargin.serve.bodies import (
    ARROW,
    JSON,
    LABEL,
    LABEL_LINE,
    LEARN,
    LEARN_LINE,
    NDJSON,
    LabelRow,
    LabelRows,
    LearnRows,
    check_containers,
    read_lines,
)
from maxmargin.serve.commands import Label, Learn
from maxmargin.serve.events import Lesson
from maxmargin.serve.http_errors import HTTPError, bad_request, unprocessable
from maxmargin.serve.served_model import ServedModel
from maxmargin.streams.arrow import arrow, kind_of
from maxmargin.streams.source import StreamError
from maxmargin.training.inputs import listed
from maxmargin.training.sample_weights import check_weights

Place = Callable[[int], str]


# ------------------------------------------------------------------------------------------- rows
def rows_of(rows: list[Any], most: int, place: Place = "rows[{}]".format) -> Any:
    """Rows as a matrix, or as a list of dicts."""
    count, kind = len(rows), type(rows[0])
    if count > most:
        raise HTTPError(413, f"there are {count:,} rows; at most {most:,} are taken at once.")
    if set(map(type, rows)) != {kind}:
        bad = next(k for k, row in enumerate(rows) if type(row) is not kind)
        raise bad_request(f"{place(bad)} is not of the same kind as {place(0)}.")
    if kind is dict:
        return rows
    width = len(rows[0])
    if set(map(len, rows)) != {width}:
        bad = next(k for k, row in enumerate(rows) if len(row) != width)
        raise bad_request(f"{place(bad)} has {len(rows[bad])} columns, expected {width}.")
    if count == 1:
        return np.array(rows, dtype=np.float64)
    return np.fromiter(chain.from_iterable(rows), np.float64, count * width).reshape(count, width)


def check_rows(model: ServedModel, rows: Any) -> None:
    """Raise a `HTTPError` if rows have the wrong number of columns, or too many."""
    if model.live.preparing() is not None:
        return
    most, learner = model.limits.columns, model.live.learner
    if isinstance(rows, list):
        left = most - model.columns()
        if sum(map(len, rows)) > left and len({name for row in rows for name in row}) > left:
            raise HTTPError(413, f"there would be more than {most:,} columns.")
        return
    width = rows.shape[1]
    if learner.__sklearn_is_fitted__():
        if width != (expected := learner.n_features_in_):
            raise unprocessable(f"rows have {width} columns; the model has {expected}.")
    elif width > most:
        raise HTTPError(413, f"rows have {width:,} columns; at most {most:,} are taken.")


def check_count(name: str, values: list[Any], rows: int) -> None:
    if len(values) != rows:
        raise bad_request(f"{name} has {len(values)} items, expected one for each of {rows} rows.")


# ------------------------------------------------------------------------------- labels and tasks
def as_classes(
    model: ServedModel, labels: Sequence[Any], place: Place = "rows[{}]".format
) -> list[Any]:
    """The labels as the classes have them: 1.0 is the class 1."""
    codes = model.codes
    try:
        if all(map(codes.__contains__, labels)):
            return [model.labels[codes[label]] for label in labels]
        bad = next(k for k, label in enumerate(labels) if label not in codes)
    except TypeError:
        bad = next(k for k, label in enumerate(labels) if isinstance(label, list | dict))
        raise bad_request(f"{place(bad)}: a label must be a string or a number.") from None
    classes = listed(model.classes)
    where = f"{place(bad)}: " if len(labels) > 1 else ""
    raise unprocessable(f"{where}the label {labels[bad]!r:.80} is not among the classes {classes}.")


def check_sample_weights(weights: list[float], rows: int) -> None:
    check_count("weights", weights, rows)
    try:
        check_weights(weights, rows)
    except ValueError as error:
        raise unprocessable(str(error)) from None


def new_id() -> str:
    return secrets.token_hex(8)


def checked_id(found: str, most: int, where: str = "") -> str:
    """The id, which must not be too long; ``where`` is its place in the request."""
    if not found or len(found) > most:
        place = f"{where}: " if where else ""
        raise bad_request(f"{place}id must have 1 to {most} characters, got {found!r:.80}.")
    return found


def learn_task(model: ServedModel, kind: str, key: str | None, options: Any, body: bytes) -> Learn:
    """The task of ``POST /learn``; ``key`` is the id that the request has in its header."""
    limits, size = model.limits, 2 * len(body)
    place: Place = "rows[{}]".format
    rows, labels, weights = None, list[Any](), None
    ids: Sequence[str | None] = () if key is None else (key,)
    if kind == ARROW:
        table = table_of(model, body)
        rows, labels, weights = learned_columns(model, table, options)
        size = len(body) + table.nbytes
    elif kind == NDJSON:
        if key is not None:
            raise bad_request("Idempotency-Key names one event; give each line an id instead.")
        places, lines = map(list, zip(*read_lines(LEARN_LINE, body, limits.rows), strict=True))
        place, ids = places.__getitem__, [each.id for each in lines]
        rows = rows_of([each.row for each in lines], limits.rows, place)
        labels = [each.label for each in lines]
        if any(each.weight is not None for each in lines):
            weights = [1.0 if each.weight is None else each.weight for each in lines]
    else:
        check_containers(body, limits.rows)
        found = LEARN.read(body)
        if isinstance(found, LearnRows):
            rows, labels, weights = rows_of(found.rows, limits.rows), found.labels, found.weights
            check_count("labels", labels, len(rows))
        else:
            rows, labels = rows_of([found.row], limits.rows), [found.label]
            weights = None if found.weight is None else [found.weight]
        if found.id is not None:
            ids = (found.id,)
    if weights is not None:
        check_sample_weights(weights, len(labels))
    labels = as_classes(model, labels, place)
    check_rows(model, rows)
    for k, each in enumerate(ids):
        if each is not None:
            checked_id(each, limits.id_length, place(k) if kind == NDJSON else "")
    return Learn(Lesson(rows, labels, weights, ids), size, by_row=kind == NDJSON)


def label_task(model: ServedModel, kind: str, body: bytes) -> Label:
    if kind == ARROW:
        raise HTTPError(415, f"labels come as {JSON} or {NDJSON}.")
    most = model.limits.rows
    items: Iterable[tuple[str, LabelRow]]
    if kind == NDJSON:
        items = read_lines(LABEL_LINE, body, most)
    else:
        check_containers(body, most)
        found = LABEL.read(body)
        if isinstance(found, LabelRows):
            if (count := len(found.labels)) > most:
                raise HTTPError(413, f"there are {count:,} labels; at most {most:,} are taken.")
            items = [(f"labels[{k}]", each) for k, each in enumerate(found.labels)]
        else:
            items = [("", found)]
    labelled = []
    for where, each in items:
        try:
            checked_id(each.id, model.limits.id_length)
            (each.label,) = as_classes(model, [each.label])
            if each.weight is not None:
                check_sample_weights([each.weight], 1)
        except HTTPError as error:
            raise error.at(where) from None
        labelled.append(each)
    return Label(labelled, 2 * len(body), is_batch=bool(where))


# ----------------------------------------------------------------------------------------- Arrow
def table_of(model: ServedModel, body: bytes) -> Any:
    """The table of an Arrow stream, which must not be too large once it is decoded."""
    limits = model.limits
    try:
        table = table_within(body, limits.rows, limits.values, limits.table_bytes)
    except HTTPError:
        raise
    except StreamError as error:
        raise HTTPError(415, str(error)) from None
    except Exception as error:
        raise bad_request(f"the body is not a valid Arrow stream: {error}.") from None
    if table.num_rows == 0:
        raise bad_request("the table has no rows.")
    if len(set(table.column_names)) < table.num_columns:
        raise bad_request("the table has two columns of the same name.")
    return table


def learned_columns(
    model: ServedModel, table: Any, options: Any
) -> tuple[Any, list[Any], list[float] | None]:
    """Rows, labels and weights of a table."""
    label, weight = options.get("label") or "label", options.get("weight")
    weights = column_of(table, weight) if weight else None
    for k, each in enumerate(weights or ()):
        if type(each) not in (int, float):
            raise bad_request(f"rows[{k}]: the weight must be a number.")
    labels, names = column_of(table, label), table.column_names
    rows = rows_of_table(
        model, table.select([each for each in names if each not in (label, weight)])
    )
    return rows, labels, weights


def column_of(table: Any, name: str) -> list[Any]:
    if name not in table.column_names:
        raise bad_request(f"the table has no column {name!r:.80}.")
    return values_of(table.column(name))


def values_of(column: Any) -> list[Any]:
    """A column as Python's values; rows with the same dictionary value share one object."""
    if not arrow("pyarrow.types").is_dictionary(column.type):
        found: list[Any] = column.to_pylist()
        return found
    values: list[Any] = []
    for chunk in column.chunks:
        categories = [*chunk.dictionary.to_pylist(), None]
        values += [categories[-1 if k is None else k] for k in chunk.indices.to_pylist()]
    return values


def rows_of_table(model: ServedModel, table: Any) -> Any:
    """The rows of a table as the model takes them: a table, dicts, or a matrix."""
    learner = model.live.learner
    if model.live.preparing() is not None:
        return table.combine_chunks()
    if learner.__sklearn_is_fitted__():
        names = getattr(learner, "feature_names_in_", None)
        if names is not None:
            if lost := [name for name in names if name not in table.column_names]:
                raise unprocessable(f"the table has no column {lost[0]!r}.")
            table = table.select(list(names))
        elif (columns := getattr(learner, "columns_", None)) is not None:
            if columns.keys() != set(table.column_names):
                return dicts_of_table(table)
            table = table.select(list(columns))
    if not table.num_columns:
        raise bad_request("the table has no columns beside the label.")
    rows = np.empty((table.num_rows, table.num_columns))
    for k, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if kind_of(column.type) not in ("number", "boolean"):
            raise unprocessable(f"column {name!r:.80} does not hold numbers.")
        rows[:, k] = column.cast("float64", safe=False).to_numpy()
    if not np.isfinite(rows).all():
        bad = int(np.argmin(np.isfinite(rows).all(axis=1)))
        raise unprocessable(f"row {bad} has a value that is missing or not finite.")
    return rows


def dicts_of_table(table: Any) -> list[dict[str, Any]]:
    """Rows as dicts of values that the log preserves."""
    types, columns = arrow("pyarrow.types"), []
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        if kind_of(kind) is None:
            raise unprocessable(f"column {name!r:.80} holds neither numbers nor text.")
        values = values_of(column)
        if types.is_decimal(kind):
            values = [None if value is None else float(value) for value in values]
        columns.append(values)
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
