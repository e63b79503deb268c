"""The pages of the server, in a real browser."""

import json
import time

import pytest
from client.server import running

pytest.importorskip("jinja2")
pytest.importorskip("starlette")
pytest.importorskip("msgspec")
from serve import browser
from serve.mock import PREFIX, Models, a_state, nothing_yet, prepare

from maxmargin.serve import openapi

pytestmark = pytest.mark.skipif(browser.CHROMIUM is None, reason="needs Chromium")
HOSTILE = '<img src=x onerror="window.hacked=1">"><script>window.hacked=1</script>\u202e'


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    with browser.opened(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def server():
    with running(Models) as server:
        yield prepare(server)


@pytest.fixture
def page(window, server):
    """The live page, mounted below a prefix; it must not complain."""
    window.look(1280, 900)
    window.complaints.clear()
    window.go(f"{server.url}{PREFIX}/")
    yield window
    window.go("about:blank")
    assert not window.complaints


def live(page):
    page.wait("document.body.className === 'live'")
    return page


def test_it_shows_the_state_and_follows_it(page, server):
    live(page)
    assert page.text("#name") == "default"
    assert page.text("#about") == "AMIRA · 2 classes: buys, leaves · 2 features"
    assert page.text("#answers").split("\n") == [
        *("Accuracy of answers", "90.0 %", "overall 86.0 %", "of 2,350 answers with a label")
    ]
    assert page.text("#accuracy").split("\n") == [
        *("Progressive accuracy", "93.0 %", "overall 89.0 %", "largest class 61.0 %")
    ]
    assert "0.220" in page.text("#loss")
    assert page.text("#rate b") == "1,874"
    assert "p99 12 ms" in page.text("#latency")
    assert page.text("#updates b") == "903"
    assert page.text("#certificate b") == "≤\u20090.0123"
    assert page.text("#drift") == "Alarm at row 2,800."
    assert page.text("#about-drift").startswith(
        "The evidence of a change is 3.25; 600 raises the next"
    )
    assert page.run("document.getElementById('coverage').hidden")
    assert "17 predictions" in page.text("#server")
    assert page.run("document.querySelectorAll('#accuracy-chart .series').length") == 2
    assert page.run("document.querySelectorAll('.drift').length") == 2  # one in each chart
    assert page.run("document.title") == "default: 90.0 % · maxmargin"
    assert page.run("document.getElementById('models').hidden")
    server.states["default"] = a_state(recent_answer_accuracy=0.5, certificate={"ratio": 0.994})
    page.wait("document.querySelector('#answers b').innerText === '50.0 %'")
    assert page.text("#certificate b") == "99.4 %"


def test_prediction_sets(page, server):
    coverage = {"target": 0.9, "observed": 0.901, "bound": 0.02, "rows": 2000, "mean_size": 1.25}
    server.states["default"] = a_state(coverage=coverage)
    server.answers["POST", "/predict"] = 200, {"prediction": "buys", "set": ["buys", "leaves"]}
    live(page)
    what, observed, *about = page.text("#coverage").split("\n")
    assert (what, observed) == ("Coverage of sets", "90.1 %")
    assert about == ["target 90.0 %, at most 2.0 % away", "1.25 classes in a set"]
    page.click("#try button")
    page.wait("document.querySelector('#prediction .key')?.innerText.startsWith('Prediction')")
    assert page.text("#prediction .key") == "Prediction set: buys, leaves"
    assert server.requests[-1][2]["set"] is True


def test_the_pointer_reads_the_chart(page):
    live(page)
    page.run(
        """(() => {
        const picture = document.querySelector('#accuracy-chart svg');
        const { right, top } = picture.getBoundingClientRect();
        const place = { clientX: right - 9, clientY: top };
        picture.dispatchEvent(new PointerEvent('pointermove', place));
        })()"""
    )
    assert page.text("#accuracy-chart .readout") == "· row 10,000: 85.0 %, 80.0 %"


def test_a_model_that_has_learned_nothing(page, server):
    server.states["default"] = nothing_yet()
    live(page)
    page.wait("document.getElementById('name').innerText === 'new'")
    for tile in ("answers", "accuracy", "latency", "certificate"):
        assert page.text(f"#{tile} b") == "–"
    assert "NaN" not in page.text("body")
    assert "null" not in page.text("body")
    assert "undefined" not in page.text("body")


def test_text_of_strangers_stays_text(page, server):
    learner = {**a_state()["learners"][0], "name": HOSTILE, "algorithm": HOSTILE}
    names = {"name": HOSTILE, "class": HOSTILE, "weight": 1.0}
    hostile = a_state(
        name=HOSTILE,
        algorithm=HOSTILE,
        parameters={HOSTILE: HOSTILE},
        classes=[HOSTILE, HOSTILE],
        columns=[HOSTILE],
        largest_weights=[names, {**names, "class": "other"}],
        learners=[learner, {**learner, "role": "shadow", "history": [[1, 0.5], [2000, 0.6]]}],
        example={HOSTILE: HOSTILE},
    )
    server.states = {HOSTILE: hostile, "other": hostile}
    answer = {"prediction": HOSTILE, "scores": {HOSTILE: 1.0}}
    server.answers["POST", "/predict"] = 200, answer
    live(page)
    page.wait("document.getElementById('name').innerText.includes('onerror')")
    page.click("#try button")
    page.wait("document.getElementById('prediction').innerText.includes('onerror')")
    server.answers["POST", "/predict"] = 422, {"error": HOSTILE}
    page.click("#try button")
    page.wait("document.getElementById('try-failure').innerText.includes('onerror')")
    time.sleep(0.1)
    assert page.run("typeof window.hacked") == "undefined"
    assert page.run("document.querySelectorAll('img, body script').length") == 1  # its own
    assert HOSTILE in page.text("#weights")


def test_it_connects_again(page, server):
    live(page)
    server.states["default"] = a_state(name="later")
    server.hang_up()
    page.wait("document.getElementById('name').innerText === 'later'")
    live(page)


def test_it_asks_for_the_token(page, server):
    server.token = "right"
    server.hang_up()
    page.run("sessionStorage.clear()")
    page.go(f"{server.url}{PREFIX}/")
    page.wait("!document.getElementById('ask-token').hidden")
    page.write("#token", "wrong")
    page.click("#ask-token button")
    page.wait("document.getElementById('ask-token').innerText.includes('not the token')")
    page.write("#token", "right")
    page.click("#ask-token button")
    live(page)
    assert page.run("document.getElementById('ask-token').hidden")
    assert "right" not in str([path for _, path, _ in server.requests])
    page.run("sessionStorage.clear()")


def test_a_row_can_be_tried(page, server):
    server.answers["POST", "/predict"] = (
        200,
        {"prediction": "buys", "scores": {"buys": 1, "leaves": -1}},
    )
    live(page)
    assert json.loads(page.run("document.getElementById('row').value")) == {
        "clicks": 3,
        "from": "mail",
    }
    page.click("#try button")
    page.wait("document.querySelector('#prediction p')?.innerText === 'buys'")
    assert server.requests[-1] == (
        *("POST", "/predict"),
        {"row": {"clicks": 3, "from": "mail"}, "scores": True},
    )
    server.answers["POST", "/predict"] = 422, {"error": 'Column "clicks" is missing.'}
    page.write("#row", '{"other": 1}')
    server.states["default"] = a_state(name="later")
    page.wait("document.getElementById('name').innerText === 'later'")
    page.click("#try button")
    page.wait(
        "document.getElementById('try-failure').innerText === 'Column \"clicks\" is missing.'"
    )
    assert server.requests[-1][2]["row"] == {"other": 1}
    page.write("#row", "{no JSON")
    page.click("#try button")
    page.wait(
        "document.getElementById('try-failure').innerText.startsWith('This is not valid JSON')"
    )


def test_learners_side_by_side(page, server):
    server.answers["POST", "/promote"] = 200, {"sequence": 1}
    server.answers["DELETE", "/shadows/moving"] = 409, {"error": "Not now."}
    server.answers["POST", "/shadows"] = 201, {"sequence": 2}
    live(page)
    rows = page.run("[...document.querySelectorAll('#learners tr')].map(row => row.innerText)")
    assert [row.split()[0] for row in rows] == ["amira", "moving"]
    assert page.text("#learners .best") == "97.0 %"
    assert page.run("document.querySelectorAll('#learners tr:first-child button').length") == 0
    page.click("#learners button")
    server.states["default"] = a_state(name="later")  # the question survives the next state
    page.wait("document.getElementById('name').innerText === 'later'")
    assert page.text("#learners button") == "Really promote?"
    assert not any(method == "POST" for method, _, _ in server.requests)
    page.click("#learners button")
    page.wait("document.querySelector('#learners button').innerText === 'Promote'")
    wait_for(server, ("POST", "/promote", {"shadow": "moving"}))
    for _ in range(2):
        page.click("#learners button:last-child")
    page.wait("document.getElementById('learners-failure').innerText === 'Not now.'")
    page.run("document.querySelector('#add-shadow [name=name]').value = 'third'")
    page.run("document.querySelector('#add-shadow [name=algorithm]').value = 'Pegasos'")
    page.run("document.querySelector('#add-shadow [name=parameters]').value = '{\"lam\": 0.1}'")
    page.click("#add-shadow button")
    third = {"name": "third", "algorithm": "Pegasos", "parameters": {"lam": 0.1}}
    wait_for(server, ("POST", "/shadows", third))


def wait_for(server, request):
    end = time.monotonic() + browser.PATIENCE
    while request not in server.requests:
        assert time.monotonic() < end, server.requests
        time.sleep(0.02)


def test_models_by_name(page, server):
    server.states = {"default": a_state(), "a & b/c": a_state(name="a & b/c")}
    server.answers["POST", "/models/a%20%26%20b%2Fc/predict"] = 200, {"prediction": 1}
    server.hang_up()
    page.wait("document.querySelectorAll('#models a').length === 2")
    page.click("#models a:last-child")
    page.wait("document.getElementById('name').innerText === 'a & b/c'")
    page.wait("document.querySelector('[aria-current]')?.innerText === 'a & b/c'")
    page.click("#try button")
    page.wait("document.querySelector('#prediction p')?.innerText === '1'")
    page.click("#models a:first-child")
    page.wait("document.getElementById('name').innerText === 'default'")


@pytest.mark.parametrize("path", ["", "docs"])
def test_it_fits_on_a_phone(page, server, path):
    long = "a_name_without_any_place_to_break_it_" * 3
    weights = [{"name": long, "class": long, "weight": 1.0}]
    server.states["default"] = a_state(name=long, largest_weights=weights, example={long: long})
    page.look(360, 800, "dark", phone=True)
    page.go(f"{server.url}{PREFIX}/{path}")
    if not path:
        live(page)
    assert page.run("document.documentElement.scrollWidth") <= 360
    background = page.run("getComputedStyle(document.body).backgroundColor")
    page.look(360, 800, "light", phone=True)
    assert background != page.run("getComputedStyle(document.body).backgroundColor")


def test_the_page_of_the_document(page, server):
    page.go(f"{server.url}{PREFIX}/docs")
    text = page.text("body")
    for path in openapi.document()["paths"]:
        assert path.startswith("/models/") or f" {path}" in text
    assert page.run("document.querySelectorAll('script').length") == 0
    page.click("header a")
    page.wait("location.pathname.endsWith('/below/openapi.json')")
