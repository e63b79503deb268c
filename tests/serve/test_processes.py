"""`maxmargin serve` and `replay` as programs: kills, signals, files, logs, tokens."""

import contextlib
import json
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
if sys.platform != "linux":
    pytest.skip("signals and limits as Linux has", allow_module_level=True)

from serve.processes import SLOWEST, Server

from maxmargin.client import Client, Refused, Unavailable

OPTIONS = ("--algorithm", "amira", "--classes", "no,yes")


@pytest.fixture
def server(tmp_path):
    made = Server(tmp_path / "data", *OPTIONS)
    yield made
    made.end()


def url(server):
    return f"http://127.0.0.1:{server.port}"


def test_a_killed_server_goes_on_with_the_same_model(server, tmp_path):
    server.start()
    with Client(url(server)) as client:
        for k in range(20):
            client.learn({"a": k % 5, "b": "x"}, "yes" if k % 5 > 2 else "no", id=f"e{k}")
        client.predict({"a": 1}, id="v")
        client.download(tmp_path / "before.mm")
    server.kill()
    server.start()
    with Client(url(server)) as client:
        client.download(tmp_path / "after.mm")
        assert (tmp_path / "after.mm").read_bytes() == (tmp_path / "before.mm").read_bytes()
        assert client.learn({"a": 9}, "no", id="e7")["duplicate"]
        assert client.label("v", "no")["learned"] == 1
    assert server.stop() == 0
    log = server.log.read_text()
    assert "replayed 20 events after event 0" in log
    assert "Traceback" not in log


def command(*arguments):
    """Exit code, output and errors of ``maxmargin``."""
    given = [sys.executable, "-m", "maxmargin", *map(str, arguments)]
    done = subprocess.run(given, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_an_afternoon_is_taken_back(server, tmp_path):
    server.start()
    with Client(url(server)) as client:
        for k in range(10):
            client.learn([float(k), 1.0], "yes" if k > 4 else "no")
        client.download(tmp_path / "noon.mm")
        for k in range(10):
            client.learn([float(k), 1.0], "no" if k > 4 else "yes")
    model = tmp_path / "clean.mm"
    code, printed, errors = command("replay", server.folder, "--until", "10", "-o", model, "--json")
    assert (code, errors) == (0, "")
    assert json.loads(printed)["rows"] == 10
    assert model.read_bytes() == (tmp_path / "noon.mm").read_bytes()
    assert command("replay", server.folder, "--until", "2020-01-01T00:00Z")[0] == 0
    assert "--until takes" in command("replay", server.folder, "--until", "noon")[2]
    assert server.stop() == 0
    again = Server(tmp_path / "again", str(model))
    again.start()
    with Client(url(again)) as client:
        assert client.predict([9.0, 1.0]) == "yes"
    assert again.stop() == 0


def test_it_stops_beside_requests_that_are_not_complete(server):
    server.start()
    slow = socket.create_connection(("127.0.0.1", server.port))
    slow.sendall(b"POST /learn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n")
    slow.sendall(b"Content-Length: 100\r\n\r\n{")
    told = []

    def teach():
        with contextlib.suppress(Exception), Client(url(server), retries=0) as client:
            while True:
                told.append(client.learn([1.0], "yes")["sequence"])

    teachers = [threading.Thread(target=teach) for _ in range(4)]
    for each in teachers:
        each.start()
    while len(told) < 20:
        time.sleep(0.01)
    assert server.stop() == 0
    for each in teachers:
        each.join()
    slow.close()
    log = server.log.read_text()
    assert "Traceback" not in log
    assert "CancelledError" not in log
    server.start()
    assert server.asks("GET", "/model").json["sequence"] >= max(told)


def test_it_goes_on_when_it_has_had_no_file_descriptors(server, tmp_path):
    server.start()
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (80, 80))
    idle = []
    with Client(url(server), retries=0) as client:
        assert client.learn([1.0], "yes", id="first")["learned"] == 1
        for _ in range(150):
            with contextlib.suppress(OSError):
                idle.append(socket.create_connection(("127.0.0.1", server.port), timeout=5))
        for k in range(10):
            with contextlib.suppress(Unavailable):
                client.learn([float(k)], "no", id=f"e{k}")
        for each in idle:
            each.close()
    with Client(url(server)) as client:
        for k in range(10):
            client.learn([float(k)], "no", id=f"e{k}")
        assert client.learn([2.0], "yes", id="last")["learned"] == 1
        assert client.model()["rows"] == 12
    assert "Traceback" not in server.log.read_text()
    assert server.stop() == 0
    server.start()
    assert server.asks("GET", "/model").json["rows"] == 12
    state = server.asks("GET", "/model").json
    assert state["snapshot_sequence"] == state["sequence"]


def test_logs_and_tokens(tmp_path):
    tokens = {"MAXMARGIN_LEARN_TOKEN": "teach", "MAXMARGIN_PREDICT_TOKEN": "ask"}
    options = (*OPTIONS, "--log-format", "json", "--access-log", "--host", "0.0.0.0")
    server = Server(tmp_path / "data", *options, environment=tokens)
    server.spawn()
    server.port = int(re.search(r":(\d+)$", server.first_line())[1])
    with Client(url(server), token="teach") as client:
        client.learn([1.0], "yes")
    with Client(url(server), token="ask") as client:
        assert client.predict([1.0]) == "yes"
        with pytest.raises(Refused, match="needs the token to learn"):
            client.learn([1.0], "no")
    assert server.stop() == 0
    found = [json.loads(line) for line in server.log.read_text().splitlines()]
    messages = " ".join(each["message"] for each in found)
    assert "serving" in messages
    assert "stopped after event 1" in messages
    asked = [each for each in found if each["logger"] == "maxmargin.access"]
    assert [(each["path"], each["status"]) for each in asked] == [
        ("/learn", 200),
        ("/predict", 200),
        ("/learn", 403),
    ]
    assert "teach" not in server.log.read_text()


def test_interrupting_ends_it(server):
    server.start()
    assert server.stop(signal.SIGINT) == 0


@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx")
def test_behind_nginx_as_the_docs_configure_it(server, tmp_path):
    """TLS and the address are left out: the rest is what docs/production.md has."""
    from docs.markup import ROOT

    page = (ROOT / "docs" / "production.md").read_text("utf-8")
    block = page.split("```nginx\n")[1].split("```")[0]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server.start()
    block = re.sub(r"listen 443 ssl;", f"listen 127.0.0.1:{port};", block)
    block = re.sub(r"\n *ssl_\w+ [^;]+;", "", block)
    block = block.replace("127.0.0.1:8765", f"127.0.0.1:{server.port}")
    log = tmp_path / "nginx.log"
    config = (
        f"pid {tmp_path}/pid; error_log {log}; events {{}} http {{ access_log off;\n{block}\n}}"
    )
    (tmp_path / "nginx.conf").write_text(config)
    proxy = subprocess.Popen(
        ["nginx", "-p", tmp_path, "-e", log, "-c", tmp_path / "nginx.conf", "-g", "daemon off;"]
    )
    try:
        with Client(f"http://127.0.0.1:{port}") as client:
            end = time.monotonic() + SLOWEST
            while not client.is_ready():
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.1)
            assert client.learn({"a": 1}, "yes")["learned"] == 1
            rows = [{"a": k % 7, "b": k} for k in range(20_000)]
            assert client.learn(rows, ["no"] * 20_000)["learned"] == 20_000
            with pytest.raises(Refused) as refused:
                client.learn([{"a": 1.0, "b": "x" * 1000}] * 40_000, ["no"] * 40_000)
            assert refused.value.status == 413
    finally:
        proxy.terminate()
        proxy.wait(SLOWEST)
