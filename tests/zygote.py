"""Processes that are forked from one in which all is imported: most of a start is imports.

What is started is what ``python`` would run, ``-m module`` or ``-c text``, and what is left of a
process is what `subprocess.Popen` has. Each `Zygote` has an environment of its own.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

# Modules that commands import, if they are installed.
PRELOADED: tuple[str, ...] = ("maxmargin.algorithms.amira", "uvicorn")
PRELOADED += ("maxmargin.algorithms.randombudgetperceptron", "pyarrow.csv", "msgspec", "httptools")
PRELOADED += (
    "maxmargin.cli",
    "maxmargin.cli.counted",
    "maxmargin.models.vote_model",
    "maxmargin.serve",
)
PRELOADED += ("maxmargin.streams.svmlight", "maxmargin.streams.tables", "maxmargin.streams.recipe")
PRELOADED += ("typer._adapters", "pydantic.main", "pydantic.plugin._loader", "rich.progress")
PRELOADED += ("uvloop", "uvicorn.protocols.http.auto")


class Zygote:
    """A process that waits for being told what to become copies of."""

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str] | None = None):
        self.environment = dict(environment or {})
        self.ours, theirs = socket.socketpair()
        number = theirs.fileno()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(number), *modules],
                env={**os.environ, **self.environment},
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self.close)

    def start(
        self,
        arguments: Sequence[Any],
        stdout: int | IO[Any] = subprocess.DEVNULL,
        stderr: int | IO[Any] = subprocess.DEVNULL,
        environment: Mapping[str, str] | None = None,
    ) -> "Forked":
        """What ``python *arguments`` is, with these variables besides ours and the zygote's."""
        variables = {**os.environ, **self.environment, **(environment or {})}
        task = {"arguments": [str(each) for each in arguments], "folder": os.getcwd()}
        message = json.dumps(task | {"environment": variables}).encode()
        with contextlib.ExitStack() as ends:
            out, theirs = _ends(stdout, ends)
            err, theirs_too = _ends(stderr, ends)
            status, told = os.pipe()
            ends.callback(os.close, told)
            size = len(message).to_bytes(8, "big")
            socket.send_fds(self.ours, [size], [theirs, theirs_too, told])
            self.ours.sendall(message)
        return Forked(status, out, err)

    def close(self) -> None:
        """Whatever is still running is killed."""
        atexit.unregister(self.close)
        self.ours.close()
        self.process.wait()

    def __enter__(self) -> "Zygote":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Forked:
    """A process, as `subprocess.Popen` shows it."""

    def __init__(self, status: int, stdout: IO[bytes] | None, stderr: IO[bytes] | None) -> None:
        self.stdout, self.stderr = stdout, stderr
        self.returncode: int | None = None
        self._status = os.fdopen(status, "rb", buffering=0)
        self.pid = self._told()

    def _told(self) -> int:
        number = self._status.read(8)
        assert len(number) == 8, "the zygote has ended"
        return int.from_bytes(number, "big", signed=True)

    def poll(self) -> int | None:
        return self._ended_within(0.0)

    def wait(self, timeout: float | None = None) -> int:
        if self._ended_within(timeout) is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def _ended_within(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], seconds)[0]:
            self.returncode = self._told()
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str | None, str | None]:
        """What it has said when it ends."""
        pipes = [self.stdout, self.stderr]
        with ThreadPoolExecutor(2) as readers:
            said = [None if each is None else readers.submit(each.read) for each in pipes]
            try:
                self.wait(timeout)
            finally:
                self.kill()
        for each in filter(None, pipes):
            each.close()
        out, err = (None if each is None else each.result().decode() for each in said)
        return out, err


def _ends(what: int | IO[Any], ends: contextlib.ExitStack) -> tuple[IO[bytes] | None, int]:
    """What we read from, if anything, and what is written to."""
    if what == subprocess.PIPE:
        mine, theirs = os.pipe()
        ends.callback(os.close, theirs)
        return os.fdopen(mine, "rb"), theirs
    if what == subprocess.DEVNULL:
        nothing = os.open(os.devnull, os.O_WRONLY)
        ends.callback(os.close, nothing)
        return None, nothing
    assert not isinstance(what, int)
    return None, what.fileno()


@functools.cache
def shared() -> Zygote:
    """One for all tests of this process."""
    return Zygote(PRELOADED)


# ---------------------------------------------------------------------------- in the process itself
def wait_for_tasks(link: socket.socket) -> dict[str, Any]:
    """Fork for each task; in the copy, the task is returned. Who asks is told pid and end."""
    children: dict[int, int] = {}
    wakes, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    while True:
        ready, _, _ = select.select([link, wakes], [], [])
        if wakes in ready:
            os.read(wakes, 4096)
            for pid, code in _ended():
                with contextlib.suppress(BrokenPipeError):  # nobody wants to know
                    os.write(children[pid], code.to_bytes(8, "big", signed=True))
                os.close(children.pop(pid))
        if link not in ready:
            continue
        size, handles, _, _ = socket.recv_fds(link, 8, 3)
        if not size:
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            sys.exit(0)
        with io.BytesIO() as message:
            while message.tell() < int.from_bytes(size, "big"):
                message.write(link.recv(1 << 16))
            task = json.loads(message.getvalue())
        out, err, told = handles
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for number, standard in ((out, 1), (err, 2)):
                os.dup2(number, standard)
            for each in (out, err, told, wakes, wake, *children.values()):
                os.close(each)
            link.close()
            return task
        os.write(told, pid.to_bytes(8, "big"))
        children[pid] = told
        os.close(out)
        os.close(err)


def _ended() -> Iterator[tuple[int, int]]:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended[0], os.waitstatus_to_exitcode(ended[1])


def become(task: dict[str, Any]) -> None:
    """What python would be, and hears Ctrl-C even if tests run in the background."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(task["environment"])
    os.chdir(task["folder"])
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    way, what, *arguments = task["arguments"]
    sys.argv = [what if way == "-m" else way, *arguments]
    if way == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
        return
    assert way == "-c"
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    exec(what, main.__dict__)


if __name__ == "__main__":
    for name in sys.argv[2:]:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    gc.freeze()
    become(wait_for_tasks(socket.socket(fileno=int(sys.argv[1]))))
