"""Every learner that takes rows as they come can be in `LabelQueries`."""

import numpy as np
from common.estimators import every_estimator

from maxmargin import LabelQueries

random = np.random.default_rng(11)
X = random.normal(size=(80, 3))
y = X[:, 0] + 0.5 * random.normal(size=80) > 0.2


def asking(Estimator):
    known = Estimator().get_params()
    given = {"random_state": 0} | ({"gamma": 0.5} if known.get("kernel") == "rbf" else {})
    learner = Estimator(**{name: value for name, value in given.items() if name in known})
    return LabelQueries(learner, budget=0.3, random_state=1)


@every_estimator
def test_blocks_and_rows_give_the_same_bits(Estimator):
    whole = asking(Estimator).partial_fit(X, y, classes=[False, True])
    parts, single = asking(Estimator), asking(Estimator)
    for start in range(0, 80, 7):
        rows = slice(start, start + 7)
        parts.partial_fit(X[rows], y[rows], classes=[False, True])
    for x, label in zip(X, y.tolist(), strict=True):
        if single.query_one(x):
            single.learn_one(x, label, classes=[False, True])
    for each in (parts, single):
        assert each.n_queries_ == whole.n_queries_ < 80
        assert each.decision_function(X).tobytes() == whole.decision_function(X).tobytes()
