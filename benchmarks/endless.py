"""A stream of two million rows on a budget: do memory and rate stay what they were?"""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np

from benchmarks.harness import Floor, Key, Report, Scale, Values

NAME = "endless"
QUESTION = "Do memory and speed stay the same on a stream without end?"

ROWS = 2_000_000
PARTS = 20
BUDGET = 500
LEARNERS = {
    "Forgetron": f"Forgetron(budget={BUDGET}, gamma=0.1)",
    "random budget": f"RandomBudgetPerceptron(budget={BUDGET}, gamma=0.1, random_state=0)",
    "Projectron++": f"Projectron(budget={BUDGET}, gamma=0.1, threshold=0.01)",
    "NORMA": f"NORMA(kernel='rbf', gamma=0.1, rate=0.1, decay=0.01, budget={BUDGET})",
}

# In a process of its own. Each part of the stream has the same rows, so that it costs the same. The
# cost is compared with that of plain products of the rows, in turns with the learning, because the
# machine itself may become slower or faster in between.
CHILD = """
import json, time
from pathlib import Path
import numpy as np
from maxmargin import *

def resident():
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])

random = np.random.default_rng(0)
X = random.standard_normal(({rows}, 14))
y = ((X[:, 0] * X[:, 1] > 0.0) ^ (random.random({rows}) < 0.1)).astype(int)
clf = {learner}.partial_fit(X, y, classes=[0, 1])
np.exp(X[:1000] @ X[:1000].T)
memory, seconds, plain = [resident()], [], []
for _ in range({parts}):
    times = [0.0, 0.0]
    for start in range(0, {rows}, 1000):
        part = slice(start, start + 1000)
        began = time.perf_counter()
        clf.partial_fit(X[part], y[part])
        learned = time.perf_counter()
        np.exp(X[part] @ X[:1000].T)
        times[0] += learned - began
        times[1] += time.perf_counter() - learned
    seconds.append(times[0] / {rows})
    plain.append(times[1] / {rows})
    memory.append(resident())
print(json.dumps([memory, seconds, plain]))
"""


def run(scale: Scale) -> Report:
    rows = scale.rows(ROWS // PARTS)
    values: Values = {}
    floors: list[Floor] = []
    quality: dict[Key, float] = {}
    for name, learner in LEARNERS.items():
        code = CHILD.format(learner=learner, rows=rows, parts=PARTS)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        memory, seconds, plain = json.loads(done.stdout)
        case = f"{name}, budget {BUDGET}"
        values[Key(case, "maxmargin")] = seconds
        values[Key(case, "exponentials of products with 1000 rows")] = plain
        growth = (max(memory) - memory[0]) / 1e6
        floors.append(Floor(f"{name}: growth of memory, MB", "<=", 5.0, [growth]))
        relative, half = np.divide(seconds, plain), PARTS // 2
        change = np.median(relative[half:]) / np.median(relative[:half])
        floors.append(Floor(f"{name}: time of the second half / first", "<=", 1.1, [change]))
        quality[Key(case, "rows a second")] = 1.0 / float(np.median(seconds))
        quality[Key(case, "growth of memory, MB")] = growth
        quality[Key(case, "time of the second half / first")] = float(change)
    data = f"{PARTS * rows:,} rows of 14 features in {PARTS} equal parts"
    how = (
        "By the clock, in turns with plain products, by which the halves are compared. Growth of "
        "memory is that after the first part."
    )
    return Report(NAME, data, "s/row", values, floors, how=how, quality=quality)
