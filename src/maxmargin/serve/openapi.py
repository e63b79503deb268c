"""What can be asked of the server, as an OpenAPI 3.1 document derived from the types of bodies."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from maxmargin import __version__
from maxmargin.serve import bodies
from maxmargin.serve.access import LEARNING, OPEN
from maxmargin.serve.bodies import JSON, NDJSON

Json = dict[str, Any]
ABOUT = """\
A model that learns and predicts at the same time. Every acknowledged event is on the disk: \
whatever happens to the server, it is learned, and learned once. A refused request changes \
nothing; the answer is an object with one sentence, `error`. If a request is lost, send it again \
with the same id; after 429, 503 and 507, wait for the seconds in `Retry-After` first.\
"""
LEARN_ERRORS = {
    400: "The body does not have the right form.",
    413: "The body is too large.",
    415: "The body is of another type.",
    422: "The model refuses the row or the label.",
    429: "Events come faster than the disk takes them.",
    503: "The server starts, stops, or cannot write.",
    507: "The disk is full.",
}
ERRORS = {
    401: "The token is missing or wrong.",
    403: "The token is not enough, or the request comes from another site.",
    404: "No prediction waits under this id.",
    409: "The prediction has another label already.",
    **LEARN_ERRORS,
}
# Summary, body, answer, and errors besides those of all routes that need a token.
OPERATIONS: dict[str, tuple[str, Any, Any, tuple[int, ...]]] = {
    "post /learn": ("Learn", bodies.LearnBody, bodies.LearnedAnswer, tuple(LEARN_ERRORS)),
    "post /predict": ("Predict", bodies.PredictBody, bodies.Prediction, tuple(LEARN_ERRORS)),
    "post /label": (
        "Send the label of a prediction",
        bodies.LabelBody,
        bodies.LearnedAnswer,
        (404, 409, *LEARN_ERRORS),
    ),
    "get /model": ("The state of the model", None, JSON, ()),
    "get /model/file": ("The model as a file", None, "application/octet-stream", (503,)),
    "get /metrics": ("Counts and times, for Prometheus", None, "text/plain", ()),
    "get /health": ("Are events accepted?", None, JSON, (503,)),
    "get /openapi.json": ("This document", None, JSON, ()),
    "get /": ("The live page", None, "text/html", ()),
}


@functools.cache
def document() -> Json:
    """All routes, with their bodies, answers and errors."""
    types: list[Any] = [bodies.Error]
    for _, body, answer, _ in OPERATIONS.values():
        types += [each for each in (body, answer) if isinstance(each, type)]
    template = "#/components/schemas/{name}"
    _, schemas = msgspec.json.schema_components(dict.fromkeys(types), ref_template=template)
    paths: Json = {}
    for operation in OPERATIONS:
        method, path = operation.split()
        paths.setdefault(path, {})[method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "maxmargin serve", "version": __version__, "description": ABOUT},
        "servers": [{"url": "."}],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
            "responses": {
                str(status): {"description": why, "content": _content(bodies.Error)}
                for status, why in ERRORS.items()
            },
        },
    }


def _operation(operation: str) -> Json:
    summary, body, answer, errors = OPERATIONS[operation]
    path = operation.split()[1]
    if path not in OPEN:
        errors = (401, 403, *errors)
    found: Json = {
        "summary": summary,
        "operationId": operation.translate(str.maketrans(" /.", "___")),
    }
    if path in OPEN:
        found["security"] = [{}]
    elif path in LEARNING:
        found["description"] = "Needs the token to learn, where there are tokens."
    if body is not None:
        lines = {NDJSON: {"schema": {"type": "string", "description": "One object a line."}}}
        found["requestBody"] = {"required": True, "content": _content(body) | lines}
    done = {"description": summary, "content": _content(answer)}
    refused = {str(each): {"$ref": f"#/components/responses/{each}"} for each in sorted(errors)}
    found["responses"] = {"200": done, **refused}
    return found


def _content(kind: Any) -> Json:
    if isinstance(kind, str):
        return {kind: {"schema": {"type": "object" if kind == JSON else "string"}}}
    return {JSON: {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}
