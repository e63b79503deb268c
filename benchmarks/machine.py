"""The facts without which a time says nothing."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("maxmargin", "numpy", "scipy", "numba", "scikit-learn", "river", "vowpalwabbit")


def facts() -> dict[str, str]:
    """Processor, cores, load, system, and the versions of all libraries that take part."""
    found = {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
    }
    if hasattr(os, "getloadavg"):
        found["load at the start"] = f"{os.getloadavg()[0]:.2f}"
    return found | {name: _version(name) for name in PACKAGES}


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
