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
A server whose models predict and learn at the same time. Every acknowledged event is in the \
server's log on disk, and is learned exactly once, even after a crash.

Every route of a model exists at the root, for the default model, and below `/models/{name}`, for \
each model. A refused request changes nothing; the answer is an object with one sentence, `error`, \
which names the field, the row or the line. If a request is lost, send it again with the same id; \
after 429 and 503, wait for the number of seconds in `Retry-After` first.\
"""

TAGS = {
    "events": "Learn and predict.",
    "model": "State and accuracy of a model.",
    "learners": "Shadows: learners that learn from the same events and may replace the live one.",
    "server": "Routes of the server as a whole.",
}

# Why requests are refused, and an example of the error, by status.
ERRORS = {
    400: ("The request is malformed.", "the body has no field 'label'."),
    401: (
        "The token is missing or wrong.",
        "the header Authorization must be Bearer, with the token.",
    ),
    403: (
        "The request comes from another site, or names another host.",
        "pages of other sites may not use this server.",
    ),
    404: (
        "There is no such model, shadow or prediction.",
        "no prediction with the id 'visit-9' waits for its label.",
    ),
    405: ("The route does not support this method.", "/learn takes POST."),
    408: ("The body arrived too slowly.", "the body did not come within 30 seconds."),
    409: (
        "The request contradicts an earlier one.",
        "id 'visit-8' has the label 'leaves' already.",
    ),
    413: (
        "The request is too large.",
        "the body has 33,554,433 bytes; at most 33,554,432 are taken.",
    ),
    415: (
        "The content type of the body is not supported.",
        f"the content type must be one of {', '.join(bodies.KINDS)}.",
    ),
    422: (
        "The learner refuses the row, the label or the parameter.",
        "the label 'stays' is not among the classes ['buys', 'leaves'].",
    ),
    429: (
        "Events arrive faster than the disk can write them.",
        "events come faster than they can be written.",
    ),
    503: (
        "The disk is full, memory is insufficient, or the server is starting or stopping.",
        "the log cannot be written: No space left on device.",
    ),
}
WITH_RETRY_AFTER = (429, 503)
ALWAYS = (401, 403, 405)
OF_BODIES = (400, 408, 413, 415, 422)


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
# Fields of a state that are other ones whenever it is asked for.
VOLATILE = ("events_per_second", "rows_per_second", "latency_ms", "log_bytes", "uptime_seconds")


# ------------------------------------------------------------------------------------------ routes
class Operation(NamedTuple):
    """One method of one route."""

    tag: str
    summary: str
    done: str
    about: str = ""
    # Of the body and of the answer in JSON; one of them.
    takes: tuple[Any, ...] = ()
    # Content types beside JSON.
    takes_kinds: tuple[str, ...] = ()
    gives: tuple[Any, ...] = ()
    gives_kinds: tuple[str, ...] = ()
    errors: tuple[int, ...] = ()  # beside those of all routes, and of all that take a body
    parameters: tuple[str, ...] = ()
    status: int = 200
    is_open: bool = False

    def statuses(self) -> list[int]:
        of_bodies = OF_BODIES if self.takes else ()
        return sorted({*self.errors, *of_bodies, *(() if self.is_open else ALWAYS)})


LEARNED = (bodies.Learned, bodies.LearnedEach)
OF_MODELS = {
    "POST /learn": Operation(
        "events",
        "Learn from labelled rows",
        "The event is on disk, and learned.",
        "One row, or several that are learned together or not at all; each line may have its own "
        "id. The answer is sent when the event is in the log on disk, and learned. An event whose "
        "id is known is not learned again, whatever its content.",
        takes=(bodies.LearnRow, bodies.LearnRows),
        takes_kinds=(NDJSON, ARROW),
        gives=LEARNED,
        errors=(429, 503),
        parameters=("Idempotency-Key", "label", "weight"),
    ),
    "POST /predict": Operation(
        "events",
        "Predict labels",
        "The predictions of the model at the time of the request.",
        "Nothing is learned. With an id, the server stores the row and its answer until `/label` "
        "sends the label; `true` lets the server choose the id. Of several answers with one id, "
        "the first is scored. Lines are answered with lines, Arrow with Arrow.",
        takes=(bodies.PredictRow, bodies.PredictRows),
        takes_kinds=(NDJSON, ARROW),
        gives=(bodies.Prediction, bodies.Predictions),
        gives_kinds=(NDJSON, ARROW),
        errors=(429, 503),
        parameters=("ids",),
    ),
    "POST /label": Operation(
        "events",
        "Send the label of a prediction",
        "The event is on disk, and learned.",
        "The predicted row is learned with this label, once, and the answer counts as correct or "
        "wrong. The same label again is a duplicate; a different one is refused.",
        takes=(bodies.LabelRow, bodies.LabelRows),
        takes_kinds=(NDJSON,),
        gives=LEARNED,
        errors=(404, 409, 429, 503),
    ),
    "GET /model": Operation(
        "model",
        "The state of the model",
        "The state of the model.",
        "`answer_accuracy` concerns the predictions as they were served, for rows that were "
        "predicted with an id and labelled by `/label`. `progressive_accuracy` and the losses "
        "concern predictions made just before each row is learned, for all rows: if labels arrive "
        "late, the model has learned more by then than when it answered.",
        gives=(bodies.State,),
    ),
    "GET /model/file": Operation(
        "model",
        "The model as a file",
        "A file of arrays and JSON.",
        "For `maxmargin.load` and `maxmargin predict`.",
        gives_kinds=("application/octet-stream",),
        errors=(503,),
    ),
    "GET /events": Operation(
        "model",
        "The state, about once a second",
        "A stream that lasts until either side closes it.",
        "Server-sent events named `state`, with the answer of `/model` as their data.",
        gives_kinds=("text/event-stream",),
        errors=(429,),
    ),
    "POST /shadows": Operation(
        "learners",
        "Add a shadow",
        "The shadow was added.",
        "A shadow starts untrained, learns from all further events, and is compared with the live "
        "learner.",
        takes=(bodies.AddShadow,),
        gives=(bodies.Changed,),
        errors=(409, 429, 503),
        parameters=("Idempotency-Key",),
        status=201,
    ),
    "DELETE /shadows/{shadow}": Operation(
        "learners",
        "Remove a shadow",
        "The shadow was removed.",
        gives=(bodies.Changed,),
        errors=(404, 429, 503),
        parameters=("shadow", "Idempotency-Key"),
    ),
    "POST /promote": Operation(
        "learners",
        "Promote a shadow",
        "The shadow is live.",
        "The shadow and the live learner change places.",
        takes=(bodies.Promote,),
        gives=(bodies.Changed,),
        errors=(404, 429, 503),
        parameters=("Idempotency-Key",),
    ),
}
NOTHING_OF_MODELS = "A document without data of any model."
OF_THE_SERVER = {
    "GET /health": Operation(
        "server",
        "Whether the server accepts events",
        "The server accepts events.",
        gives=(bodies.Health,),
        errors=(503,),
        is_open=True,
    ),
    "GET /models": Operation(
        "server",
        "All models",
        "The models of the server; the default model is the first.",
        gives=(bodies.Models,),
    ),
    "GET /metrics": Operation(
        "server",
        "Metrics for Prometheus",
        "Counts and latencies of all models, by label.",
        gives_kinds=("text/plain; version=0.0.4",),
    ),
    "GET /": Operation(
        "server",
        "The live page",
        NOTHING_OF_MODELS,
        gives_kinds=("text/html",),
        is_open=True,
    ),
    "GET /docs": Operation(
        "server",
        "The page with this document",
        NOTHING_OF_MODELS,
        gives_kinds=("text/html",),
        is_open=True,
    ),
    "GET /openapi.json": Operation(
        "server", "This document", NOTHING_OF_MODELS, gives=(dict,), is_open=True
    ),
}

# Where parameters stand, and their descriptions and schemas.
TEXT = {"type": "string"}
PARAMETERS: dict[str, tuple[str, str, Json]] = {
    "Idempotency-Key": ("header", "The id of the event; not for lines.", TEXT),
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
    operations = [*OF_MODELS.values(), *OF_THE_SERVER.values()]
    types = {kind for each in operations for kind in (*each.takes, *each.gives)} | {bodies.Error}
    ordered = sorted(types - {dict}, key=lambda kind: str(kind.__name__))
    _, schemas = msgspec.json.schema_components(
        ordered, ref_template=_ref("schemas", "{name}")["$ref"]
    )
    paths: Json = {}
    for route, operation in OF_MODELS.items():
        _add(paths, route, operation, examples_of(route))
        named = operation._replace(
            parameters=("name", *operation.parameters), errors=(404, *operation.errors)
        )
        _add(paths, route.replace("/", "/models/{name}/", 1), named, examples_of(route))
    for route, operation in OF_THE_SERVER.items():
        _add(paths, route, operation, examples_of(route))
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
    why, reason = ERRORS[status]
    content = {"schema": _ref("schemas", "Error"), "example": {"error": reason}}
    answer: Json = {"description": why, "content": {JSON: content}}
    if status in WITH_RETRY_AFTER:
        seconds = {"type": "integer", "minimum": 0}
        answer["headers"] = {"Retry-After": {"schema": seconds, "description": "Seconds to wait."}}
    return answer


def operation_id(route: str) -> str:
    method, path = route.split()
    return "_".join([method.lower(), *re.findall(r"\w+", path)])


def examples_of(route: str) -> list[Example]:
    return [each for each in EXAMPLES if each.route == route]


def _add(paths: Json, route: str, operation: Operation, examples: list[Example]) -> None:
    method, path = route.split()
    found: Json = {"tags": [operation.tag], "summary": operation.summary}
    if operation.about:
        found["description"] = operation.about
    if operation.is_open:
        found["security"] = [{}]
    if operation.parameters:
        found["parameters"] = [_ref("parameters", name) for name in operation.parameters]
    if operation.takes:
        content = _content(operation.takes, operation.takes_kinds)
        for each in examples:
            _add_example(content, each.kind, each.title, each.body)
        found["requestBody"] = {"required": True, "content": content}
    content = _content(operation.gives, operation.gives_kinds)
    for each in examples:
        _add_example(content, each.answer_kind, each.title, each.answer)
    done = {"description": operation.done, "content": content}
    found["responses"] = {str(operation.status): done} | {
        str(status): _ref("responses", str(status)) for status in operation.statuses()
    }
    found["operationId"] = operation_id(route)
    paths.setdefault(path, {})[method.lower()] = found


def _content(types: tuple[Any, ...], kinds: tuple[str, ...]) -> Json:
    """Schemas by content type."""
    found: Json = {}
    if types:
        schemas = [
            {"type": "object"} if each is dict else _ref("schemas", each.__name__) for each in types
        ]
        found[JSON] = {"schema": schemas[0] if len(schemas) == 1 else {"oneOf": schemas}}
    for kind in kinds:
        is_text = kind == NDJSON or kind.startswith("text/")
        found[kind] = {"schema": TEXT if is_text else BINARY}
    return found


def _add_example(content: Json, kind: str, title: str, value: Any) -> None:
    shown = value if kind == JSON else lines(value)
    content[kind].setdefault("examples", {})[title] = {"value": shown}


def lines(objects: list[Any]) -> str:
    return "".join(json.dumps(each) + "\n" for each in objects)
