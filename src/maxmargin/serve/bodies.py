"""The bodies of requests and answers, as types: what decodes them also describes them (`openapi`).

A body that does not fit its type is a `Refusal` that names the field, the row or the line.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any, Generic, TypedDict, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

JSON, NDJSON = "application/json", "application/x-ndjson"

Row = Annotated[
    dict[str, int | float | str | bool | None] | Annotated[list[float | bool], Meta(min_length=1)],
    Meta(description="Values by column name, or a list of all numbers."),
]
Rows = Annotated[list[Row], Meta(min_length=1)]
Label = Annotated[int | float | str | bool, Meta(description="One of the model's classes.")]
Weight = Annotated[float, Meta(ge=0, description="The sample weight; 1 by default.")]
Id = Annotated[
    str,
    Meta(min_length=1, max_length=128, description="Events with the same id are learned once."),
]


class Refusal(Exception):
    """A request that is refused; after ``retry_after`` seconds, the same one may succeed."""

    def __init__(self, status: int, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.retry_after = status, reason, retry_after


# ---------------------------------------------------------------------------------------- requests
class Body(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The body of a request, or a line of one."""


def _check_one_of(one: Any, many: Any, what: str) -> None:
    if (one is UNSET) == (many is UNSET):
        raise ValueError(f"give either {what}")


def _check_counts(number: int, **columns: Any) -> None:
    for name, values in columns.items():
        if isinstance(values, list) and len(values) != number:
            raise ValueError(f"{name} has {len(values)} items, expected one for each of {number}")


class LearnBody(Body):
    """One row with its label, or rows with their labels, which are learned all or none."""

    row: Row | UnsetType = UNSET
    label: Label | UnsetType = UNSET
    weight: Weight | None = None
    id: Id | None = None
    rows: Rows | UnsetType = UNSET
    labels: list[Label] | UnsetType = UNSET
    weights: list[Weight] | None = None
    ids: list[Id | None] | None = None

    def __post_init__(self) -> None:
        _check_one_of(self.row, self.rows, "row and label, or rows and labels")
        if isinstance(self.rows, UnsetType):
            if self.label is UNSET:
                raise ValueError("missing required field `label`")
            if not (self.labels is UNSET and self.weights is None and self.ids is None):
                raise ValueError(
                    "labels, weights and ids go with rows; one row has label, weight, id"
                )
            return
        if self.labels is UNSET:
            raise ValueError("missing required field `labels`")
        if self.label is not UNSET or self.weight is not None:
            raise ValueError("label and weight go with one row; rows have labels and weights")
        if self.id is not None and self.ids is not None:
            raise ValueError("give either an id for all rows, or ids, one for each")
        _check_counts(len(self.rows), labels=self.labels, weights=self.weights, ids=self.ids)


class PredictBody(Body):
    """One row to predict, or several; with an id, its label may follow by ``/label``."""

    row: Row | UnsetType = UNSET
    id: Annotated[Id | bool | None, Meta(description="true for a new one.")] = None
    rows: Rows | UnsetType = UNSET
    ids: list[Id] | bool | None = None
    scores: Annotated[bool, Meta(description="Return the score of each class, too.")] = False
    proba: Annotated[bool, Meta(description="Return probabilities, too.")] = False
    set: Annotated[
        bool, Meta(description="Return the prediction set, too (`serve --coverage 0.9`).")
    ] = False
    ask: Annotated[
        bool,
        Meta(
            description="Return whether the label of the row is worth asking for, too; the model "
            "must be a `LabelQueries`."
        ),
    ] = False
    why: Annotated[
        bool,
        Meta(description="Return the 20 largest contributions of columns to the score, too."),
    ] = False

    def __post_init__(self) -> None:
        _check_one_of(self.row, self.rows, "row or rows")
        if isinstance(self.rows, UnsetType):
            if self.ids is not None:
                raise ValueError("ids go with rows; one row has an id")
            return
        if self.id is not None:
            raise ValueError("an id goes with one row; rows have ids")
        _check_counts(len(self.rows), ids=self.ids)
        if isinstance(self.ids, list) and len(set(self.ids)) < len(self.ids):
            raise ValueError("ids has the same id twice")


class LabelOne(Body):
    """The label of a row that was predicted with an id."""

    id: Id
    label: Label
    weight: Weight | None = None


class LabelBody(Body):
    """The label of a prediction, or those of several."""

    id: Id | UnsetType = UNSET
    label: Label | UnsetType = UNSET
    weight: Weight | None = None
    labels: Annotated[list[LabelOne], Meta(min_length=1)] | UnsetType = UNSET

    def __post_init__(self) -> None:
        _check_one_of(self.id, self.labels, "id and label, or labels")
        if self.labels is UNSET and self.label is UNSET:
            raise ValueError("missing required field `label`")

    def each(self) -> list[LabelOne]:
        if isinstance(self.labels, list):
            return self.labels
        return [LabelOne(self.id, self.label, self.weight)]  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------- answers
class LearnedAnswer(TypedDict, total=False):
    """What was learned; it is on the disk. Batches have ``duplicates`` instead of ``duplicate``."""

    learned: Annotated[int, Meta(description="Rows that this request added to the model.")]
    duplicate: Annotated[bool, Meta(description="Was the event learned before?")]
    duplicates: Annotated[int, Meta(description="Events that were learned before.")]
    sequence: Annotated[int, Meta(description="Number of the last event.")]


class Prediction(TypedDict, total=False):
    """The class of one row; the fields for several rows are the plurals of these."""

    prediction: Label
    scores: dict[str, float]
    probabilities: dict[str, float]
    set: list[Label]
    ask: bool
    why: dict[str, float]
    id: Id


class Error(TypedDict):
    """Why a request is refused, in one sentence."""

    error: str


# ----------------------------------------------------------------------------------------- reading
B = TypeVar("B", bound=Body)


class BodyReader(Generic[B]):
    """Reads bodies of one type."""

    def __init__(self, kind: type[B]) -> None:
        self._decoder = msgspec.json.Decoder(kind)

    def read(self, body: bytes | str, where: str = "the body") -> B:
        """The body; ``where`` is what errors call it."""
        try:
            return self._decoder.decode(body)
        except msgspec.ValidationError as error:
            what, _, path = str(error).rpartition(" - at `$")
            place = path.rstrip("`").lstrip(".") if what else ""
            if "[...]" in place:
                place = _named(body, place.partition("[...]")[0])
            what = (what or path).removeprefix("Object ")
            places = [place] if place and where == "the body" else [where, place]
            raise Refusal(
                400, f"{': '.join(filter(None, places))}: {what[:1].lower()}{what[1:300]}."
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            why = str(error).removeprefix("JSON is malformed: ")
            raise Refusal(400, f"{where} is not valid JSON: {why}.") from None

    def lines(self, body: bytes) -> Iterator[tuple[str, B]]:
        """The objects of NDJSON, each with its place; blank lines are skipped."""
        count = 0
        for number, line in enumerate(io.BytesIO(body), 1):
            if line.strip():
                count += 1
                yield f"line {number}", self.read(line, f"line {number}")
        if not count:
            raise Refusal(400, "the body has no lines.")


def _named(body: bytes | str, path: str) -> str:
    """The path of a value in a dict that is not a scalar; msgspec does not name the key."""
    with contextlib.suppress(msgspec.DecodeError, KeyError, StopIteration):
        found = msgspec.json.decode(body)
        for step in re.findall(r"\w+", path):
            found = found[int(step) if step.isdigit() else step]
        return f"{path}.{next(k for k, each in found.items() if isinstance(each, dict | list)):.80}"
    return f"a value of {path}"


LEARN, PREDICT, LABEL = BodyReader(LearnBody), BodyReader(PredictBody), BodyReader(LabelBody)


def rows_of(body: LearnBody | PredictBody) -> Any:
    """The rows of a body as a matrix, or as a list of dicts."""
    rows: list[Any] = [body.row] if isinstance(body.rows, UnsetType) else body.rows
    kind = type(rows[0])
    for k, row in enumerate(rows):
        if type(row) is not kind:
            raise Refusal(400, f"rows[{k}] is not of the same kind as rows[0].")
    if kind is dict:
        return rows
    width = len(rows[0])
    for k, row in enumerate(rows):
        if len(row) != width:
            raise Refusal(400, f"rows[{k}] has {len(row)} columns, expected {width}.")
    flat = chain.from_iterable(rows)
    return np.fromiter(flat, np.float64, len(rows) * width).reshape(len(rows), width)
