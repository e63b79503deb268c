"""
A table in memory
=================

``MaxMargin(kernel="auto")`` takes columns in any units, numbers and categories alike, and chooses
its kernel, the scales of columns and the regularization itself. Here it stands beside trees, all
with default parameters.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from maxmargin import MaxMargin
from maxmargin.evaluate import ScalesDisplay
from maxmargin.streams import Recipe

# %%
# A generated table: whether customers leave depends on their use and calls, in a curved way, and on
# the plan. The other columns say nothing about it.

random = np.random.default_rng(0)
n = 1200
table = pd.DataFrame(
    {
        "usage_gb": random.gamma(2.0, 12.0, n),
        "calls": random.poisson(2.0, n),
        "tenure_months": random.integers(1, 72, n),
        "spend": random.normal(4200.0, 900.0, n),
        "age": random.integers(18, 90, n),
        "plan": random.choice(["basic", "plus", "family"], n),
        "city": random.choice(["Bern", "Rome", "Ulm", "York"], n),
    }
)
odds = 1.5 * np.abs(np.log(table.usage_gb / 20.0)) + 0.6 * table.calls - 2.6
odds += np.where(table["plan"] == "family", -1.5, 0.5) + random.normal(0.0, 0.5, n)
left = np.where(odds > 0.0, "leaves", "stays")
train, test, y_train, y_test = train_test_split(table, left, random_state=0)

# %%
# A :class:`~maxmargin.streams.Recipe` turns categories into numbers; nothing has to be scaled.

clf = make_pipeline(Recipe(), MaxMargin(kernel="auto", calibration="loo"))
indicators = make_column_transformer(
    (OneHotEncoder(sparse_output=False), ["plan", "city"]), remainder="passthrough"
)
contenders = {
    'MaxMargin(kernel="auto")': clf,
    "HistGradientBoosting": make_pipeline(
        indicators, HistGradientBoostingClassifier(random_state=0)
    ),
    "RandomForest": make_pipeline(indicators, RandomForestClassifier(random_state=0)),
}
losses, errors = {}, {}
for name, each in contenders.items():
    each.fit(train, y_train)
    errors[name] = 1.0 - each.score(test, y_test)
    losses[name] = log_loss(y_test, each.predict_proba(test))
    print(f"{name:24s}  error {100 * errors[name]:4.1f} %  log loss {losses[name]:.3f}")
print(clf[-1].certificate_)

# %%
# Which columns matter? A column with a small scale is hardly looked at.

display = ScalesDisplay.from_estimator(clf)
plt.show()
