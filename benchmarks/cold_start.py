"""What a new process waits for: the import, and the first fit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict

from benchmarks.harness import Floor, Key, Report, Scale, Values

NAME = "cold-start"
QUESTION = "How long does a new process wait for the import and the first fit?"

PROCESSES = 5
CASES = ("dense", "sparse")

IMPORTS = """
import json, time
times = [time.perf_counter()]
import sklearn
times.append(time.perf_counter())
import sklearn.linear_model
times.append(time.perf_counter())
import maxmargin
times.append(time.perf_counter())
print(json.dumps([after - before for before, after in zip(times, times[1:])]))
"""

FITS = """
import json, time
import numpy as np
from scipy import sparse
from maxmargin import Perceptron

random = np.random.default_rng(0)
X = random.standard_normal((200, 10))
y = np.where(X[:, 0] > 0, 1, 0)
X = sparse.csr_matrix(X) if {is_sparse} else X
times = []
for _ in range(2):
    began = time.perf_counter()
    Perceptron(max_iter=1).fit(X, y)
    times.append(time.perf_counter() - began)
print(json.dumps(times))
"""


def in_new_process(code: str, cache: str) -> list[float]:
    environment = os.environ | {"MAXMARGIN_CACHE_DIR": cache}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def run(scale: Scale) -> Report:
    processes = min(PROCESSES, scale.rounds)
    values: Values = defaultdict(list)
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(processes):
            bare, linear_model, ours = in_new_process(IMPORTS, cache)
            values[Key("import", "sklearn")].append(bare)
            values[Key("import", "sklearn.linear_model after it")].append(linear_model)
            values[Key("import", "maxmargin after both")].append(ours)
    for case in CASES:
        code = FITS.format(is_sparse=case == "sparse")
        for _ in range(processes):
            with tempfile.TemporaryDirectory() as cache:
                fresh, _ = in_new_process(code, cache)
                second, warm = in_new_process(code, cache)
            values[Key(f"first fit, {case}", "first process, empty cache")].append(fresh)
            values[Key(f"first fit, {case}", "second process")].append(second)
            values[Key(f"first fit, {case}", "the same process again")].append(warm)
    floors = [
        Floor("import maxmargin, s", "<=", 0.6, values[Key("import", "maxmargin after both")])
    ]
    for case in CASES:
        second, warm = (
            values[Key(f"first fit, {case}", who)]
            for who in ("second process", "the same process again")
        )
        more = [a - b for a, b in zip(second, warm, strict=True)]
        floors.append(Floor(f"second process, more than warm, {case}, s", "<=", 0.5, more))
    how = "By the clock, in processes of their own."
    return Report(NAME, "200 rows of 10 features", "s", dict(values), floors, how=how)
