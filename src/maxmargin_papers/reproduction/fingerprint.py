"""Which code a measurement depends on: a result is reused only if none of it has changed.

That is the whole library but for what only shows numbers, the loaders of data, the libraries below
it, and in the experiments everything that `measure` mentions, directly or not: functions,
constants, settings.
Comments, captions and printed numbers that it does not mention may change without a new
measurement.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import maxmargin
from maxmargin_papers import data
from maxmargin_papers.reproduction.provenance import LIBRARIES

PACKAGE = "maxmargin_papers"
# Every file of these folders counts, except in subfolders whose code is behind no number.
HASHED = tuple(Path(str(package.__file__)).parent for package in (maxmargin, data))
ONLY_SHOWS = ("cli",)


def fingerprint(measure: Callable[..., Any]) -> str:
    """Hash of the library and of all code of the experiments that ``measure`` mentions."""
    module = inspect.getmodule(measure)
    assert module is not None
    seen: dict[tuple[str, str], str] = {}
    _collect(module, measure.__name__, seen)
    versions = (version(name) for name in LIBRARIES)
    digest = hashlib.sha256("\n".join([*versions, *(seen[key] for key in sorted(seen))]).encode())
    for folder in HASHED:
        for path in sorted(folder.rglob("*.py")):
            place = path.relative_to(folder)
            if place.parts[0] not in ONLY_SHOWS:
                digest.update(place.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _collect(module: ModuleType, name: str, seen: dict[tuple[str, str], str]) -> None:
    key = module.__name__, name
    node = _definitions(module).get(name)
    if node is None or key in seen:
        return
    if isinstance(node, ast.ImportFrom):
        if (node.module or "").startswith(PACKAGE):
            original = next(a.name for a in node.names if (a.asname or a.name) == name)
            _collect(importlib.import_module(str(node.module)), original, seen)
        return
    seen[key] = ast.dump(node)
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            _collect(module, part.id, seen)


@cache
def _definitions(module: ModuleType) -> dict[str, ast.stmt]:
    """The statement that defines each name of a module."""
    found: dict[str, ast.stmt] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: node for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for part in (part for one in targets for part in ast.walk(one)):
                if isinstance(part, ast.Name):
                    found[part.id] = node
    return found
