"""What can be asked of the server, as a document of OpenAPI 3.1."""

from __future__ import annotations

import json
import re
from typing import Any

from maxmargin import __version__
from maxmargin.serve.schemas import ROW, STATE, Json, parameters, schemas

JSON, LINES = "application/json", "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
BINARY = {"type": "string", "format": "binary"}

ABOUT = """\
A model that learns while it is asked. Every event that was acknowledged is in the server's log, \
on the disk: whatever happens to the server, it is learnt, and learnt once.

Every route of a model exists at the root, for the default model, and below `/models/{name}` for \
each. A refusal is an object with one sentence, `error`, which names the field, the row or the \
line; nothing of a request that is refused is learnt. If a request is lost, send it again with the \
same id. After 429 and 503 do so when the seconds of `Retry-After` have passed.\
"""


ROWS = [ROW, {"clicks": 1, "from": "ad"}]
SCORES = {"buys": 0.42, "leaves": -0.42}


def document() -> Json:
    """All routes, with their bodies, answers, refusals and examples."""
    paths: Json = {}
    for path, methods in _of_a_model().items():
        paths[path] = methods
        paths[f"/models/{{name}}{path}"] = _by_name(methods)
    paths |= _of_the_server()
    for path, methods in paths.items():
        for method, operation in methods.items():
            words = re.findall(r"\w+", path)
            operation["operationId"] = "_".join([method, *words])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "maxmargin serve",
            "version": __version__,
            "description": ABOUT,
            "license": {"name": "BSD-3-Clause", "identifier": "BSD-3-Clause"},
        },
        "servers": [{"url": ".", "description": "where this document is"}],
        "tags": [
            {"name": name, "description": about}
            for name, about in {
                "events": "Learn and predict.",
                "model": "What the model is, and how well it does.",
                "learners": "Others that learn along, and may take over.",
                "server": "What belongs to no model.",
            }.items()
        ],
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
            "parameters": parameters(),
            "schemas": schemas(),
            "responses": {str(status): _refusal(*each) for status, each in REFUSALS.items()},
        },
    }


# What the server refuses: why, and an example of the sentence.
REFUSALS = {
    400: ("The request is bad_request.", 'Line 3: "label" is missing.'),
    401: ("The token is missing or wrong.", "This server asks for its token."),
    403: ("The request comes from a page or a host name elsewhere.", "Origin is another one."),
    404: ("There is no such thing, or no more.", 'No prediction waits under the id "p-17".'),
    405: ("The route has other methods.", "Only POST is possible here."),
    408: ("The body came too slowly.", "The body did not arrive within 30 seconds."),
    409: ("It contradicts what is known.", 'The id "p-17" had the label "buys".'),
    413: ("The request is too large.", "The body has more than 33,554,432 bytes."),
    415: ("The body is of another type.", "Content-Type must be application/json."),
    422: ("The learner refuses the row, the label or the parameter.", 'Column "clicks" is NaN.'),
    429: ("Events come faster than the disk takes them.", "The queue is full."),
    503: (
        "The disk is full, the memory is not enough, or the server starts or stops.",
        "The disk is full.",
    ),
}
ALWAYS = (401, 403, 405)
OF_BODIES = (400, 408, 413, 415, 422)


def _refusal(why: str, sentence: str) -> Json:
    answer: Json = {
        "description": why,
        "content": {
            JSON: {"schema": _ref("schemas", "Error"), "example": {"error": sentence}},
        },
    }
    if sentence in ("The queue is full.", "The disk is full."):
        seconds = {"type": "integer", "minimum": 0}
        answer["headers"] = {"Retry-After": {"schema": seconds, "description": "Seconds to wait."}}
    return answer


def _ref(kind: str, name: str) -> Json:
    return {"$ref": f"#/components/{kind}/{name}"}


def _operation(
    tag: str,
    summary: str,
    answers: Json,
    refusals: tuple[int, ...] = (),
    *,
    about: str = "",
    body: Json | None = None,
    parameters: tuple[str, ...] = (),
    status: int = 200,
    description: str = "Done.",
    open_to_all: bool = False,
) -> Json:
    refused = {*refusals, *(OF_BODIES if body else ()), *(() if open_to_all else ALWAYS)}
    found: Json = {"tags": [tag], "summary": summary}
    if about:
        found["description"] = about
    if open_to_all:
        found["security"] = [{}]
    if parameters:
        found["parameters"] = [_ref("parameters", name) for name in parameters]
    if body:
        found["requestBody"] = {"required": True, "content": body}
    found["responses"] = {str(status): {"description": description, "content": answers}} | {
        str(each): _ref("responses", str(each)) for each in sorted(refused)
    }
    return found


def _json(schema: str, **examples: Any) -> Json:
    shown = {name.replace("_", " "): {"value": value} for name, value in examples.items()}
    return {JSON: {"schema": _ref("schemas", schema), "examples": shown}}


def _text(kind: str, example: str) -> Json:
    return {kind: {"schema": {"type": "string"}, "example": example}}


def _lines(*each: Json) -> Json:
    return _text(LINES, "".join(json.dumps(line) + "\n" for line in each))


# ------------------------------------------------------------------------------------------ routes
def _of_a_model() -> Json:
    learnt = {"learnt": 1, "duplicate": False, "sequence": 4711}
    changed = {"sequence": 4712, "duplicate": False}
    return {
        "/learn": {
            "post": _operation(
                "events",
                "Learn from rows with their labels",
                _json(
                    "Learnt",
                    one=learnt,
                    lines={"learnt": 2, "duplicates": 0, "sequence": 4713},
                ),
                (422, 429, 503),
                about=(
                    "One row, or many that are learnt together or not at all; of lines each may "
                    "have an id. The answer comes when all is in the log, on the disk, and learnt. "
                    "What has an id that is known is not learnt again, whatever it says."
                ),
                description="It is on the disk, and learnt.",
                parameters=("Idempotency-Key", "label", "weight"),
                body=_json(
                    "Learn",
                    one_row={"row": ROW, "label": "buys", "id": "order-17"},
                    many_rows={"rows": ROWS, "labels": ["buys", "leaves"], "weights": [1, 2]},
                    a_list={"row": [0.5, 1.25, -3], "label": 1},
                )
                | _lines(*({"row": row, "label": "buys"} for row in ROWS))
                | {ARROW: {"schema": BINARY}},
            )
        },
        "/predict": {
            "post": _operation(
                "events",
                "Predict labels",
                _json(
                    "Predicted",
                    one_row={"prediction": "buys"},
                    many_rows={"predictions": ["buys", "leaves"]},
                    with_scores={"prediction": "buys", "scores": SCORES, "id": "visit-8"},
                )
                | _lines({"prediction": "buys"}, {"prediction": "leaves"})
                | {ARROW: {"schema": BINARY}},
                (422, 429, 503),
                about=(
                    "Nothing is learnt. With an id the server keeps the row and its answer until "
                    "`/label` brings the label; `true` lets the server choose the id. Of several "
                    "answers under one id the first is scored. Lines are answered by lines, Arrow "
                    "by Arrow."
                ),
                description="As the model was when the request came.",
                parameters=("ids",),
                body=_json(
                    "Predict",
                    one_row={"row": ROW},
                    many_rows={"rows": ROWS},
                    with_scores={"row": ROW, "scores": True, "id": "visit-8"},
                )
                | _lines(*({"row": row} for row in ROWS))
                | {ARROW: {"schema": BINARY}},
            )
        },
        "/label": {
            "post": _operation(
                "events",
                "Bring the label of a prediction",
                _json("Learnt", one=learnt),
                (404, 409, 422, 429, 503),
                about=(
                    "The row that was predicted is learnt with this label, once, and the answer "
                    "that was given counts as right or wrong. The same label again is a duplicate; "
                    "another one is refused."
                ),
                description="It is on the disk, and learnt.",
                body=_json(
                    "Label",
                    one={"id": "visit-8", "label": "leaves"},
                    several={"labels": [{"id": "visit-8", "label": "leaves"}]},
                )
                | _lines({"id": "visit-8", "label": "leaves"}),
            )
        },
        "/model": {
            "get": _operation(
                "model",
                "What is known of the model",
                {JSON: {"schema": _ref("schemas", "State"), "example": STATE}},
                about=(
                    "`answer_accuracy` is that of the predictions as they were served, for rows "
                    "that were predicted with an id and whose label came by `/label`. "
                    "`progressive_accuracy` and the losses are those of predictions made just "
                    "before each row is learnt, for all rows: where labels come late, the model "
                    "has learnt more by then than when it answered."
                ),
                description="The state of the model.",
            )
        },
        "/model/file": {
            "get": _operation(
                "model",
                "The model as a file",
                {"application/octet-stream": {"schema": BINARY}},
                (503,),
                about="`maxmargin.load` reads it, and `maxmargin predict --model`.",
                description="A file of arrays and JSON.",
            )
        },
        "/events": {
            "get": _operation(
                "model",
                "The state, about once a second",
                _text("text/event-stream", 'event: state\ndata: {"name": "default", …}\n\n'),
                about="Server-sent events called `state`, whose data are what `/model` answers.",
                description="They go on until either side ends.",
            )
        },
        "/shadows": {
            "post": _operation(
                "learners",
                "Let another learner learn along",
                _json("Changed", done=changed),
                (409, 422, 429, 503),
                about="It begins with nothing, learns from all that follows, and is compared.",
                status=201,
                description="It learns along.",
                parameters=("Idempotency-Key",),
                body=_json(
                    "Shadow",
                    NORMA={"name": "moving", "algorithm": "NORMA", "parameters": {"rate": 0.1}},
                ),
            )
        },
        "/shadows/{shadow}": {
            "delete": _operation(
                "learners",
                "End a shadow",
                _json("Changed", done=changed),
                (404, 429, 503),
                description="It has ended.",
                parameters=("shadow", "Idempotency-Key"),
            )
        },
        "/promote": {
            "post": _operation(
                "learners",
                "Let a shadow answer",
                _json("Changed", done=changed),
                (404, 422, 429, 503),
                about="It changes places with the live learner, which becomes a shadow.",
                description="The shadow is live.",
                parameters=("Idempotency-Key",),
                body=_json("Promote", one={"shadow": "moving"}),
            )
        },
    }


def _by_name(methods: Json) -> Json:
    """The same for a model that is named."""
    found = {}
    for method, operation in methods.items():
        parameters = [_ref("parameters", "name"), *operation.get("parameters", [])]
        responses = operation["responses"] | {"404": _ref("responses", "404")}
        found[method] = operation | {"parameters": parameters, "responses": responses}
    return found


def _of_the_server() -> Json:
    health = _operation(
        "server",
        "Does it take events?",
        _json("Health", yes={"status": "ok"}),
        (503,),
        description="It does.",
        open_to_all=True,
    )
    shown = {name: STATE[name] for name in ("name", "status", "algorithm", "rows")}
    models = _operation(
        "server",
        "All models",
        _json("Models", one={"models": [shown]}),
        description="The default one, that of the root, is the first.",
    )
    example = "# TYPE maxmargin_rows_total counter\nmaxmargin_rows_total 4711\n"
    metrics = _operation(
        "server",
        "Counts and times for Prometheus",
        _text("text/plain; version=0.0.4", example),
        description="All models, by label.",
    )
    found = {"/health": health, "/models": models, "/metrics": metrics}
    for path, summary, kind in (
        ("/", "The page that shows what models do", "text/html"),
        ("/docs", "The page with this document", "text/html"),
        ("/openapi.json", "This document", JSON),
    ):
        answers = {kind: {"schema": {"type": "object" if kind == JSON else "string"}}}
        found[path] = _operation(
            "server",
            summary,
            answers,
            description="It holds nothing of any model.",
            open_to_all=True,
        )
    return {path: {"get": operation} for path, operation in found.items()}
