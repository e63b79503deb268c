"""What can be asked of the server, as an OpenAPI 3.1 document derived from the types of bodies."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from maxmargin import __version__
from maxmargin.serve import bodies
from maxmargin.serve.bodies import ARROW, JSON, NDJSON

Json = dict[str, Any]
BINARY = {"type": "string", "format": "binary"}

ABOUT = """\
A model that learns and predicts at the same time. Every acknowledged event is in the server's \
log, on the disk: whatever happens to the server, it is learned, and learned once.

Every route of a model exists at the root, for the default model, and below `/models/{name}`, for \
each model. A refused request changes nothing; the answer is an object with one sentence, `error`, \
which names the field, the row or the line. If a request is lost, send it again with the same id; \
after 429 and 503, wait for the number of seconds in `Retry-After` first.\
"""

TAGS = {
    "events": "Learn and predict.",
    "model": "The state of the model.",
    "learners": "Shadows: learners that see the same events, and can be promoted.",
    "server": "All models of the server.",
    "public": "What needs no token, because it has nothing of any model.",
}

# Why requests are refused.
ERRORS = {
    400: "The request does not have the right form.",
    401: "The token is missing or wrong.",
    403: "The request comes from another site, or by another host name.",
    404: "There is no such model, shadow or prediction.",
    405: "The route has other methods.",
    408: "The body came too slowly.",
    409: "The request contradicts an earlier one.",
    413: "The request is too large.",
    415: "The body is of another type.",
    422: "The learner refuses the row, the label or the parameter.",
    429: "Events come faster than the disk takes them.",
    503: "The disk is full, the memory is not enough, or the server starts or stops.",
}
WITH_RETRY_AFTER = (429, 503)
ALWAYS = (401, 403, 405)
OF_BODIES = (400, 408, 413, 415, 422)
WHEN_WRITING = (429, 503)


# ---------------------------------------------------------------------------------------- examples
class Example(msgspec.Struct, frozen=True):
    """A request and its answer, in JSON or lines of it."""

    route: str
    answer: Any
    body: Any = None
    title: str = "one"
    kind: str = JSON

    @property
    def answer_kind(self) -> str:
        return NDJSON if isinstance(self.answer, list) else JSON


# What a new server with the classes "buys" and "leaves" answers to these requests, one after the
# other; numbers are rounded to six places, and not all parameters of the learner are shown.
EXAMPLES = msgspec.json.decode(
    Path(__file__).with_name("examples.json").read_bytes(), type=list[Example]
)
# The value of {shadow} in examples.
SHADOW = "moving"
# Fields of a state that differ whenever it is asked for.
VOLATILE = ("events_per_second", "rows_per_second", "latency_ms", "log_bytes", "uptime_seconds")


# ------------------------------------------------------------------------------------------ routes
class Operation(NamedTuple):
    """One method of one route."""

    route: str  # the method and the path
    tag: str
    summary: str
    about: str = ""
    # Types of bodies in JSON, of which one is given, and other content types.
    takes: tuple[Any, ...] = ()
    gives: tuple[Any, ...] = ()
    errors: tuple[int, ...] = ()  # beside those of all routes, and of all that take a body
    parameters: tuple[str, ...] = ()
    status: int = 200

    @property
    def is_open(self) -> bool:
        """Does it need no token? It has nothing of a model."""
        return self.tag == "public"

    @property
    def is_of_a_model(self) -> bool:
        return self.tag in ("events", "model", "learners")

    @property
    def id(self) -> str:
        method, path = self.route.split()
        return "_".join([method.lower(), *re.findall(r"\w+", path)])

    def statuses(self) -> list[int]:
        of_bodies = OF_BODIES if self.takes else ()
        return sorted({*self.errors, *of_bodies, *(() if self.is_open else ALWAYS)})

    def examples(self) -> list[Example]:
        return [each for each in EXAMPLES if each.route == self.route]


LEARNED = (bodies.Learned, bodies.LearnedEach)
KEY = "Idempotency-Key"
OPERATIONS = [
    Operation(
        "POST /learn",
        "events",
        "Learn from rows with their labels",
        "One row, or many that are learned together or not at all; each line may have an id of its "
        "own. The answer comes when all is in the log, on the disk, and learned. An event with a "
        "known id is not learned again, whatever it says.",
        takes=(bodies.LearnRow, bodies.LearnRows, NDJSON, ARROW),
        gives=LEARNED,
        errors=WHEN_WRITING,
        parameters=(KEY, "label", "weight"),
    ),
    Operation(
        "POST /predict",
        "events",
        "Predict labels",
        "Nothing is learned. With an id the server keeps the row and its answer until `/label` "
        "brings the label; `true` lets the server choose the id. Of several answers under one id "
        "the first is scored. Lines are answered by lines, Arrow by Arrow.",
        takes=(bodies.PredictRow, bodies.PredictRows, NDJSON, ARROW),
        gives=(bodies.Prediction, bodies.Predictions, NDJSON, ARROW),
        errors=WHEN_WRITING,
        parameters=("ids",),
    ),
    Operation(
        "POST /label",
        "events",
        "Send the label of a prediction",
        "The row that was predicted is learned with this label, once, and the answer that was "
        "given counts as right or wrong. The same label again is a duplicate; another one is "
        "refused.",
        takes=(bodies.LabelRow, bodies.LabelRows, NDJSON),
        gives=LEARNED,
        errors=(404, 409, *WHEN_WRITING),
    ),
    Operation(
        "GET /model",
        "model",
        "The state of the model",
        "`answer_accuracy` is that of the predictions as they were served, for rows that were "
        "predicted with an id and whose label came by `/label`. `progressive_accuracy` and the "
        "losses are those of predictions made just before each row is learned, for all rows: where "
        "labels come late, the model has learned more by then than when it answered.",
        gives=(bodies.State,),
    ),
    Operation(
        "GET /model/file",
        "model",
        "The model as a file",
        "`maxmargin.load` reads it, and `maxmargin predict --model`.",
        gives=("application/octet-stream",),
        errors=(503,),
    ),
    Operation(
        "GET /events",
        "model",
        "The state, about once a second",
        "Server-sent events called `state`, whose data are what `/model` answers, until either "
        "side ends them.",
        gives=("text/event-stream",),
        errors=(429,),
    ),
    Operation(
        "POST /shadows",
        "learners",
        "Add a shadow",
        "It starts without having learned anything, and learns from all events that follow.",
        takes=(bodies.AddShadow,),
        gives=(bodies.Changed,),
        errors=(409, *WHEN_WRITING),
        parameters=(KEY,),
        status=201,
    ),
    Operation(
        "DELETE /shadows/{shadow}",
        "learners",
        "Remove a shadow",
        gives=(bodies.Changed,),
        errors=(404, *WHEN_WRITING),
        parameters=("shadow", KEY),
    ),
    Operation(
        "POST /promote",
        "learners",
        "Promote a shadow",
        "It changes places with the live learner, which becomes a shadow.",
        takes=(bodies.Promote,),
        gives=(bodies.Changed,),
        errors=(404, *WHEN_WRITING),
        parameters=(KEY,),
    ),
    Operation("GET /models", "server", "All models, the default one first", gives=(bodies.Models,)),
    Operation(
        "GET /metrics",
        "server",
        "Counts and times of all models, for Prometheus",
        gives=("text/plain; version=0.0.4",),
    ),
    Operation(
        "GET /health", "public", "Are events accepted?", gives=(bodies.Health,), errors=(503,)
    ),
    Operation("GET /", "public", "The live page", gives=("text/html",)),
    Operation("GET /docs", "public", "This document as a page", gives=("text/html",)),
    Operation("GET /openapi.json", "public", "This document", gives=(dict,)),
]
# Where parameters stand, and their descriptions and schemas.
TEXT = {"type": "string"}
PARAMETERS: dict[str, tuple[str, str, Json]] = {
    KEY: ("header", "Another way to give the event's id; not for lines.", TEXT),
    "label": ("query", "For Arrow: the column with the labels.", {**TEXT, "default": "label"}),
    "weight": ("query", "For Arrow: the column with the weights.", TEXT),
    "ids": (
        "query",
        "For Arrow: answer with a column of ids, for labels that are sent later.",
        {"const": "true"},
    ),
    "name": ("path", "Name of the model.", TEXT),
    "shadow": ("path", "Name of the shadow.", TEXT),
}


# ---------------------------------------------------------------------------------------- document
@functools.cache
def document() -> Json:
    """All routes, with their bodies, answers, errors and examples."""
    given = {kind for each in OPERATIONS for kind in (*each.takes, *each.gives)} | {bodies.Error}
    types = [kind for kind in given if isinstance(kind, type) and kind is not dict]
    _, schemas = msgspec.json.schema_components(
        sorted(types, key=lambda kind: kind.__name__),
        ref_template=_ref("schemas", "{name}")["$ref"],
    )
    paths: Json = {}
    for each in OPERATIONS:
        _add(paths, each, each)
        if each.is_of_a_model:
            named = each._replace(
                route=each.route.replace("/", "/models/{name}/", 1),
                parameters=("name", *each.parameters),
                errors=(404, *each.errors),
            )
            _add(paths, named, each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "maxmargin serve",
            "version": __version__,
            "description": ABOUT,
            "license": {"name": "BSD-3-Clause", "identifier": "BSD-3-Clause"},
        },
        "servers": [{"url": ".", "description": "where this document is"}],
        "tags": [{"name": name, "description": about} for name, about in TAGS.items()],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Needed where the server was started with a token.",
                }
            },
            "parameters": {
                name: {"name": name, "in": place, "description": about, "schema": schema}
                | ({"required": True} if place == "path" else {})
                for name, (place, about, schema) in PARAMETERS.items()
            },
            "schemas": schemas,
            "responses": {str(status): _error(status) for status in ERRORS},
        },
    }


def _ref(kind: str, name: str) -> Json:
    return {"$ref": f"#/components/{kind}/{name}"}


def _error(status: int) -> Json:
    content = {JSON: {"schema": _ref("schemas", "Error")}}
    answer: Json = {"description": ERRORS[status], "content": content}
    if status in WITH_RETRY_AFTER:
        seconds = {"type": "integer", "minimum": 0}
        answer["headers"] = {"Retry-After": {"schema": seconds, "description": "Seconds to wait."}}
    return answer


def _add(paths: Json, operation: Operation, shown: Operation) -> None:
    """Add an operation, with the examples of ``shown``."""
    found: Json = {"operationId": operation.id, "tags": [operation.tag]}
    found["summary"] = operation.summary
    if operation.about:
        found["description"] = operation.about
    if operation.is_open:
        found["security"] = [{}]
    if operation.parameters:
        found["parameters"] = [_ref("parameters", name) for name in operation.parameters]
    content, answers = _content(operation.takes), _content(operation.gives)
    for each in shown.examples():
        if content:
            _add_example(content, each.kind, each.title, each.body)
        _add_example(answers, each.answer_kind, each.title, each.answer)
    if content:
        found["requestBody"] = {"required": True, "content": content}
    done = {"description": operation.summary, "content": answers}
    found["responses"] = {str(operation.status): done} | {
        str(status): _ref("responses", str(status)) for status in operation.statuses()
    }
    method, path = operation.route.split()
    paths.setdefault(path, {})[method.lower()] = found


def _content(kinds: tuple[Any, ...]) -> Json:
    """Schemas by content type."""
    found: Json = {}
    types = [each for each in kinds if isinstance(each, type)]
    schemas = [
        {"type": "object"} if each is dict else _ref("schemas", each.__name__) for each in types
    ]
    if schemas:
        found[JSON] = {"schema": schemas[0] if len(schemas) == 1 else {"oneOf": schemas}}
    for kind in kinds[len(types) :]:
        is_text = kind == NDJSON or kind.startswith("text/")
        found[kind] = {"schema": TEXT if is_text else BINARY}
    return found


def _add_example(content: Json, kind: str, title: str, value: Any) -> None:
    shown = value if kind == JSON else lines(value)
    content[kind].setdefault("examples", {})[title] = {"value": shown}


def lines(objects: list[Any]) -> str:
    return "".join(json.dumps(each) + "\n" for each in objects)
