"""A stream of two million rows on a budget: do memory and rate stay what they were?"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.harness import Floor, Key, Report, Scale, Values

NAME = "endless"

ROWS = 2_000_000
PARTS = 20
BUDGET = 500
LEARNERS = {
    "Forgetron": f"Forgetron(budget={BUDGET}, gamma=0.1)",
    "random budget": f"RandomBudgetPerceptron(budget={BUDGET}, gamma=0.1, random_state=0)",
    "Projectron++": f"Projectron(budget={BUDGET}, gamma=0.1, threshold=0.01)",
    "NORMA": f"NORMA(kernel='rbf', gamma=0.1, rate=0.1, decay=0.01, budget={BUDGET})",
}

# In a process of its own. Each part of the stream has the same rows, so that it costs the same.
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
memory, seconds = [resident()], []
for _ in range({parts}):
    began = time.process_time()
    for start in range(0, {rows}, 1000):
        clf.partial_fit(X[start : start + 1000], y[start : start + 1000])
    seconds.append((time.process_time() - began) / {rows})
    memory.append(resident())
print(json.dumps([memory, seconds]))
"""


def run(scale: Scale) -> Report:
    rows = scale.rows(ROWS // PARTS)
    values: Values = {}
    floors, notes = [], []
    for name, learner in LEARNERS.items():
        code = CHILD.format(learner=learner, rows=rows, parts=PARTS)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        memory, seconds = json.loads(done.stdout)
        values[Key(f"{name}, budget {BUDGET}", "maxmargin")] = seconds
        growth = (max(memory) - memory[0]) / 1e6
        floors.append(Floor(f"{name}: growth of memory, MB", "<=", 5.0, [growth]))
        # Parts of a noisy machine's time: the middle of the first half against that of the second.
        half = PARTS // 2
        early, late = sorted(seconds[:half])[half // 2], sorted(seconds[half:])[half // 2]
        floors.append(Floor(f"{name}: time of the second half / first", "<=", 1.1, [late / early]))
        notes.append(
            f"{name}: {1e-6 * PARTS * rows:.2g} million rows, {1.0 / late:,.0f} rows a second, "
            f"memory grew by {growth:.2f} MB after the first part."
        )
    return Report(NAME, f"{PARTS} x {rows:,} x 14", "s", values, floors, notes=notes)
