"""What a new process waits for: the import, the first fit, and the command from start to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from benchmarks.harness import Floor, Key, Report, Scale, Values

NAME = "cold-start"
QUESTION = "How long does a new process wait for the import, the first fit and the command?"

PROCESSES = 5
# Learner, rows, and the seconds asked for the first fit with an empty cache.
FIRST_FITS = (
    ("Perceptron()", "dense", 3.0),
    ("Perceptron()", "sparse", 3.0),
    ("PUMMA()", "dense", 3.0),
    ("PUMMA(p=3.0)", "dense", 8.0),
)

IMPORTS = """
import json, time
times = [time.process_time()]
import sklearn
times.append(time.process_time())
import sklearn.linear_model
times.append(time.process_time())
import maxmargin
times.append(time.process_time())
print(json.dumps([after - before for before, after in zip(times, times[1:])]))
"""

FITS = """
import json, time
import numpy as np
from scipy import sparse
from maxmargin import PUMMA, Perceptron

random = np.random.default_rng(0)
X = random.standard_normal((200, 10))
y = np.where(X[:, 0] > 0, 1, 0)
X = sparse.csr_matrix(X) if {is_sparse} else X
learner = {learner}.set_params(max_iter=1)
times = []
for _ in range(2):
    began = time.process_time()
    learner.fit(X, y)
    times.append(time.process_time() - began)
print(json.dumps(times))
"""


def in_new_process(code: str, cache: str) -> list[float]:
    environment = os.environ | {"MAXMARGIN_CACHE_DIR": cache}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def processor_time(command: list[str], cache: str) -> float:
    """What a command takes from its start to its end."""
    environment, before = os.environ | {"MAXMARGIN_CACHE_DIR": cache}, os.times()
    subprocess.run(command, env=environment, capture_output=True, check=True)
    after = os.times()
    return after.children_user + after.children_system - before[2] - before[3]


def run(scale: Scale) -> Report:
    processes = min(PROCESSES, scale.rounds)
    values: Values = defaultdict(list)
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(processes):
            bare, linear_model, ours = in_new_process(IMPORTS, cache)
            values[Key("import", "sklearn")].append(bare)
            values[Key("import", "sklearn.linear_model after it")].append(linear_model)
            values[Key("import", "maxmargin after both")].append(ours)
    floors = [
        Floor("import maxmargin, s", "<=", 0.6, values[Key("import", "maxmargin after both")])
    ]
    for learner, rows, asked in FIRST_FITS:
        case = f"first fit of {learner}, {rows}"
        code = FITS.format(learner=learner, is_sparse=rows == "sparse")
        for _ in range(processes):
            with tempfile.TemporaryDirectory() as cache:
                fresh, _ = in_new_process(code, cache)
                second, warm = in_new_process(code, cache)
            values[Key(case, "first process, empty cache")].append(fresh)
            values[Key(case, "second process")].append(second)
            values[Key(case, "the same process again")].append(warm)
        floors.append(
            Floor(f"{case}, s", "<=", asked, values[Key(case, "first process, empty cache")])
        )
        more = difference(values, Key(case, "second process"), Key(case, "the same process again"))
        floors.append(Floor(f"{case}, second process, more than warm, s", "<=", 0.5, more))
    measure_command(processes, values)
    case, bare = "the command", Key("the command", 'python -c "import numpy, numba"')
    fit = Key(case, "maxmargin fit, code from the cache")
    floors.append(Floor("maxmargin fit, s", "<=", 0.9, values[fit]))
    more = difference(values, fit, bare)
    floors.append(Floor("maxmargin fit, more than the two imports, s", "<=", 0.5, more))
    how = "Processor time, in processes of their own, in turns."
    return Report(NAME, "200 rows of 10 features", "s", dict(values), floors, how=how)


def difference(values: Values, more: Key, less: Key) -> list[float]:
    return [a - b for a, b in zip(values[more], values[less], strict=True)]


def measure_command(processes: int, values: Values) -> None:
    """The command on a small file, beside what it cannot do without."""
    bare = [sys.executable, "-c", "import numpy, numba"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.svm"
        path.write_text("".join(f"{i % 2} {1 + i % 10}:{1 + i % 7}\n" for i in range(200)))
        fit = [sys.executable, "-m", "maxmargin", "fit", str(path), "--algorithm", "perceptron"]
        processor_time(fit, folder)  # fills the cache
        for _ in range(processes):
            values[Key("the command", 'python -c "import numpy, numba"')].append(
                processor_time(bare, folder)
            )
            values[Key("the command", "maxmargin fit, code from the cache")].append(
                processor_time(fit, folder)
            )
