"""`fit` needs the array it is given, and little more."""

import tracemalloc

import numpy as np
import pytest
from common.estimators import every_linear_estimator
from problems import three_classes
from scipy import sparse

ROWS, FEATURES, CLASSES = 20_000, 80, 3
# Weights, the vectors behind the certificate, and what is made of them for reading.
VECTORS = 8 * 8 * (FEATURES + 1) * CLASSES
# The search for the class number of each label; later that number, the order of the rows, and when
# each brought an update.
PER_ROW = 32
# Python objects, of any fit.
REST = 50_000


def limit(learner) -> int:
    experts = len(getattr(learner, "experts_", [learner]))
    return experts * VECTORS + PER_ROW * ROWS + REST


def peak(learner, X, y) -> int:
    """Bytes allocated at most at one time during a fit, beyond those from before."""
    tracemalloc.start()
    try:
        learner.fit(X, y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def stored(X) -> int:
    if sparse.issparse(X):
        return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    return X.nbytes


@every_linear_estimator
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
def test_fit_copies_no_rows(Estimator, convert):
    X, y = three_classes(n=ROWS, d=FEATURES)
    X = convert(X)
    learner = Estimator(max_iter=2, random_state=0)
    learner.fit(X, y)  # compiles, and Python keeps room for tuples that come again
    assert stored(X) > 5 * limit(learner)
    assert peak(learner, X, y) < limit(learner)
