"""What stands in the body of a request: rows, labels, weights and ids, in JSON, NDJSON or Arrow.

Whatever is wrong with it is said by a `HTTPError`, which names the field, the row or the line.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import orjson

from maxmargin.estimator.messages import listed
from maxmargin.estimator.sample_weights import check_weights
from maxmargin.serve.arrow_sizes import table_within
from maxmargin.serve.commands import Answer, Label, Learn, checked_id, new_id
from maxmargin.serve.events import Lesson
from maxmargin.serve.http_errors import HTTPError, bad_request, unprocessable
from maxmargin.serve.service import Service
from maxmargin.streams.arrow import arrow, kind_of
from maxmargin.streams.source import StreamError

JSON, NDJSON = "application/json", "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
KINDS = (JSON, NDJSON, ARROW)

ONE_LESSON = {"row", "label", "weight", "id"}
LESSONS = {"rows", "labels", "weights", "id"}
ONE_QUESTION = {"row", "scores", "proba", "id"}
QUESTIONS = {"rows", "scores", "proba", "ids"}
ONE_LABEL = {"id", "label", "weight"}


# ------------------------------------------------------------------------------------------- JSON
def parsed(body: bytes, where: str = "the body", rows: int | None = None) -> Any:
    """What a text of JSON says; it must not have many more objects than so many rows need."""
    if rows is not None:
        check_containers(body, rows)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"{where} is no JSON: {error}.") from None


def check_containers(body: bytes, rows: int) -> None:
    """Refuse a text of JSON with too many arrays and objects.

    They are two bytes each in the text, and a hundred when they are read. A row has at most three:
    itself, a line around it, and an array of rows in the line. A few more are read, so that what is
    wrong with them can be said.
    """
    most = 3 * rows + 1000
    if len(body) <= most or body.count(b"[") + body.count(b"{") <= most:
        return
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")  # no escaped quotes
    letters = np.frombuffer(plain, np.uint8)
    outside = ~np.logical_xor.accumulate(letters == ord('"'))
    opening = (letters == ord("[")) | (letters == ord("{"))
    if np.count_nonzero(opening & outside) > most:
        raise HTTPError(413, f"the body has more arrays and objects than {rows:,} rows need.")


def object_of(body: bytes, fields: Collection[str], where: str = "the body") -> dict[str, Any]:
    """A JSON object that has no other fields."""
    return checked_object(parsed(body, where), fields, where)


def checked_object(found: Any, fields: Collection[str], where: str) -> dict[str, Any]:
    if type(found) is not dict:
        raise bad_request(f"{where} must be a JSON object.")
    for name in found:
        if name not in fields:
            raise bad_request(f"{where} has a field {name!r:.80}; known are {', '.join(fields)}.")
    return found


def lines_of(body: bytes, most: int) -> Iterator[tuple[str, Any]]:
    """The objects of NDJSON, each with its place; blank lines are none."""
    check_containers(body, most)
    count = 0
    for number, line in enumerate(io.BytesIO(body), 1):
        if line.strip():
            count += 1
            if count > most:
                raise HTTPError(413, f"there are more than {most:,} lines.")
            yield f"line {number}", parsed(line, f"line {number}")
    if not count:
        raise bad_request("the body has no lines.")


def needed(found: dict[str, Any], name: str, where: str = "") -> Any:
    try:
        return found[name]
    except KeyError:
        place = f"{where}: " if where else ""
        raise bad_request(f"{place}there is no field {name!r}.") from None


# ------------------------------------------------------------------------------------------- rows
def one_row(row: Any, where: str = "row") -> Any:
    """A row as a matrix, or as a list of one dict."""
    if type(row) is list:
        try:
            numbers = array("d", row)
        except TypeError:
            raise bad_request(f"{where} has a value that is not a number.") from None
        if not numbers:
            raise bad_request(f"{where} is empty.")
        return np.frombuffer(numbers).reshape(1, -1)
    if type(row) is dict:
        return [row]
    raise bad_request(f"{where} must be an array of numbers or an object.")


def many_rows(rows: Any, most: int, place: Callable[[int], str] = "row {}".format) -> Any:
    """Rows as a matrix, or as a list of dicts."""
    if type(rows) is not list or not rows:
        raise bad_request("rows must be an array of at least one row.")
    if len(rows) > most:
        raise HTTPError(413, f"there are {len(rows):,} rows; at most {most:,} are taken at once.")
    kind = type(rows[0])
    if kind not in (list, dict):
        raise bad_request(f"{place(0)} must be an array of numbers or an object.")
    if kinds := set(map(type, rows)) - {kind}:
        bad = next(k for k, row in enumerate(rows) if type(row) in kinds)
        raise bad_request(f"{place(bad)} is not of the kind of {place(0)}.")
    if kind is dict:
        return rows
    width = len(rows[0])
    if set(map(len, rows)) != {width}:
        bad = next(k for k, row in enumerate(rows) if len(row) != width)
        raise bad_request(f"{place(bad)} has {len(rows[bad])} columns, not {width}.")
    if not width:
        raise bad_request(f"{place(0)} is empty.")
    try:
        numbers = array("d", chain.from_iterable(rows))
    except TypeError:
        bad = next(k for k, row in enumerate(rows) if not _are_numbers(row))
        raise bad_request(f"{place(bad)} has a value that is not a number.") from None
    return np.frombuffer(numbers).reshape(len(rows), width)


def _are_numbers(row: list[Any]) -> bool:
    return all(isinstance(value, int | float) for value in row)


def check_rows(service: Service, rows: Any) -> None:
    """Raise a `HTTPError` if the learner cannot take such rows, as far as that is seen at once."""
    most = service.limits.columns
    learner = service.live.learner
    raw = service.live.preparing() is not None
    if isinstance(rows, np.ndarray):
        width = rows.shape[1]
        if learner.__sklearn_is_fitted__() and not raw:
            if width != (wanted := learner.n_features_in_):
                raise unprocessable(f"rows have {width} columns; the model has {wanted}.")
        elif width > most:
            raise HTTPError(413, f"rows have {width:,} columns; at most {most:,} are taken.")
    elif isinstance(rows, list) and not raw:
        known = learner.n_features_in_ if learner.__sklearn_is_fitted__() else 0
        if known + sum(map(len, rows)) > most:
            names = {name for row in rows for name in row}
            if known + len(names) > most:
                raise HTTPError(413, f"there would be more than {most:,} columns.")


# --------------------------------------------------------------------------------------- lessons
def known_labels(
    service: Service, labels: Sequence[Any], place: Callable[[int], str] = "row {}".format
) -> list[Any]:
    """The labels, as the classes have them."""
    places, classes = service.places, service.labels
    try:
        if all(map(places.__contains__, labels)):
            return [classes[places[label]] for label in labels]
        bad = next(k for k, label in enumerate(labels) if label not in places)
    except TypeError:
        bad = next(k for k, label in enumerate(labels) if isinstance(label, list | dict))
        raise bad_request(f"{place(bad)}: a label must be a text or a number.") from None
    known = listed(service.classes)
    where = f"{place(bad)}: " if len(labels) > 1 else ""
    raise unprocessable(f"{where}the label {labels[bad]!r:.80} is not among the classes {known}.")


def checked_weights(weights: Any, rows: int) -> list[float]:
    if type(weights) is not list or len(weights) != rows:
        raise bad_request(f"weights must be an array of {rows} numbers.")
    for k, weight in enumerate(weights):
        if not isinstance(weight, int | float) or isinstance(weight, bool):
            raise bad_request(f"row {k}: the weight must be a number.")
    try:
        check_weights(weights, rows)
    except ValueError as error:
        raise unprocessable(str(error)) from None
    return weights


def learning(service: Service, kind: str, key: str | None, options: Any, body: bytes) -> Learn:
    """The task of ``POST /learn``; ``key`` is the id that the request has in its header."""
    if kind == JSON:
        return _learning_json(service, body, key)
    if kind == NDJSON:
        if key is not None:
            raise bad_request("Idempotency-Key is of one event; lines have ids of their own.")
        return _learning_lines(service, body)
    table, limits = table_of(service, body), service.limits
    labels = column_of(table, options.get("label") or "label")
    weight = options.get("weight")
    weights = None
    if weight:
        weights = checked_weights(column_of(table, weight), table.num_rows)
    labels = known_labels(service, labels)
    left = [
        name for name in table.column_names if name not in (options.get("label") or "label", weight)
    ]
    rows = rows_of_table(service, table.select(left))
    check_rows(service, rows)
    ids = () if key is None else (checked_id(key, limits.id_length),)
    return Learn(Lesson(rows, labels, weights, ids), len(body) + table.nbytes)


def _learning_json(service: Service, body: bytes, key: str | None) -> Learn:
    limits = service.limits
    found = parsed(body, rows=limits.rows)
    if type(found) is dict and "rows" in found:
        checked_object(found, LESSONS, "the body")
        rows = many_rows(found["rows"], limits.rows)
        labels, weights = needed(found, "labels"), found.get("weights")
        count = len(rows)
        if type(labels) is not list or len(labels) != count:
            raise bad_request(f"labels must be an array of {count}, one for each row.")
        weights = None if weights is None else checked_weights(weights, count)
    else:
        checked_object(found, ONE_LESSON, "the body")
        rows, labels = one_row(needed(found, "row")), [needed(found, "label")]
        weight = found.get("weight")
        weights = None if weight is None else checked_weights([weight], 1)
    labels = known_labels(service, labels)
    check_rows(service, rows)
    given = found.get("id")
    ids: Sequence[str] = ()
    if given is not None or key is not None:
        ids = (checked_id(key if given is None else given, limits.id_length),)
    return Learn(Lesson(rows, labels, weights, ids), 2 * len(body))


def _learning_lines(service: Service, body: bytes) -> Learn:
    limits = service.limits
    lines = list(lines_of(body, limits.rows))
    raw, labels, weights, ids = [], [], [], []
    for where, found in lines:
        checked_object(found, ONE_LESSON, where)
        raw.append(needed(found, "row", where))
        labels.append(needed(found, "label", where))
        weights.append(found.get("weight"))
        given = found.get("id")
        try:
            ids.append(None if given is None else checked_id(given, limits.id_length))
        except HTTPError as refusal:
            raise HTTPError(refusal.status, f"{where}: {refusal.reason}") from None
    rows = many_rows(raw, limits.rows, lambda k: lines[k][0])
    labels = known_labels(service, labels, lambda k: lines[k][0])
    check_rows(service, rows)
    if all(weight is None for weight in weights):
        worth = None
    else:
        worth = checked_weights([1.0 if one is None else one for one in weights], len(labels))
    return Learn(Lesson(rows, labels, worth, ids), 2 * len(body), by_row=True)


def labelling(service: Service, kind: str, body: bytes) -> Label:
    """The task of ``POST /label``."""
    if kind == ARROW:
        raise HTTPError(415, f"labels come as {JSON} or {NDJSON}.")
    several, most = True, service.limits.rows
    items: Iterable[tuple[str, Any]]
    if kind == NDJSON:
        items = lines_of(body, most)
    else:
        found = parsed(body, rows=most)
        if type(found) is dict and "labels" in found:
            checked_object(found, {"labels"}, "the body")
            if type(found["labels"]) is not list or not found["labels"]:
                raise bad_request("labels must be an array of at least one object.")
            if (count := len(found["labels"])) > most:
                raise HTTPError(413, f"there are {count:,} labels; at most {most:,} are taken.")
            items = [(f"label {k}", each) for k, each in enumerate(found["labels"])]
        else:
            items, several = [("the body", found)], False
    answers = []
    for where, each in items:
        checked_object(each, ONE_LABEL, where)
        key, label = needed(each, "id", where), needed(each, "label", where)
        weight = each.get("weight")
        try:
            checked_id(key, service.limits.id_length)
            (label,) = known_labels(service, [label])
            if weight is not None:
                checked_weights([weight], 1)
        except HTTPError as refusal:
            if not several:
                raise
            raise HTTPError(refusal.status, f"{where}: {refusal.reason}") from None
        answers.append(Answer(key, label, weight))
    return Label(answers, 2 * len(body), several=several)


# ------------------------------------------------------------------------------------- questions
class Question(NamedTuple):
    """Rows to predict.

    Attributes
    ----------
    rows : matrix, list of dicts or table
    raw : rows as JSON has them; None of a table
    ids : list of str or None, if predictions are to wait for their labels
    """

    rows: Any
    raw: list[Any] | None
    ids: list[str] | None
    scores: bool = False
    proba: bool = False
    several: bool = True


def question(service: Service, found: Any, where: str = "the body") -> Question:
    """What a JSON object asks."""
    limits = service.limits
    if type(found) is dict and "rows" in found:
        checked_object(found, QUESTIONS, where)
        rows, raw = many_rows(found["rows"], limits.rows), found["rows"]
        ids = found.get("ids")
        if ids is True:
            ids = [new_id() for _ in raw]
        elif ids is False:
            ids = None
        elif ids is not None:
            if type(ids) is not list or len(ids) != len(raw):
                raise bad_request(f"ids must be true, or an array of {len(raw)}, one for each row.")
            ids = [checked_id(each, limits.id_length) for each in ids]
            if len(set(ids)) < len(ids):
                raise bad_request("ids has the same id twice.")
        several = True
    else:
        checked_object(found, ONE_QUESTION, where)
        row = needed(found, "row", where)
        rows, raw, several = one_row(row), [row], False
        ids = found.get("id")
        if ids is True:
            ids = [new_id()]
        elif ids is False:
            ids = None
        elif ids is not None:
            ids = [checked_id(ids, limits.id_length)]
    for name in ("scores", "proba"):
        if type(found.get(name, False)) is not bool:
            raise bad_request(f"{name} must be true or false.")
    check_rows(service, rows)
    scores, proba = found.get("scores", False), found.get("proba", False)
    return Question(rows, raw, ids, scores, proba, several)


# ----------------------------------------------------------------------------------------- Arrow
def table_of(service: Service, body: bytes) -> Any:
    """The table of an Arrow stream, which must not be too large once it is decoded."""
    limits = service.limits
    try:
        table = table_within(body, limits.rows, limits.values, limits.table_bytes)
    except HTTPError:
        raise
    except StreamError as error:
        raise HTTPError(415, str(error)) from None
    except Exception as error:
        raise bad_request(f"the body is no Arrow stream: {error}.") from None
    if table.num_rows == 0:
        raise bad_request("the table has no rows.")
    if len(set(table.column_names)) < table.num_columns:
        raise bad_request("the table has two columns of the same name.")
    return table


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
        known = [*chunk.dictionary.to_pylist(), None]
        values += [known[-1 if k is None else k] for k in chunk.indices.to_pylist()]
    return values


def rows_of_table(service: Service, table: Any) -> Any:
    """As the model takes them: raw, by names, or as a matrix."""
    learner = service.live.learner
    if service.live.preparing() is not None:
        return table.combine_chunks()
    if learner.__sklearn_is_fitted__():
        names = getattr(learner, "feature_names_in_", None)
        if names is not None:
            if lost := [name for name in names if name not in table.column_names]:
                raise unprocessable(f"the table has no column {lost[0]!r}.")
            table = table.select(list(names))
        elif (known := getattr(learner, "columns_", None)) is not None:
            if known.keys() != set(table.column_names):
                return dicts_of_table(table)
            table = table.select(list(known))
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
    """Rows by names, in values that are the same when they come back from the log."""
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
