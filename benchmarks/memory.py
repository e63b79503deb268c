"""How much memory `fit` takes on top of the data, at its peak."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict

import numpy as np
from scipy import sparse

from benchmarks.data import DENSE_ROWS, SPARSE_ROWS, dense_data, sparse_data
from benchmarks.harness import Key, Report, Scale, Spread, Values

NAME = "memory"
QUESTION = "How much memory does fit take on top of the data?"

PROCESSES = 3
LIBRARIES = {"maxmargin": "maxmargin", "scikit-learn": "sklearn.linear_model"}

# Each fit has a process of its own, which reads the data from files, so that making them leaves no
# trace, and imports and compiles before it starts to count.
CHILD = """
import json, sys, warnings
from pathlib import Path
import numpy as np
from scipy import sparse
from {library} import Perceptron

def peak():
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    import resource
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

def forget_peak():
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass

*parts, y = (np.load(path) for path in sorted(Path({folder!r}).glob("*.npy")))
X = parts[0] if len(parts) == 1 else sparse.csr_matrix(tuple(parts), (len(y), {width}))
warnings.simplefilter("ignore")
Perceptron(max_iter=2).fit(X[:100], y[:100])
forget_peak()
before = peak()
Perceptron(max_iter=2).fit(X, y)
print(json.dumps(peak() - before))
"""


def arrays_of(X: np.ndarray | sparse.csr_matrix) -> list[np.ndarray]:
    return [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]


def growth(library: str, folder: str, width: int) -> float:
    """Bytes by which a fit in a new process raises the peak of its resident memory."""
    code = CHILD.format(library=library, folder=folder, width=width)
    command = [sys.executable, "-c", code]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def run(scale: Scale) -> Report:
    values: Values = defaultdict(list)
    quality: dict[Key, float] = {}
    for case, (X, y) in {
        "dense": dense_data(scale.rows(DENSE_ROWS)),
        "sparse": sparse_data(scale.rows(SPARSE_ROWS)),
    }.items():
        size = sum(array.nbytes for array in arrays_of(X))
        values[Key(case, "the data themselves")] = [float(size)]
        with tempfile.TemporaryDirectory() as folder:
            for number, array in enumerate([*arrays_of(X), y]):
                np.save(f"{folder}/{number}.npy", array)
            for _ in range(min(PROCESSES, scale.rounds)):
                for name, module in LIBRARIES.items():
                    more = growth(module, folder, X.shape[1])
                    values[Key(case, f"{name}, growth")].append(more)
        for name in LIBRARIES:
            more = Spread.of(values[Key(case, f"{name}, growth")]).median
            quality[Key(f"{case}, {name}", "growth, % of the data")] = 100.0 * more / size
            quality[Key(f"{case}, {name}", "bytes a row")] = more / y.size
    data = "the rows of the first two questions"
    how = (
        "By how much a fit of the Perceptron raises the peak of resident memory, each in a process "
        "of its own that holds the data already."
    )
    return Report(NAME, data, "bytes", dict(values), how=how, quality=quality)
