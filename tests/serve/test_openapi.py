"""The OpenAPI document: valid, and its examples are what a server answers."""

import json
import re

import msgspec
import pytest

pytest.importorskip("starlette")
pytest.importorskip("msgspec")
from maxmargin import PassiveAggressive
from maxmargin.serve import Limits, bodies, create_app
from maxmargin.serve.openapi import ERRORS, EXAMPLES, SHADOW, VOLATILE, document, lines
from tests.serve.test_application import call, get, post, ready


def test_it_is_valid():
    pytest.importorskip("openapi_spec_validator").validate(document())


def test_it_is_json():
    assert json.loads(json.dumps(document())) == document()


def examples():
    for path, methods in document()["paths"].items():
        for operation in methods.values():
            contents = [operation.get("requestBody", {}).get("content", {})]
            contents += [each.get("content", {}) for each in operation["responses"].values()]
            for content in contents:
                for each in content.values():
                    shown = each.get("examples", {}).values()
                    values = [one["value"] for one in shown]
                    for value in values:
                        yield path, each["schema"], value


def test_examples_are_what_their_schemas_say():
    jsonschema = pytest.importorskip("jsonschema")
    components = {"components": document()["components"]}
    found = list(examples())
    assert len(found) > 40
    for path, schema, value in found:
        errors = list(jsonschema.Draft202012Validator(schema | components).iter_errors(value))
        assert not errors, (path, value, errors)


def test_nothing_in_it_leads_nowhere():
    text = json.dumps(document())
    named = set(re.findall(r'"#/components/(\w+)/([\w-]+)"', text))
    known = {
        (kind, name)
        for kind, each in document()["components"].items()
        for name in each
        if kind != "securitySchemes"
    }
    assert named == known


def test_every_route_of_a_model_exists_by_name():
    paths = document()["paths"]
    for path in ("/learn", "/predict", "/label", "/model", "/shadows/{shadow}", "/promote"):
        by_name = paths[f"/models/{{name}}{path}"]
        assert by_name.keys() == paths[path].keys()
        for operation in by_name.values():
            assert {"$ref": "#/components/parameters/name"} in operation["parameters"]
    ids = [each["operationId"] for methods in paths.values() for each in methods.values()]
    assert len(set(ids)) == len(ids)


# ------------------------------------------------------------------------------- by a real server
def shop(folder, **options):
    models = {"default": PassiveAggressive(C=1.0)}
    return ready(create_app(folder, models, classes=["buys", "leaves"], **options))


def answer_to(app, example):
    """What a server answers to a documented request."""
    method, path = example.route.split()
    body = b"" if example.body is None else example.body
    if example.kind == bodies.NDJSON:
        body = lines(body).encode()
    found = call(app, method, path.replace("{shadow}", SHADOW), body, kind=example.kind)
    done = document()["paths"][path][method.lower()]["responses"]
    assert str(found.status) == next(iter(done)), found.body
    if isinstance(example.answer, list):
        return [json.loads(line) for line in found.body.splitlines()]
    return found.json()


def rounded(value):
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return round(value, 6) if isinstance(value, float) else value


def test_the_server_answers_the_examples_as_documented(tmp_path):
    app = shop(tmp_path)
    for example in EXAMPLES:
        found, documented = answer_to(app, example), example.answer
        if example.route == "GET /model":
            assert found.keys() == documented.keys()
            msgspec.convert(found, bodies.State)
            assert found.pop("parameters").items() >= documented["parameters"].items()
            documented = {**documented, **{name: found[name] for name in VOLATILE}}
            del documented["parameters"]
        assert rounded(found) == rounded(documented), example
    app.close()


def test_every_json_route_has_an_example():
    shown = {example.route for example in EXAMPLES}
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            content = next(iter(operation["responses"].values()))["content"]
            if bodies.JSON in content and not path.startswith(("/models/", "/openapi")):
                assert f"{method.upper()} {path}" in shown


LEARN = {"row": {"clicks": 3}, "label": "buys"}


def full_disk(*_):
    raise OSError(28, "No space left on device")


def provoke(status, tmp_path, monkeypatch):
    """The answer to a request that is refused with a status, as in the document."""
    if status == 401:
        app = shop(tmp_path, token="secret")
    elif status == 408:
        app = shop(tmp_path, limits=Limits(body_seconds=0.01))
    elif status == 429:
        app = shop(tmp_path, limits=Limits(queue=0))
    else:
        app = shop(tmp_path)
    if status == 503:
        post(app, "/learn", LEARN)
        monkeypatch.setattr("maxmargin.serve.event_log.os.write", full_disk)
    if status == 409:
        post(app, "/predict", {"row": {"clicks": 3}, "id": "visit-8"})
        post(app, "/label", {"id": "visit-8", "label": "leaves"})
    found = {
        400: lambda: post(app, "/learn", {"row": {"clicks": 3}}),
        403: lambda: post(app, "/learn", LEARN, headers=[(b"sec-fetch-site", b"cross-site")]),
        404: lambda: post(app, "/label", {"id": "visit-9", "label": "buys"}),
        405: lambda: get(app, "/learn"),
        408: lambda: post(app, "/learn", b"", parts=[b"{", None]),
        409: lambda: post(app, "/label", {"id": "visit-8", "label": "buys"}),
        413: lambda: post(app, "/learn", b"", headers=[(b"content-length", b"33554433")]),
        415: lambda: post(app, "/learn", b"", kind="text/plain"),
        422: lambda: post(app, "/learn", {**LEARN, "label": "stays"}),
    }.get(status, lambda: post(app, "/learn", LEARN))()
    monkeypatch.undo()
    app.close()
    return found


@pytest.mark.parametrize("status", ERRORS)
def test_the_server_gives_the_documented_errors(status, tmp_path, monkeypatch):
    found = provoke(status, tmp_path, monkeypatch)
    assert found.status == status
    assert msgspec.convert(found.json(), bodies.Error)["error"].endswith(".")
    documented = document()["components"]["responses"][str(status)]
    assert (b"retry-after" in found.headers) == ("Retry-After" in documented.get("headers", {}))
    assert found.headers.get(b"retry-after", b"1") == b"1"


def accepts(schema, value):
    jsonschema = pytest.importorskip("jsonschema")
    components = {"components": document()["components"]}
    return jsonschema.Draft202012Validator(schema | components).is_valid(value)


VARIANTS = [
    *[{**LEARN, "weight": weight} for weight in (0, 1, 2.5, -1, True, "1", None)],
    *[{**LEARN, "id": key} for key in ("a", "", 7, None, True)],
    *[{**LEARN, "label": label} for label in ("buys", None, [], {})],
    *[{**LEARN, "row": row} for row in ({}, [], "x", None, {"a": None}, {"a": []}, {"a": {}})],
    {**LEARN, "more": 1},
    {"row": {"a": 1}},
    {"rows": [], "labels": []},
    {"rows": [{"a": True}], "labels": ["buys"], "weights": [0]},
    {"rows": [{"a": 1}], "labels": ["buys"], "weights": None, "id": "b"},
    {"rows": [{"a": 1}], "label": "buys"},
    [],
]


@pytest.mark.parametrize("body", VARIANTS, ids=json.dumps)
def test_the_schema_of_a_body_forbids_what_the_server_refuses_as_malformed(body, tmp_path):
    app = shop(tmp_path)
    content = document()["paths"]["/learn"]["post"]["requestBody"]["content"]
    found = post(app, "/learn", body)
    assert accepts(content[bodies.JSON]["schema"], body) is (found.status != 400), found.body
    app.close()
