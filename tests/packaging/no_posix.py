"""``python no_posix.py PROGRAM`` runs a program without what Python has on POSIX systems only."""

import os
import runpy
import sys
from importlib.abc import MetaPathFinder

MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
NAMES = [
    *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK"),
    *("chown", "fchmod", "fork", "forkpty", "getpgid", "killpg", "mkfifo", "nice"),
    *("posix_fallocate", "pread", "pwrite", "register_at_fork", "sched_getaffinity", "statvfs"),
]


class Absent(MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname in MODULES:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def forget() -> None:
    """Call it when libraries of others are imported: some of them are built for this system."""
    for name in MODULES:
        sys.modules.pop(name, None)
    for name in NAMES:
        if hasattr(os, name):
            delattr(os, name)
    sys.meta_path.insert(0, Absent())


if __name__ == "__main__":
    import asyncio  # noqa: F401
    import random  # noqa: F401
    import subprocess  # noqa: F401

    import numba  # noqa: F401
    import sklearn.svm  # noqa: F401
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401

    forget()
    program, *sys.argv[1:] = sys.argv[1:]
    runpy.run_path(program, run_name="__main__")
