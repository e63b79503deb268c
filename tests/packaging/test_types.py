"""The public types, as a user's type checker sees those of the installed package."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import maxmargin

PACKAGE = Path(maxmargin.__file__).parent
PROGRAM = Path(__file__).with_name("typed_program.py")


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.2.0", reason="np.ndarray must be told its parameters"
)
def test_a_typed_program_passes_mypy(tmp_path, cache):
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_bytes(PROGRAM.read_bytes())
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "program.py"]
    found = subprocess.run(
        [*command, "--cache-dir", str(cache.mkdir("mypy"))],  # what it knows of NumPy takes long
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").is_file()
