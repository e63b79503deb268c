"""Do `LabelQueries` keep what is proved, whatever the stream and the learner?

python tests/campaigns/label_queries.py 1000

Three things, of each stream: the labels asked for, after every row; what is proved of a Perceptron
with a fixed b on every path; and, with the answers of 200 independent samplers on the same stream,
its mean number of mistakes, which may exceed its bound by no more than four standard errors. Rows
are random, or an adversary chooses labels (or, for the share, rows) by what the learner predicts
and asks.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from reference_queries import inequality, perceptron_that_asks

from maxmargin import AMIRA, AutoMargin, LabelQueries, PassiveAggressive, Perceptron

BUDGETS = [0.01, 0.1, 0.3, 0.7, 1.0]
# With the numbers of classes of their streams.
LEARNERS = [(AutoMargin(), 2), (PassiveAggressive(C=0.1), 3), (AMIRA(), 3), (Perceptron(), 2)]
KINDS = ["random", "separable", "drifting", "adversarial"]
SAMPLERS = 200


def rows_of(random, kind, rows, classes):
    """Rows and labels; those of an adversary are chosen later."""
    X, (weights, others) = random.normal(size=(rows, 4)), random.normal(size=(2, classes, 4))
    share = np.linspace(0.0, 1.0, rows)[:, None] if kind == "drifting" else 0.0
    outputs = X @ weights.T + share * (X @ (others - weights).T)
    noise = 0.0 if kind == "separable" else random.uniform(0.0, 2.0)
    return X, (outputs + noise * random.normal(size=outputs.shape)).argmax(axis=1)


def keeps_its_share(random, k):
    """Are labels within their limits after every row, and learned as asked?"""
    (learner, classes), kind = LEARNERS[k % len(LEARNERS)], KINDS[k // len(LEARNERS) % len(KINDS)]
    budget = BUDGETS[k % len(BUDGETS)]
    X, y = rows_of(random, kind, 300, classes)
    clf, counts = LabelQueries(learner, budget=budget, random_state=k), []
    if kind == "adversarial":
        asked, far = False, 10.0 ** random.uniform(-3, 6)
        for x, label in zip(X, y.tolist(), strict=True):
            row = x * (1e-9 if random.random() < 0.3 and not asked else far)
            if asked := clf.query_one(row):
                if counts:  # the label that was not predicted
                    label = (int(clf.predict_one(row)) + 1) % classes
                clf.learn_one(row, label, classes=range(classes))
            counts.append(asked)
    else:
        seen = np.zeros((300, 2))
        order = np.arange(300, dtype=np.int32)
        clf.score_then_learn(X, y, order, range(classes), queries=seen)
        counts = seen[:, 0]
    total = np.cumsum(counts)
    limits = np.array([LabelQueries.label_limits(n, budget) for n in range(1, 301)])
    is_said = clf.n_queries_ == total[-1] and clf.n_rows_ == 300
    return is_said and (limits[:, 0] <= total + 1e-9).all() and (total <= limits[:, 1] + 1e-9).all()


def keeps_its_mistakes(random, k):
    """The theorem with a fixed b: on the path of the library, and in the mean of the reference."""
    kind, b = KINDS[k % len(KINDS)], 10.0 ** random.uniform(-2, 2)
    X, y = rows_of(random, kind, 100, 2)
    y = 2 * y - 1
    u = random.normal(size=4) * 10.0 ** random.uniform(-1, 1)
    clf = LabelQueries(Perceptron(fit_intercept=False), b=b, random_state=k)
    if kind == "adversarial":  # who knows the sampler of the library, but not the others
        y = opposed_labels(clf, X)
        clf = LabelQueries(Perceptron(fit_intercept=False), b=b, random_state=k)
    seen, order = np.zeros((100, 2)), np.arange(100, dtype=np.int32)
    scores, _ = clf.score_then_learn(X, y, order, [-1, 1], queries=seen)
    found = np.column_stack([scores[:, 0], seen[:, 1], seen[:, 0]])
    left, right, _ = inequality(X, y, u, found, b=b)
    if left > right * (1.0 + 1e-9):
        return False
    excess = [
        excess_of(X, y, u, perceptron_that_asks(X, y, random.random(100), b=b)[1], b)
        for _ in range(SAMPLERS)
    ]
    return np.mean(excess) <= 4.0 * np.std(excess) / np.sqrt(SAMPLERS)


def opposed_labels(clf, X):
    """Labels that are never predicted."""
    y = []
    for x in X:
        y.append(-int(clf.predict_one(x, classes=[-1, 1])))
        if clf.query_one(x):
            clf.learn_one(x, y[-1], classes=[-1, 1])
    return np.array(y)


def excess_of(X, y, u, found, b):
    """The mistakes on a path, less what the bound says for its losses."""
    mistaken = y * found[:, 0] <= 0.0
    losses = np.maximum(0.0, 1.0 - y * (X @ u))[mistaken & (found[:, 2] > 0.0)].sum()
    radius = np.sqrt((X * X).sum(axis=1).max())
    return mistaken.sum() - LabelQueries.max_mistakes(losses, np.linalg.norm(u), radius, b)


def is_within_bounds(k):
    random = np.random.default_rng(k)
    return bool(keeps_its_share(random, k) and keeps_its_mistakes(random, k))


def main():
    streams = int(sys.argv[1])
    bad = [k for k in range(streams) if not is_within_bounds(k)]
    print(f"{len(bad)} of {streams} streams violate a bound: {bad[:10]}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
