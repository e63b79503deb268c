"""The document of OpenAPI: valid, and its examples are what its schemas say."""

import json
import re

import pytest

pytest.importorskip("starlette")
pytest.importorskip("orjson")
from maxmargin.serve.openapi import document


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
                    values += [each["example"]] if "example" in each else []
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
