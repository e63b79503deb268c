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
WithScores = Annotated[bool, Meta(description="Return the score of each class, too.")]
WithProba = Annotated[
    bool,
    Meta(
        description='Return probabilities, too (of `AutoMargin`, or with `calibration="online"`).'
    ),
]
WithSet = Annotated[
    bool, Meta(description="Return the prediction set, too (needs `coverage`, such as 0.9).")
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


class PredictRow(Body):
    """One row to predict; with an id, its label may follow."""

    row: Row
    scores: WithScores = False
    proba: WithProba = False
    set: WithSet = False
    id: Id | bool | None = None


class PredictRows(Body):
    """Rows to predict; with ids, their labels may follow."""

    rows: Rows
    scores: WithScores = False
    proba: WithProba = False
    set: WithSet = False
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
    """A learner that learns from the same events without answering requests."""

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
        float, Meta(description="Upper bound on the probability of any alarm on exchangeable rows.")
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

    progressive_accuracy: Annotated[Number, Meta(description="Over all rows.")]
    recent_progressive_accuracy: Annotated[Number, Meta(description="Over the last 1000 rows.")]
    loss: Number
    recent_loss: Number


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
    """The state of a model; values that are not known yet are null."""

    name: str
    status: Status
    algorithm: str
    parameters: dict[str, Any]
    classes: list[Label]
    n_features: int | None
    columns: Annotated[list[str], Meta(max_length=200)]
    sequence: Sequence
    events: Count
    rows: Count
    updates: Count
    mistakes: Annotated[int, Meta(ge=0, description="Wrong predictions just before learning.")]
    answers: Annotated[
        int, Meta(ge=0, description="Predictions served with an id whose label has come.")
    ]
    wrong_answers: Annotated[int, Meta(ge=0, description="Those of them that were wrong.")]
    answer_accuracy: Annotated[
        Number, Meta(description="Accuracy of these predictions as served, by any live learner.")
    ]
    recent_answer_accuracy: Annotated[Number, Meta(description="The same over the last 1000.")]
    largest_class_share: Number
    events_per_second: Number
    rows_per_second: Number
    latency_ms: Latency
    waiting: Annotated[int, Meta(ge=0, description="Predictions that wait for their labels.")]
    queue: Annotated[int, Meta(ge=0, description="Requests that wait to be written.")]
    log_bytes: Count
    snapshot_sequence: Count
    uptime_seconds: float
    certificate: Certificate | None
    drift: Drift
    drift_alarms: Annotated[int, Meta(ge=0, description="Number of alarms.")]
    coverage: Annotated[Coverage | None, Meta(description="For learners with prediction sets.")]
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
    """Decodes bodies of type ``one``, or of type ``many`` where its first field is given."""

    def __init__(self, one: type[B], many: type[B] | None = None) -> None:
        self._one = self._many = msgspec.json.Decoder(one)
        self._key = b""
        if many is not None:
            field = many.__struct_fields__[0]
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
            raise bad_request(_explained(str(error), where, body, likely.type)) from None
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


LEARN: Reader[LearnRow | LearnRows] = Reader(LearnRow, LearnRows)
LEARN_LINE = Reader(LearnRow)
PREDICT: Reader[PredictRow | PredictRows] = Reader(PredictRow, PredictRows)
LABEL: Reader[LabelRow | LabelRows] = Reader(LabelRow, LabelRows)
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
WORDS = {
    "object": "an object",
    "array": "an array",
    "str": "a string",
    "float": "a number",
    "int": "a number",
    "bool": "a boolean",
    "null": "null",
}
EXPECTED = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
BOUND = re.compile(r"Expected `(\w+)` (of length )?>= (\d+)(\.0)?")
FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)


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


def _explained(message: str, where: str, body: bytes, kind: Any) -> str:
    """What msgspec says of a body that does not fit, in the words of the API."""
    what, _, path = message.rpartition(" - at `$")
    if not what:
        what, path = message, ""
    path = path.rstrip("`").lstrip(".")
    subject = where
    if path:
        subject = _named(body, path) if "[...]" in path else path
        subject = subject if where == "the body" else f"{where}: {subject}"
    if found := EXPECTED.match(what):
        wanted, got = found.groups()
        kinds = [kind for kind in WORDS if kind in wanted.split(" | ")]
        words = ", ".join(dict.fromkeys(WORDS[kind] for kind in kinds))
        words = " or ".join(words.rsplit(", ", 1))
        return f"{subject} must be {words}, got {WORDS.get(got, got)}."
    if found := BOUND.match(what):
        what, is_length, least, _ = found.groups()
        if not is_length:
            return f"{subject} must be at least {least}."
        return f"{subject} must have at least {least} {'character' if what == 'str' else 'item'}."
    if found := FIELD.match(what):
        problem, name = found.groups()
        if problem == "missing required":
            return f"{subject} has no field {name!r}."
        known = "" if path else f"; known fields are {', '.join(kind.__struct_fields__)}"
        return f"{subject} has an unknown field {name!r:.80}{known}."
    if what.endswith("out of range"):
        return f"{subject} is a number out of range."
    return f"{subject}: {what}."
