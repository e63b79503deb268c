"""`maxmargin serve` in a process of its own, and what one can ask it from outside."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

SLOWEST = 120.0  # seconds, on a machine that is busy with other things


class Answer(NamedTuple):
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Server:
    """Serves a folder; can be killed and started again."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        environment: dict[str, str] | None = None,
    ):
        self.folder, self.options = folder, options
        self.own_environment = environment or {}
        self.log = folder.with_name(folder.name + ".log")
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def spawn(self) -> None:
        """Begin to start."""
        command = ["-m", "maxmargin", "serve", *self.options]
        command += ["--data", str(self.folder)]
        command += [] if "--port" in self.options else ["--port", "0"]
        with self.log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **self.own_environment},
            )

    def start(self) -> None:
        """Start, and wait until it says where."""
        self.spawn()
        line = self.first_line()
        found = re.fullmatch(r"Serving on http://[\d.]+:(\d+)/?", line)
        assert found, f"did not start: {line!r}, {self.log.read_text()[-2000:]}"
        self.port = int(found[1])

    def first_line(self) -> str:
        line = self.process.stdout.readline().decode().strip()
        if not line:
            self.process.wait()
        return line

    def wait_until_healthy(self) -> None:
        end = time.monotonic() + SLOWEST
        while time.monotonic() < end:
            if self.asks("GET", "/health").status == 200:
                return
            time.sleep(0.05)
        raise AssertionError("it is not healthy")

    def kill(self) -> None:
        """SIGKILL; AssertionError if it had ended by itself."""
        ended = self.process.poll()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        assert ended is None, f"ended with {ended}: {self.log.read_text()[-2000:]}"

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(SLOWEST)
        self.process.stdout.close()
        return code

    def end(self) -> None:
        """Whatever it does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

    def resident(self) -> int:
        """Its memory in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmRSS:\s+(\d+)", status)[1])

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=SLOWEST)

    def asks(self, method: str, path: str, content: Any = None, **headers: str) -> Answer:
        with closing(self.connect()) as connection:
            return exchange(connection, method, path, content, headers)


def exchange(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    content: Any = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """One request, of JSON unless the headers name another type of content."""
    headers = dict(headers or {})
    if content is not None and not isinstance(content, bytes):
        content = json.dumps(content).encode()
        headers.setdefault("Content-Type", "application/json")
    connection.request(method, path, content, headers)
    answer = connection.getresponse()
    return Answer(answer.status, answer.read())
