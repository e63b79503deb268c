"""The tests of faults once more, in a process whose compiled loops check every index.

Loops do not, otherwise: an index that is wrong would be read or written all the same, and most such
errors show nowhere.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = (
    "test_refused_rows.py",
    "test_sparse_inputs.py",
    "test_streams_of_rows.py",
    "test_warm_starts.py",
    "../models/test_growth.py",
    "../algorithms/test_automargin.py",
    "../algorithms/test_automargin_rbf.py",
    "../streams/test_fuzzed_svmlight.py",
)

CHECKED = """
import sys
import numpy as np
import pytest
from maxmargin.core.targets import balance

try:
    balance(np.array([1000]), np.array([0]), np.zeros(3), np.ones(1))
except IndexError:
    print("indices are checked")
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_faults_with_indices_checked(tmp_path):
    files = [str((HERE / name).resolve()) for name in FILES]
    done = subprocess.run(
        [sys.executable, "-c", CHECKED, "-o", f"cache_dir={tmp_path}", "-n0", *files],
        env=os.environ | {"NUMBA_BOUNDSCHECK": "1", "PYTEST_ADDOPTS": ""},
        cwd=HERE.parents[1],
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.startswith("indices are checked\n")
    assert " passed" in done.stdout or "100%" in done.stdout
