"""How often does a drift alarm go off on streams without drift?

python tests/campaigns/false_alarms.py 10000          # exchangeable streams of 5000 rows

`python -m benchmarks guarantees` says how soon it goes off with one.
"""

import sys

import numpy as np

from maxmargin import PassiveAggressive
from maxmargin.evaluate import DriftAlarm
from maxmargin.evaluate.batching import StreamRows
from maxmargin.evaluate.nonconformity import nonconformity

ROWS = 5000


def exchangeable(random, rows=ROWS):
    """Rows of one distribution: two classes, more or less noise, of random sizes."""
    X = random.normal(size=(rows, 4)) * 10.0 ** random.uniform(-2.0, 2.0)
    noise = random.uniform(0.0, 2.0) * np.abs(X).mean() * random.normal(size=rows)
    return X, X[:, 0] - X[:, 1] + noise > 0.0


def has_alarm(seed, delta=0.01, rows=ROWS):
    """Does a copy, frozen after 500 rows of an exchangeable stream, raise any alarm on the rest?

    That is what `progressive` does up to the first alarm, without the learner's own pass.
    """
    X, y = exchangeable(np.random.default_rng(seed), rows)
    frozen = PassiveAggressive(C=0.1).partial_fit(X[:500], y[:500], classes=[False, True])
    alarm = DriftAlarm(delta, random_state=seed)
    alarm.update_many(nonconformity(frozen, StreamRows(X[500:], y[500:], None)))
    return alarm.n_alarms > 0


def sea(random, rows, changes):
    """The SEA concepts (Street and Kim 2001): a sum above a limit that changes, 10 % wrong."""
    X = random.uniform(0.0, 10.0, size=(rows, 3))
    limits = np.array([8.0, 9.5, 7.0, 9.0])[np.searchsorted(changes, np.arange(rows), "right") % 4]
    return X / 5.0 - 1.0, (X[:, 0] + X[:, 1] <= limits) ^ (random.random(rows) < 0.1)


def main():
    streams = int(sys.argv[1])
    alarms = sum(has_alarm(seed) for seed in range(streams))
    print(
        f"{alarms} of {streams} exchangeable streams of {ROWS} rows had an alarm: "
        f"{100 * alarms / streams:.2f} % (delta = 1 %)"
    )


if __name__ == "__main__":
    main()
