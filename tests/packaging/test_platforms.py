"""Systems that lack what POSIX has: modules are not imported, and flags are not asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import maxmargin

HERE = Path(__file__).parent
PACKAGE = Path(maxmargin.__file__).parent

PROGRAM = """
import importlib, os, sys
from pathlib import Path

for path in sorted(Path(sys.argv[1]).rglob("*.py")):
    parts = path.relative_to(Path(sys.argv[1]).parent).with_suffix("").parts
    name = ".".join(part for part in parts if part != "__init__")
    if not {"__main__", "river", "dask"} & set(parts):
        importlib.import_module(name)

from maxmargin import Perceptron, load, save
from maxmargin.datasets import make_separable

X, y = make_separable(50, 3, gap=1.0, random_state=0)
clf = Perceptron(random_state=0).fit(X, y)
assert clf.score(X, y) == 1.0
save(clf, "model.mm")
assert load("model.mm").predict_one(X[0]) == y[0]
"""


def test_the_package_works_without_modules_and_flags_of_posix(tmp_path):
    for package in ("starlette", "uvicorn", "typer", "pyarrow"):
        pytest.importorskip(package)
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    found = subprocess.run(
        [sys.executable, str(HERE / "no_posix.py"), "program.py", str(PACKAGE)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
