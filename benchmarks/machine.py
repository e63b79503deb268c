"""The facts without which a time says nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from maxmargin_papers.reproduction import provenance

ROOT = Path(__file__).parents[1]
PEERS = ("river", "vowpalwabbit", "liblinear-official", "olpy")


def facts() -> dict[str, str]:
    """Processor, cores, system, and the versions of all libraries that take part."""
    machine = {name: str(value) for name, value in provenance.machine().items()}
    return machine | provenance.versions() | installed(PEERS)


def installed(packages: Iterable[str]) -> dict[str, str]:
    """Their versions."""
    return {name: _version(name) for name in packages}


def load() -> float | None:
    """How many processes wanted to run during the last minute, where the system says so."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def commit() -> str:
    """The commit, marked if what is measured was changed since; results may have been."""
    described = _git("describe", "--always", "--abbrev=10", "--exclude=*")
    changed = _git("status", "--porcelain", "--", "src", "benchmarks")
    return f"{described}-dirty" if changed else described or "unknown"


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
