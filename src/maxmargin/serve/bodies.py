"""The bodies of requests and answers, as types.

Decoding, validation, JSON schemas and the OpenAPI document are derived from these types by msgspec.
A body that does not fit its type is an `HTTPError` that names the field, the row or the line.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Annotated, Any, Generic, Literal, TypedDict, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

from maxmargin import ALGORITHMS
from maxmargin.serve.http_errors import HTTPError, bad_request

JSON, NDJSON = "application/json", "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
KINDS = (JSON, NDJSON, ARROW)
# The names of models and shadows.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

NumberRow = Annotated[list[float | bool], Meta(min_length=1)]
Row = Annotated[
    dict[str, int | float | str | bool | None] | NumberRow,
    Meta(description="Values by column name, or a list of all numbers."),
]
Rows = Annotated[list[Row], Meta(min_length=1)]
Label = Annotated[int | float | str | bool, Meta(description="One of the model's classes.")]
Weight = Annotated[float, Meta(ge=0, description="The sample weight; 1 by default.")]
Id = Annotated[
    str,
    Meta(
        min_length=1,
        description="Events with the same id are learned once. At most 128 characters by default.",
    ),
]
Name = Annotated[str, Meta(extra_json_schema={"pattern": f"^{NAME.pattern}$"})]


# ---------------------------------------------------------------------------------------- requests
class Body(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request, or a line of one."""


class LearnRow(Body):
    """One row to learn from."""

    row: Row
    label: Label
    weight: Weight | None = None
    id: Id | None = None


class LearnRows(Body):
    """Rows to learn from together, all or none."""

    rows: Rows
    labels: list[Label]
    weights: list[Weight] | None = None
    id: Id | None = None


class Question(Body, kw_only=True):
    """What to predict."""

    scores: Annotated[bool, Meta(description="Return the score of each class, too.")] = False
    proba: Annotated[
        bool,
        Meta(
            description="Return probabilities, too (of `AutoMargin`, or with "
            '`calibration="online"`).'
        ),
    ] = False
    set: Annotated[
        bool,
        Meta(description="Return the prediction set, too (needs `coverage`, such as 0.9)."),
    ] = False


class PredictRow(Question, kw_only=True):
    """One row to predict; with an id, its label may follow."""

    row: Row
    id: Id | bool | None = None


class PredictRows(Question, kw_only=True):
    """Rows to predict; with ids, their labels may follow."""

    rows: Rows
    ids: list[Id] | bool | None = None


class LabelRow(Body):
    """The label of a row that was predicted with an id."""

    id: Id
    label: Label
    weight: Weight | None = None


class LabelRows(Body):
    """The labels of several rows."""

    labels: Annotated[list[LabelRow], Meta(min_length=1)]


class AddShadow(Body):
    """A learner that sees the same events, and answers no requests."""

    name: Name
    algorithm: Annotated[str, Meta(examples=list(ALGORITHMS))]
    parameters: dict[str, Any] | None = None


class Promote(Body):
    """The shadow that becomes the live learner."""

    shadow: str


# ----------------------------------------------------------------------------------------- answers
Count = Annotated[int, Meta(ge=0)]
Number = float | None
Sequence = Annotated[int, Meta(ge=0, description="Number of the last event in the log.")]
LearnedCount = Annotated[int, Meta(ge=0, description="Rows that this request added to the model.")]


class Learned(TypedDict):
    """One event, of one or many rows."""

    learned: LearnedCount
    duplicate: Annotated[
        bool, Meta(description="Whether an event with this id was learned before.")
    ]
    sequence: Sequence


class LearnedEach(TypedDict):
    """Several events: lines, or several labels."""

    learned: LearnedCount
    duplicates: Annotated[int, Meta(ge=0, description="Events that were learned before.")]
    sequence: Sequence


class Prediction(msgspec.Struct):
    """The class of one row; scores, probabilities, set and id if requested."""

    prediction: Label
    scores: dict[str, float] | UnsetType = UNSET
    probabilities: dict[str, float] | UnsetType = UNSET
    set: list[Label] | UnsetType = UNSET
    id: Id | UnsetType = UNSET


class Predictions(msgspec.Struct):
    """The same for several rows."""

    predictions: list[Label]
    scores: list[dict[str, float]] | UnsetType = UNSET
    probabilities: list[dict[str, float]] | UnsetType = UNSET
    sets: list[list[Label]] | UnsetType = UNSET
    ids: list[Id] | UnsetType = UNSET


class Changed(TypedDict):
    """The event that changed the shadows."""

    sequence: Annotated[int, Meta(ge=0, description="Number of the event in the log.")]
    duplicate: bool


class Health(TypedDict):
    """The server accepts events."""

    status: Literal["ok"]


class Error(TypedDict):
    """Why a request is refused, in one sentence."""

    error: str


class Quantiles(TypedDict):
    """Percentiles over the last 2000 requests."""

    p50: Number
    p99: Number


class Latency(TypedDict):
    """Milliseconds from the first byte of the body to the answer."""

    learn: Quantiles
    predict: Quantiles


class Certificate(TypedDict):
    """What is proved about the model."""

    margin: Number
    bound: Number
    ratio: Number


class Drift(TypedDict):
    """The search for changes in the rows."""

    delta: Annotated[
        float,
        Meta(description="If rows are exchangeable, the probability of any alarm is at most this."),
    ]
    evidence: Annotated[
        Number, Meta(description="Wealth of a gambler who bets on a change, 1 at first.")
    ]
    limit: Annotated[float, Meta(description="The evidence that raises the next alarm.")]
    alarms: Annotated[
        list[Count], Meta(max_length=100, description="The rows that raised the last alarms.")
    ]


class Coverage(TypedDict):
    """The share of prediction sets, made just before each row is learned, with the label."""

    target: float
    observed: Number
    bound: Annotated[
        Number, Meta(description="Upper bound on the difference of the two, on any stream.")
    ]
    rows: Count
    mean_size: Annotated[Number, Meta(description="Mean number of classes in a set.")]


LargestWeight = TypedDict("LargestWeight", {"name": str, "class": Label, "weight": float})


class Scores(TypedDict):
    """Scores of predictions made just before each row is learned."""

    progressive_accuracy: Annotated[Number, Meta(description="Accuracy over all rows.")]
    recent_progressive_accuracy: Annotated[
        Number, Meta(description="Accuracy over the last 1000 rows.")
    ]
    loss: Annotated[Number, Meta(description="Mean hinge loss over all rows.")]
    recent_loss: Annotated[Number, Meta(description="Mean hinge loss over the last 1000 rows.")]


class LearnerState(Scores):
    """The live learner, or a shadow."""

    name: str
    role: Literal["live", "shadow"]
    algorithm: str
    rows: Count
    refused: Annotated[int, Meta(ge=0, description="Events it could not learn from.")]
    updates: Count
    history: Annotated[
        list[tuple[int, Number]],
        Meta(description="Row and recent progressive accuracy, thinned out."),
    ]


Status = Literal["ok", "replaying", "stopping", "stopped", "failed"]


class ModelSummary(TypedDict):
    """One model of the server."""

    name: str
    algorithm: str
    status: Status
    rows: Count
    recent_answer_accuracy: Number
    recent_progressive_accuracy: Number


class Models(TypedDict):
    """All models of the server; the default one is the first."""

    models: list[ModelSummary]


class State(Scores):
    """The state of a model; null where nothing is known yet."""

    name: str
    status: Status
    algorithm: str
    parameters: dict[str, Any]
    classes: list[Label]
    n_features: int | None
    columns: Annotated[list[str], Meta(max_length=200)]
    sequence: Sequence
    events: Annotated[int, Meta(ge=0, description="Events that were learned.")]
    rows: Annotated[int, Meta(ge=0, description="Rows that were learned.")]
    updates: Annotated[int, Meta(ge=0, description="Updates of the learner.")]
    mistakes: Annotated[int, Meta(ge=0, description="Wrong predictions just before learning.")]
    answers: Annotated[
        int, Meta(ge=0, description="Predictions served with an id whose label has come.")
    ]
    wrong_answers: Annotated[int, Meta(ge=0, description="Those of them that were wrong.")]
    answer_accuracy: Annotated[
        Number, Meta(description="Of these predictions, as they were served by any live learner.")
    ]
    recent_answer_accuracy: Annotated[
        Number, Meta(description="Accuracy of the last 1000 of these predictions.")
    ]
    largest_class_share: Number
    events_per_second: Number
    rows_per_second: Number
    latency_ms: Latency
    waiting: Annotated[int, Meta(ge=0, description="Predictions that wait for their labels.")]
    queue: Annotated[int, Meta(ge=0, description="Requests that wait to be written.")]
    log_bytes: Annotated[int, Meta(ge=0, description="Size of the log.")]
    snapshot_sequence: Annotated[
        int, Meta(ge=0, description="The last event in the last snapshot.")
    ]
    uptime_seconds: Annotated[float, Meta(description="Since the start.")]
    certificate: Certificate | None
    drift: Drift
    drift_alarms: Annotated[int, Meta(ge=0, description="Drift alarms so far.")]
    coverage: Annotated[Coverage | None, Meta(description="Of a learner with prediction sets.")]
    largest_weights: list[LargestWeight]
    learners: list[LearnerState]
    history: Annotated[
        list[tuple[int, Number, Number, Number]],
        Meta(
            max_length=300,
            description="Row, progressive accuracy, recent progressive accuracy, recent loss.",
        ),
    ]
    example: Annotated[Row | None, Meta(description="The last row that was learned.")]


# ---------------------------------------------------------------------------------------- decoding
B = TypeVar("B", bound=Body)


class Reader(Generic[B]):
    """Decodes bodies of type ``one``, or of type ``many`` where ``field`` is given."""

    def __init__(self, one: type[B], many: type[B] | None = None, field: str = "") -> None:
        self._one = self._many = msgspec.json.Decoder(one)
        self._key = b""
        if many is not None:
            self._many, self._key = msgspec.json.Decoder(many), f'"{field}"'.encode()
            self._probe = msgspec.json.Decoder(
                msgspec.defstruct("Probe", [(field, msgspec.Raw, msgspec.Raw())])
            )

    def read(self, body: bytes, where: str = "the body") -> B:
        """The body; ``where`` is what errors call it."""
        likely = self._many if self._key in body else self._one
        try:
            try:
                return likely.decode(body)
            except msgspec.ValidationError:
                if self._many is self._one or (right := self._chosen(body)) is likely:
                    raise
            likely = right
            return right.decode(body)
        except msgspec.ValidationError as error:
            raise bad_request(_explained(str(error), where, body)) from None
        except RecursionError:
            raise bad_request(f"{where} is nested too deeply.") from None
        except UnicodeDecodeError:
            raise bad_request(f"{where} is not valid JSON: it is not UTF-8.") from None
        except msgspec.DecodeError as error:
            why = str(error).removeprefix("JSON is malformed: ").removeprefix("Input data was ")
            raise bad_request(f"{where} is not valid JSON: {why}.") from None

    def _chosen(self, body: bytes) -> msgspec.json.Decoder[B]:
        """The decoder for the fields that a body has: the key may be escaped, or in a row."""
        try:
            (given,) = msgspec.structs.astuple(self._probe.decode(body))
        except msgspec.ValidationError:  # not an object
            return self._one
        return self._many if bytes(given) else self._one


LEARN: Reader[LearnRow | LearnRows] = Reader(LearnRow, LearnRows, "rows")
LEARN_LINE = Reader(LearnRow)
PREDICT: Reader[PredictRow | PredictRows] = Reader(PredictRow, PredictRows, "rows")
LABEL: Reader[LabelRow | LabelRows] = Reader(LabelRow, LabelRows, "labels")
LABEL_LINE = Reader(LabelRow)
ADD_SHADOW, PROMOTE = Reader(AddShadow), Reader(Promote)


def read_lines(reader: Reader[B], body: bytes, most: int) -> Iterator[tuple[str, B]]:
    """The objects of NDJSON, each with its place; blank lines are skipped."""
    check_containers(body, most)
    count = 0
    for number, line in enumerate(io.BytesIO(body), 1):
        if line.strip():
            count += 1
            if count > most:
                raise HTTPError(413, f"there are more than {most:,} lines.")
            where = f"line {number}"
            yield where, reader.read(line, where)
    if not count:
        raise bad_request("the body has no lines.")


def check_containers(body: bytes, rows: int) -> None:
    """Refuse a text of JSON with more arrays and objects than so many rows need.

    They are two bytes each in the text, and a hundred in memory. A row has at most three: itself,
    a line around it, and an array of rows in the line. A few more are read, so that errors can name
    them.
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


# ------------------------------------------------------------------------------------------ errors
def _named(body: bytes, path: str) -> str:
    """The path of a dict's value that is not a scalar, of which msgspec does not name the key."""
    path = path.partition("[...]")[0]
    try:
        found = msgspec.json.decode(body)
        for step in re.findall(r"\w+", path):
            found = found[int(step) if step.isdigit() else step]
        return f"{path}.{next(k for k, each in found.items() if isinstance(each, dict | list)):.80}"
    except (msgspec.DecodeError, RecursionError, StopIteration):
        return f"a value of {path}"


def _explained(message: str, where: str, body: bytes) -> str:
    """What msgspec says of a body that does not fit: the place first, then what is wrong."""
    what, _, path = message.rpartition(" - at `$")
    if not what:
        what, path = message, ""
    path = path.rstrip("`").lstrip(".")
    place = _named(body, path) if "[...]" in path else path
    places = [place] if where == "the body" and place else [where, place]
    what = what.removeprefix("Object ")
    return f"{': '.join(filter(None, places))}: {what[:1].lower()}{what[1:]:.200}."
