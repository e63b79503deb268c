"""Where numbers come from: versions, machine, commit, date."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import version
from pathlib import Path

import maxmargin

LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn")


@cache
def versions() -> dict[str, str]:
    return {
        "maxmargin": maxmargin.__version__,
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
    }


@cache
def machine() -> dict[str, str | int]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "system": f"{platform.system()} {platform.release()}",
    }


@cache
def commit() -> str | None:
    """The commit of a checkout, marked if files were changed since; None for an installation."""
    folder = Path(maxmargin.__file__).parent
    described = _git(folder, "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*")
    tracked = _git(folder, "ls-files", "__init__.py")
    return described if tracked else None


def today() -> str:
    return datetime.now(timezone.utc).date().isoformat()


def today_and_commit() -> str:
    return f"{today()}, commit {commit()}" if commit() else today()


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
