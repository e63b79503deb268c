"""The live page in a browser, and the OpenAPI document."""

import threading
from contextlib import contextmanager

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import uvicorn
from serve.asking import ask
from serve.browser import CHROMIUM, opened

from maxmargin import AMIRA
from maxmargin.client import Client
from maxmargin.serve import create_app, openapi

CLASSES = ["<b>buys</b>", "leaves"]


@contextmanager
def served(folder, learner=None, classes=CLASSES, **options):
    """A server in a thread, its application and its port."""
    app = create_app(folder, learner or AMIRA(), classes=classes, **options)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", timeout_keep_alive=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_page_shows_the_model_and_predicts(tmp_path):
    with (
        served(tmp_path / "data", learn_token="secret") as url,
        opened(tmp_path / "profile") as page,
    ):
        rng = np.random.default_rng(0)
        with Client(url, token="secret") as client:
            for _ in range(10):
                rows = [
                    {"clicks": x, "<i>age</i>": z} for x, z in rng.normal(size=(100, 2)).tolist()
                ]
                client.learn(rows, [CLASSES[int(row["clicks"] > 0)] for row in rows])
            page.look(1200, 900)
            page.go(url)
            page.wait("!document.getElementById('ask-token').hidden")
            page.write("#token", "secret")
            page.click("#ask-token button")
            page.wait("document.body.className === 'live'")
            assert "1,000 rows in 10 events" in page.text("#tiles")
            assert "expected error at most" in page.text("#tiles")
            assert "<i>age</i>" in page.text("#weights")
            assert "<b>buys</b>" in page.text("#about")
            assert page.run("document.querySelectorAll('#accuracy path').length") == 2
            page.write("#row", '{"clicks": 3}')
            page.click("#try button")
            page.wait("document.querySelector('#prediction h2') !== null")
            assert page.text("#prediction h2") == "leaves"
            page.write("#row", '{"other": 3}')
            page.click("#try button")
            page.wait(
                "document.getElementById('trouble').textContent.includes('none of the columns')"
            )
            client.learn(rows, [CLASSES[0]] * 100)
            page.wait("document.getElementById('tiles').innerText.includes('1,100 rows')")
        page.look(375, 800, scheme="dark", phone=True)
        width = page.run("document.documentElement.scrollWidth")
        assert width <= 375
        page.picture(tmp_path / "page.png")
        assert not page.complaints


def test_the_page_allows_its_own_script_only(tmp_path):
    app = create_app(tmp_path / "data", AMIRA(), classes=CLASSES)
    found = ask(app, "GET", "/")
    app.close()
    policy = found.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert b"/* page." not in found.body
    assert b"<script src" not in found.body


def test_the_document_is_valid_and_names_all_routes(tmp_path):
    app = create_app(tmp_path / "data", AMIRA(), classes=CLASSES)
    document = ask(app, "GET", "/openapi.json").json
    paths = {each.path for each in app.routes}
    app.close()
    assert set(document["paths"]) == paths
    body = document["components"]["schemas"]["LearnBody"]["properties"]
    assert set(body) == {"row", "label", "weight", "id", "rows", "labels", "weights", "ids"}
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(openapi.document())
