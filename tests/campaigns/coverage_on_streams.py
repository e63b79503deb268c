"""Is the coverage of prediction sets within its proved bound, whatever the stream and the learner?

python tests/campaigns/coverage_on_streams.py 1000

Streams drift abruptly or slowly, or their labels are chosen by an adversary who knows the set.
`tests/estimator/test_prediction_sets.py` has as many without learners.
"""

import sys

import numpy as np

from maxmargin import AMIRA, NOCA, AutoMargin, ConformalClassifier, PassiveAggressive
from maxmargin.certificates.coverage_bounds import coverage_bound, window_bound
from maxmargin.evaluate import progressive
from maxmargin.training.prediction_sets import CORRECTION

TARGETS = [0.5, 0.8, 0.9, 0.95, 0.99]
# With the numbers of classes of their streams.
LEARNERS = [
    (AutoMargin(), 2),
    (AutoMargin(), 3),
    (PassiveAggressive(C=0.1), 2),
    (PassiveAggressive(C=0.1), 4),
    (AMIRA(), 3),
    (NOCA(), 3),
]
KINDS = ["abrupt", "slow", "adversarial"]


def keeps_its_bounds(outside, coverage):
    """Are all first rows, and all windows of some lengths, as the theorem says?"""
    n, errors = outside.size, np.concatenate([[0.0], np.cumsum(outside)])
    rows = np.arange(1, n + 1)
    bounds = [coverage_bound(t, rate=CORRECTION, start=1.0 - coverage) for t in rows.tolist()]
    kept = (np.abs(errors[1:] / rows - (1.0 - coverage)) <= bounds).all()
    for length in (10, 100, n // 2):
        shares = (errors[length:] - errors[:-length]) / length
        bound = window_bound(length, rate=CORRECTION)
        kept &= (np.abs(shares - (1.0 - coverage)) <= bound + 1e-12).all()
    return kept


def drifting(random, kind, rows, classes):
    """Rows, and the classes that a matrix of weights which moves gives them, with noise."""
    X = random.normal(size=(rows, 4))
    weights, others = random.normal(size=(2, classes, 4))
    if kind == "abrupt":
        share = np.arange(rows) >= random.integers(1, rows)
    else:
        share = 0.5 - 0.5 * np.cos(np.arange(rows) * random.uniform(2.0, 20.0) / rows)
    outputs = X @ weights.T + share[:, None] * (X @ (others - weights).T)
    return X, (outputs + random.uniform(0.0, 2.0) * random.normal(size=outputs.shape)).argmax(1)


def against_an_adversary(clf, random, rows, classes):
    """The rows that were outside, of labels inside or outside of the set as random has it."""
    X, outside = random.normal(size=(rows, 4)), np.zeros(rows, dtype=bool)
    wants_error = random.random(rows) < random.uniform(0.2, 1.0)
    for i in range(rows):
        inside = np.ones(classes, dtype=bool) if i == 0 else clf.predict_set(X[i : i + 1])[0]
        wished = np.flatnonzero(inside != wants_error[i])
        label = wished[0] if wished.size else random.integers(classes)
        clf.partial_fit(X[i : i + 1], [label], classes=range(classes))
        outside[i] = clf.coverage_.observed < 1.0 if i == 0 else not inside[label]
    return outside


def is_within_bounds(k):
    """Stream number k, of at least 300 rows."""
    random, coverage = np.random.default_rng(k), TARGETS[k % len(TARGETS)]
    (learner, classes), kind = LEARNERS[k % len(LEARNERS)], KINDS[k // len(LEARNERS) % len(KINDS)]
    clf = ConformalClassifier(learner, coverage=coverage)
    if kind == "adversarial":
        outside = against_an_adversary(clf, random, 300, classes)
    else:
        X, y = drifting(random, kind, int(random.integers(300, 3000)), classes)
        outside = ~progressive(clf, X, y, classes=range(classes)).covered
    seen = clf.coverage_
    is_said = seen.rows == outside.size and np.isclose(seen.observed, 1.0 - outside.mean())
    return bool(is_said and keeps_its_bounds(outside, coverage))


def main():
    streams = int(sys.argv[1])
    bad = [k for k in range(streams) if not is_within_bounds(k)]
    print(f"{len(bad)} of {streams} streams violate a bound: {bad[:10]}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
