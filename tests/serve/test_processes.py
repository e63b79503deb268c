"""The command: what it says, how it stops, and what is left of it when it is killed."""

import http.client
import json
import signal
import subprocess
import sys
import threading
from contextlib import closing

import numpy as np
import pytest
from zygote import shared

pytest.importorskip("uvicorn")
pytest.importorskip("msgspec")

from serve.processes import SLOWEST, Server, exchange

from maxmargin import AMIRA, load, save
from maxmargin.serve.event_log import read_log
from maxmargin.serve.events import decoded

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")

BEGIN = ("--algorithm", "amira", "--classes", "no,yes")


def command(*arguments):
    """Exit code, output and complaints of a command that is not stopped."""
    process = shared().start(["-m", "maxmargin", *arguments], subprocess.PIPE, subprocess.PIPE)
    out, err = process.communicate(SLOWEST)
    return process.returncode, out, err


def served(folder, *options, zygote=None, **others):
    """One that can be asked."""
    server = Server(folder, *options, zygote=zygote, **others)
    server.start()
    server.wait_until_healthy()
    return server


def test_a_server_that_is_told_to_stop_finishes_what_it_took(tmp_path):
    server = served(tmp_path / "data", *BEGIN)
    assert server.asks("POST", "/learn", {"row": [1.0, 2.0], "label": "yes"}).status == 200
    code, _, err = command("serve", "--data", tmp_path / "data", "--port", 0)
    assert code == 1
    assert "in use by another process" in err
    with closing(server.connect()) as listening:
        listening.request("GET", "/events")
        answer = listening.getresponse()
        code = server.stop()
        answer.close()
    assert (code, server.log.read_text()) == (0, "")
    again = served(tmp_path / "data", zygote=shared())
    state = again.asks("GET", "/model").json
    assert (state["rows"], state["snapshot_sequence"]) == (1, 1)
    assert again.stop(signal.SIGINT) == 0
    at_once = Server(tmp_path / "data", zygote=shared())
    at_once.start()
    assert (at_once.stop(), at_once.log.read_text()) == (0, "")


def test_killed_servers_have_learned_what_they_acknowledged_once_and_nothing_else(tmp_path):
    folder, random = tmp_path / "data", np.random.default_rng(0)
    limits = ("--limit", "snapshot_events=40", "--limit", "segment_bytes=20000", "--keep-log")
    acknowledged = set()
    for life, options, zygote in ((0, (*BEGIN, *limits), None), (1, limits, shared())):
        server = served(folder, *options, zygote=zygote)
        lock = threading.Lock()

        def send(life, server, lock, who):
            with closing(server.connect()) as connection:
                for k in range(10_000):
                    key = f"{life}-{who}-{k}"
                    row = [(hash((life, who, k, j)) % 1000) / 500.0 - 1.0 for j in range(3)]
                    body = {"row": row, "label": "yes" if row[0] > 0 else "no", "id": key}
                    try:
                        answer = exchange(connection, "POST", "/learn", body)
                    except (OSError, http.client.HTTPException):
                        return
                    assert answer.status == 200
                    with lock:
                        acknowledged.add(key)

        clients = [threading.Thread(target=send, args=(life, server, lock, k)) for k in range(4)]
        wanted = len(acknowledged) + int(random.integers(50, 200))
        for client in clients:
            client.start()
        while len(acknowledged) < wanted:
            clients[0].join(0.002)
        server.kill()
        for client in clients:
            client.join()
    lessons = [decoded(record.payload) for record in read_log(folder / "default" / "log")]
    ids = [lesson.ids[0] for lesson in lessons]
    assert len(ids) == len(set(ids))
    assert acknowledged <= set(ids)
    server = served(folder, *limits, zygote=shared())
    body = server.asks("GET", "/model/file").body
    server.stop()
    (tmp_path / "got.mm").write_bytes(body)
    found = load(tmp_path / "got.mm")
    wanted = AMIRA(random_state=0).partial_fit(
        np.concatenate([lesson.rows for lesson in lessons]),
        [lesson.labels[0] for lesson in lessons],
        ["no", "yes"],
    )
    assert np.array_equal(found.coef_, wanted.coef_)
    assert found.n_updates_ == wanted.n_updates_

    code, out, err = command("replay", folder, "-a", "amira", "--json", "-m", tmp_path / "again.mm")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert (report["rows"], report["refused"]) == (len(ids), 0)
    assert np.array_equal(load(tmp_path / "again.mm").coef_, wanted.coef_)


def test_a_model_from_a_file_goes_on_and_a_damaged_log_is_not_served(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 3))
    learner = AMIRA().partial_fit(X, X[:, 0] > 0, classes=[False, True])
    save(learner, tmp_path / "model.mm")
    options = (f"m={tmp_path / 'model.mm'}", "--shadow", "s=norma,rate=0.5")
    server = served(tmp_path / "data", *options, zygote=shared())
    for row in X[:10].tolist():
        assert server.asks("POST", "/learn", {"row": row, "label": row[0] < 0}).status == 200
    body = server.asks("GET", "/models/m/model/file").body
    server.kill()
    (tmp_path / "got.mm").write_bytes(body)
    learner.partial_fit(X[:10], X[:10, 0] < 0)
    assert np.array_equal(load(tmp_path / "got.mm").coef_, learner.coef_)
    log = next((tmp_path / "data" / "m" / "log").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[200] ^= 1
    log.write_bytes(data)
    code, _, err = command("serve", "--data", tmp_path / "data", "--port", 0)
    assert code == 1
    assert f"{log.name}: damaged at byte" in err


def test_a_token_lets_a_server_be_reached_from_elsewhere(tmp_path):
    (tmp_path / "token").write_text("secret\n", encoding="utf-8")
    options = (*BEGIN, "--host", "0.0.0.0", "--token-file", str(tmp_path / "token"))
    server = Server(
        tmp_path / "data", *options, environment={"MAXMARGIN_TOKEN": ""}, zygote=shared()
    )
    server.start()
    for token, status in ((None, 401), ("wrong", 401), ("secret", 200)):
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        assert server.asks("GET", "/model", **headers).status == status
    assert server.stop() == 0


FORKING = """
import asyncio, os, sys
from maxmargin import AMIRA
from maxmargin.serve import create_app

app = create_app(sys.argv[1], {"m": AMIRA()}, classes=["no", "yes"])
app.wait(60.0)

async def told(scope, *messages):
    found, left = [], list(messages)

    async def receive():
        return left.pop(0)

    async def send(message):
        found.append(message)

    await app(scope, receive, send)
    return found

async def serve():
    begun = await told({"type": "lifespan"}, {"type": "lifespan.startup"},
                       {"type": "lifespan.shutdown"})
    scope = {"type": "http", "path": "/health", "method": "GET", "query_string": b"",
             "headers": [(b"host", b"localhost")]}
    answer = await told(scope, {"type": "http.request"})
    return begun[0], answer

for _ in range(2):
    if not (child := os.fork()):
        begun, answer = asyncio.run(serve())
        print(begun["type"], begun["message"], answer[0]["status"], answer[1]["body"].decode())
        try:
            create_app(sys.argv[1])
        except ValueError as error:
            print(error)
        app.close()
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
print(asyncio.run(serve())[0]["type"])
"""


def test_a_forked_process_is_told_that_the_application_is_that_of_another(tmp_path):
    folder = tmp_path / "data"
    process = shared().start(["-c", FORKING, folder], subprocess.PIPE, subprocess.PIPE)
    out, err = process.communicate(SLOWEST)
    assert (process.returncode, err) == (0, "")
    *children, parent = out.splitlines()
    assert parent == "lifespan.startup.complete"
    for first, second in (children[:2], children[2:]):
        assert first.startswith(
            "lifespan.startup.failed the application was made in another process"
        )
        assert ' 503 {"error":"the application was made in another process' in first
        assert "without --preload" in first
        assert second == f"{folder} is in use by another process."
