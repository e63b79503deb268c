"""The command: what it says, how it stops, and what is left of it when it is killed."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("orjson")

from maxmargin import AMIRA, load, save
from maxmargin.serve.events import decoded
from maxmargin.serve.log import read_log

BEGIN = ("--algorithm", "amira", "--classes", "no,yes")


def command(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "maxmargin", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def asked(connection, method, path, body=None):
    text = None if body is None else json.dumps(body)
    connection.request(method, path, text, {"content-type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


class Server:
    def __init__(self, folder, *arguments, **options):
        self.process = command("serve", "--data", folder, "--port", 0, *arguments, **options)
        line = self.process.stdout.readline()
        assert line.startswith("Serving on http://127.0.0.1:"), self.process.stderr.read()
        self.port = int(line.rpartition(":")[2])

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method, path, body=None):
        with closing(self.connect()) as connection:
            return asked(connection, method, path, body)

    def ready(self):
        while self.ask("GET", "/health")[0] != 200:
            pass
        return self

    def end(self, number):
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err


def test_a_server_that_is_told_to_stop_finishes_what_it_took(tmp_path):
    server = Server(tmp_path / "data", *BEGIN).ready()
    status, _ = server.ask("POST", "/learn", {"row": [1.0, 2.0], "label": "yes"})
    assert status == 200
    second = command("serve", "--data", tmp_path / "data", "--port", 0)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 1
    assert "in use by another process" in err
    with closing(server.connect()) as listening:
        listening.request("GET", "/events")
        answer = listening.getresponse()
        code, err = server.end(signal.SIGTERM)
        answer.close()
    assert (code, err) == (0, "")
    again = Server(tmp_path / "data").ready()
    state = json.loads(again.ask("GET", "/model")[1])
    assert (state["rows"], state["snapshot_sequence"]) == (1, 1)
    assert again.end(signal.SIGINT)[0] == 0
    assert Server(tmp_path / "data").end(signal.SIGTERM) == (0, "")  # at once


def test_killed_servers_have_learnt_what_they_acknowledged_once_and_nothing_else(tmp_path):
    folder, random = tmp_path / "data", np.random.default_rng(0)
    limits = ("--limit", "snapshot_events=40", "--limit", "segment_bytes=20000", "--keep-log")
    acknowledged = set()
    for life in range(2):
        server = Server(folder, *(BEGIN if life == 0 else ()), *limits).ready()
        lock = threading.Lock()

        def send(life, server, lock, who):
            with closing(server.connect()) as connection:
                for k in range(10_000):
                    key = f"{life}-{who}-{k}"
                    row = [(hash((life, who, k, j)) % 1000) / 500.0 - 1.0 for j in range(3)]
                    body = {"row": row, "label": "yes" if row[0] > 0 else "no", "id": key}
                    try:
                        status, _ = asked(connection, "POST", "/learn", body)
                    except (OSError, http.client.HTTPException):
                        return
                    assert status == 200
                    with lock:
                        acknowledged.add(key)

        clients = [threading.Thread(target=send, args=(life, server, lock, k)) for k in range(4)]
        wanted = len(acknowledged) + int(random.integers(50, 200))
        for client in clients:
            client.start()
        while len(acknowledged) < wanted:
            clients[0].join(0.002)
        server.end(signal.SIGKILL)
        for client in clients:
            client.join()
    lessons = [decoded(record.payload) for record in read_log(folder / "default" / "log")]
    ids = [lesson.ids[0] for lesson in lessons]
    assert len(ids) == len(set(ids))
    assert acknowledged <= set(ids)
    server = Server(folder, *limits).ready()
    _, body = server.ask("GET", "/model/file")
    server.end(signal.SIGTERM)
    (tmp_path / "got.mm").write_bytes(body)
    found = load(tmp_path / "got.mm")
    wanted = AMIRA(random_state=0).partial_fit(
        np.concatenate([lesson.rows for lesson in lessons]),
        [lesson.labels[0] for lesson in lessons],
        ["no", "yes"],
    )
    assert np.array_equal(found.coef_, wanted.coef_)
    assert found.n_updates_ == wanted.n_updates_

    replayed = command("replay", folder, "-a", "amira", "--json", "-m", tmp_path / "again.mm")
    out, err = replayed.communicate(timeout=120)
    assert (replayed.returncode, err) == (0, "")
    report = json.loads(out)
    assert (report["rows"], report["refused"]) == (len(ids), 0)
    assert np.array_equal(load(tmp_path / "again.mm").coef_, wanted.coef_)


def test_a_model_from_a_file_goes_on_and_a_damaged_log_is_not_served(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 3))
    learner = AMIRA().partial_fit(X, X[:, 0] > 0, classes=[False, True])
    save(learner, tmp_path / "model.mm")
    server = Server(tmp_path / "data", f"m={tmp_path / 'model.mm'}", "--shadow", "s=norma,rate=0.5")
    server.ready()
    for row in X[:10].tolist():
        assert server.ask("POST", "/learn", {"row": row, "label": row[0] < 0})[0] == 200
    _, body = server.ask("GET", "/models/m/model/file")
    server.end(signal.SIGKILL)
    (tmp_path / "got.mm").write_bytes(body)
    learner.partial_fit(X[:10], X[:10, 0] < 0)
    assert np.array_equal(load(tmp_path / "got.mm").coef_, learner.coef_)
    log = next((tmp_path / "data" / "m" / "log").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[200] ^= 1
    log.write_bytes(data)
    process = command("serve", "--data", tmp_path / "data", "--port", 0)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"{log.name}: damaged at byte" in err


def test_a_token_lets_a_server_be_reached_from_elsewhere(tmp_path):
    (tmp_path / "token").write_text("secret\n", encoding="utf-8")
    environment = {**os.environ, "MAXMARGIN_TOKEN": ""}
    process = command(
        *("serve", "--data", tmp_path / "data", "--port", 0, "--host", "0.0.0.0", *BEGIN),
        *("--token-file", tmp_path / "token"),
        env=environment,
    )
    line = process.stdout.readline()
    port = int(line.rpartition(":")[2])
    for token, status in ((None, 401), ("wrong", 401), ("secret", 200)):
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request("GET", "/model", headers=headers)
            assert connection.getresponse().status == status
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0
