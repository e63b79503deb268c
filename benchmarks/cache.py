"""A fit with a kernel whose matrix is larger than `cache_size`, beside the same fit within it."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler

from benchmarks.harness import Contender, Floor, Key, Report, Scale, race, ratios, seconds
from benchmarks.passes import fit_quietly
from maxmargin import AMIRA

NAME = "cache"
QUESTION = "What does a fit with a kernel cost when the kernel matrix exceeds the cache?"

ROWS, FEATURES, CLASSES = 7500, 16, 26
ROUNDS = 3
# The parts of the kernel matrix that the cache has room for.
SHARES = {"just beyond the cache": 0.9, "far beyond the cache": 0.2}
WITHIN = "within the cache"


def letters(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows like those of the Letter data: 26 classes, 16 standardised features."""
    X, y = make_classification(
        n_samples=rows,
        n_features=FEATURES,
        n_informative=12,
        n_redundant=2,
        n_classes=CLASSES,
        n_clusters_per_class=1,
        class_sep=2.0,
        flip_y=0.0,
        random_state=0,
    )
    return StandardScaler().fit_transform(X), y


def run(scale: Scale) -> Report:
    rows = scale.rows(ROWS)
    X, y = letters(rows)
    case, contenders = f"{rows:,} rows", []
    for name, share in {WITHIN: 1.0, **SHARES}.items():
        megabytes = 4e-6 * share * rows**2  # kernel values are float32
        clf = AMIRA(kernel="rbf", kernel_dtype="float32", cache_size=megabytes, random_state=0)
        contenders.append(
            Contender(Key(case, name), lambda clf=clf: seconds(lambda: fit_quietly(clf, X, y)))
        )
    values = race(contenders, min(ROUNDS, scale.rounds))
    within = Key(case, WITHIN)
    floors = [
        Floor(f"{name} / {WITHIN}", "<=", 3.0, ratios(values, Key(case, name), within))
        for name in SHARES
    ]
    data = f"{rows:,} rows of {FEATURES} features, {CLASSES} classes"
    how = "Processor time of a whole fit of AMIRA with a Gaussian kernel."
    return Report(NAME, data, "s", values, floors, how=how)
