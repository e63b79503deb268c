"""Server, document, client and page together."""

import json
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from urllib.parse import urlsplit

import numpy as np
import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytest.importorskip("msgspec")
pytest.importorskip("jinja2")
import uvicorn
from serve import browser
from starlette.applications import Starlette
from starlette.routing import Mount

from maxmargin import PassiveAggressive, load
from maxmargin.client import Client, Refused
from maxmargin.serve import create_app
from maxmargin.serve.openapi import document

HOSTILE = "<img src=x onerror=window.hacked=1>"
PREFIX = "/below"


@contextmanager
def serving(folder, classes=None, *, port=0, **options):
    """The address of a server, which is mounted in another application; it must stop in time."""
    models = None if classes is None else {"default": PassiveAggressive()}
    app = create_app(folder, models, classes=classes, **options)
    outer = Starlette(routes=[Mount(PREFIX, app=app)])
    config = uvicorn.Config(outer, port=port, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}{PREFIX}"
    finally:
        app.stop()
        server.should_exit = True
        thread.join(60)
        app.close()
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("server"), ["buys", "leaves"]) as url:
        yield url


@pytest.fixture
def client(server):
    with Client(server) as client:
        yield client


def ask(url, method="GET", body=None, kind="application/json"):
    """Status, type and text of the answer."""
    data = None if body is None else body.encode()
    request = urllib.request.Request(url, data, {"Content-Type": kind}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            if answer.headers.get_content_type() == "text/event-stream":
                lines = [answer.readline().decode() for _ in range(2)]
                return answer.status, "text/event-stream", "".join(lines)
            content = answer.read()
            return answer.status, answer.headers.get_content_type(), content
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get_content_type(), error.read()


def operations():
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def test_the_server_does_what_the_document_says(server):
    """Each route with each example: the answer is one that the document knows, of its schema."""
    jsonschema = pytest.importorskip("jsonschema")
    whole = document()
    statuses = set()
    for path, method, operation in operations():
        url = server + path.replace("{name}", "default").replace("{shadow}", "moving")
        bodies = [(None, None)]
        if "requestBody" in operation:
            content = operation["requestBody"]["content"]
            bodies = [
                (kind, value if isinstance(value, str) else json.dumps(value))
                for kind, each in content.items()
                for value in [
                    *(one["value"] for one in each.get("examples", {}).values()),
                    *([each["example"]] if "example" in each else []),
                ]
            ]
        for kind, body in bodies:
            status, answered, text = ask(url, method, body, kind or "application/json")
            statuses.add(status)
            where = f"{method} {path} {body}: {status} {text[:300]}"
            assert str(status) in operation["responses"], where
            response = operation["responses"][str(status)]
            if "$ref" in response:
                response = whole["components"]["responses"][str(status)]
            known = {each.partition(";")[0]: each for each in response["content"]}
            assert answered in known, where
            schema = response["content"][known[answered]]["schema"]
            if answered == "application/json":
                validator = jsonschema.Draft202012Validator(
                    schema | {"components": whole["components"]}
                )
                errors = list(validator.iter_errors(json.loads(text)))
                assert not errors, (where, errors)
    assert {200, 201, 404, 409} <= statuses


def test_the_document_knows_all_routes(server):
    known = {}
    for path, method, _ in operations():
        known.setdefault(path, set()).add(method)
    for path, methods in known.items():
        url = server + path.replace("{name}", "default").replace("{shadow}", "nobody")
        for method in {"GET", "POST", "PUT", "DELETE"} - methods:
            status, _, text = ask(url, method)
            assert status == 405, (method, path, status, text)
    for path in ("/nothing", "/models/nobody/model", "/models/nobody/learn", "/models/default"):
        assert ask(server + path, "POST" if path.endswith("learn") else "GET", None)[0] == 404


def test_the_client_with_the_server(client, tmp_path):
    before = client.model()["rows"]
    assert client.is_ready()
    assert [each["name"] for each in client.models()] == ["default"]
    assert client.learn({"clicks": 3, "from": "mail"}, "buys", id="once")["learned"] == 1
    assert client.learn({"clicks": 3, "from": "mail"}, "buys", id="once")["duplicate"]
    assert client.learn([{"clicks": 1, "from": "ad"}], ["leaves"], weights=[2.0])["learned"] == 1
    assert client.predict({"clicks": 3, "from": "mail"}) in {"buys", "leaves"}
    assert len(client.predict([{"clicks": 3}, {"clicks": 1}], id=["p", "q"])) == 2
    assert set(client.decision_function({"clicks": 1})) == {"buys", "leaves"}
    assert client.label(["p", "q"], ["buys", "leaves"])["learned"] == 2
    assert client.label("p", "buys")["duplicate"]
    for call, status in (
        (lambda: client.label("p", "leaves"), 409),
        (lambda: client.label("nobody", "leaves"), 404),
        (lambda: client.learn({"clicks": 1}, "perhaps"), 422),
        (lambda: client.predict_proba({"clicks": 1}), 422),
        (lambda: client.promote("nobody"), 404),
        (lambda: client.remove_shadow("nobody"), 404),
        (lambda: client.add_shadow("a", "Nothing"), 422),
    ):
        with pytest.raises(Refused) as caught:
            call()
        assert caught.value.status == status
        assert len(caught.value.reason) > 10
    assert client.model()["rows"] == before + 4
    client.download(tmp_path / "model.mm")
    learner = load(tmp_path / "model.mm")
    row = {"clicks": 2, "from": "ad"}
    assert learner.predict_one(row) == client.predict(row)
    assert 'maxmargin_rows_total{model="default"}' in client.metrics()


def test_frames_and_arrays(tmp_path):
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(0)
    X = random.standard_normal((200, 3))
    y = np.where(X[:, 0] > 0.0, "yes", "no")
    with serving(tmp_path / "arrays", ["no", "yes"]) as url, Client(url) as client:
        client.learn(X, y)
        assert np.mean(np.array(client.predict(X)) == y) > 0.9
        with pytest.raises(Refused, match="columns"):
            client.learn([1.0], "yes")
    with serving(tmp_path / "frames", ["no", "yes"]) as url, Client(url) as client:
        frame = pandas.DataFrame(X, columns=["a", "b", "c"])
        client.learn(frame, y)
        assert np.mean(np.array(client.predict(frame)) == y) > 0.9
        assert client.model()["columns"] == ["a", "b", "c"]


@pytest.mark.skipif(browser.CHROMIUM is None, reason="needs Chromium")
def test_the_page_over_a_restart(tmp_path):
    folder = tmp_path / "data"
    rows = [{"clicks": 3, HOSTILE: 1}, {"clicks": 1}] * 20
    labels = [HOSTILE, "leaves"] * 20
    with browser.opened(tmp_path / "profile") as page:
        shadows = {"moving": ("NORMA", {"rate": 0.1})}
        with serving(folder, ["leaves", HOSTILE], token="secret", shadows=shadows) as url:
            with Client(url, token="secret") as client:
                for row, label in zip(rows, labels, strict=True):
                    client.learn(row, label)
            page.go(f"{url}/")
            page.wait("!document.getElementById('ask-token').hidden")
            page.write("#token", "secret")
            page.click("#ask-token button")
            page.wait("document.body.className === 'live'")
            page.wait("document.querySelectorAll('#learners tr').length === 2")
            page.wait("document.getElementById('rate').innerText.includes('40 rows in 40 events')")
            page.click("#try button")
            page.wait("document.querySelector('#prediction p') !== null")
            for _ in range(2):
                page.click("#learners button")
            page.wait("document.getElementById('about').innerText.startsWith('NORMA')")
            page.wait("document.querySelectorAll('#weights > div').length > 1")
            assert page.run("typeof window.hacked + document.images.length") == "undefined0"
        page.wait("document.body.className === 'lost'")
        with serving(folder, port=urlsplit(url).port, token="secret"):
            page.wait("document.body.className === 'live'")
            assert page.text("#about").startswith("NORMA")
            assert "40 rows in 40 events" in page.text("#rate")
        assert not page.complaints
