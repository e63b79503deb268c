"""Servers that are forked from a process in which all is imported: most of a start is imports."""

import multiprocessing
import os
import signal
import sys
import time
from multiprocessing import forkserver

from serve.processes import SLOWEST, Server

PRELOADED = ["maxmargin.cli.serve", "maxmargin.serve", "uvicorn", "sklearn", "pyarrow", "orjson"]
PRELOADED += ["httptools", "uvloop", "serve.forked", "serve.warm"]


def prepare(environment: dict[str, str]) -> None:
    """Start the process that is forked, with these variables."""
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        multiprocessing.set_forkserver_preload(PRELOADED)
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(before)


def serve(arguments: list[str], out: str, log: str, environment: dict[str, str]) -> None:
    """What the command does, in a process that is to be killed."""
    for path, number in ((out, 1), (log, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    os.environ.update(environment)
    sys.argv = ["maxmargin", *arguments]
    from maxmargin.cli import main

    main()


class ForkedServer(Server):
    """The same from outside."""

    def spawn(self) -> None:
        self.out = self.log.with_suffix(".out")
        self.out.unlink(missing_ok=True)
        arguments = [*self.command[3:], "--data", str(self.folder), "--port", "0"]
        given = arguments, str(self.out), str(self.log), self.own_environment
        context = multiprocessing.get_context("forkserver")
        self.process = context.Process(target=serve, args=given, daemon=True)
        self.process.start()

    def first_line(self) -> str:
        end = time.monotonic() + SLOWEST
        while time.monotonic() < end and self.process.is_alive():
            if self.out.exists() and "\n" in (text := self.out.read_text()):
                return text.partition("\n")[0]
            time.sleep(0.02)
        return ""

    def kill(self) -> None:
        ended = self.process.exitcode
        self.process.kill()
        self.process.join()
        assert ended is None, f"ended with {ended}: {self.log.read_text()[-2000:]}"

    def stop(self) -> int:
        os.kill(self.process.pid, signal.SIGTERM)
        self.process.join(SLOWEST)
        return self.process.exitcode

    def end(self) -> None:
        if self.process is not None and self.process.is_alive():
            self.process.kill()
            self.process.join()
