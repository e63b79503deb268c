"""
A table with a rare class
=========================

One customer in thirty cancels. A model that always predicts "no" has an accuracy of 97 % and is
useless. This example learns from a raw table, and shows the effect of ``class_weight`` and which
metrics are informative.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import clone

from maxmargin import PassiveAggressive, streams
from maxmargin.evaluate import progressive

# %%
# A table as people have it: an identifier, a date, a category, amounts, and gaps.
# Who cancels depends on calls, amount and plan, and on chance.

random = np.random.default_rng(0)
ROWS = 12_000
plan = random.choice(["basic", "family", "trial"], ROWS, p=(0.6, 0.3, 0.1))
calls = random.poisson(1.2, ROWS)
spend = np.exp(random.normal(3.4, 0.6, ROWS))
tenure = random.gamma(2.0, 18.0, ROWS)
score = 0.9 * calls + 0.8 * (np.log(spend) - 3.4) - 0.03 * tenure + 1.5 * (plan == "trial")
score += random.logistic(0.0, 0.7, ROWS)
customers = pd.DataFrame(
    {
        "customer": [f"C{i:06}" for i in range(ROWS)],
        "since": (np.datetime64("2022-01-01") + random.integers(0, 900, ROWS)).astype(str),
        "plan": plan,
        "calls": calls,
        "spend": spend.round(2),
        "tenure": np.where(random.uniform(size=ROWS) < 0.05, np.nan, tenure.round(1)),
        "cancelled": np.where(score > np.quantile(score, 0.97), "yes", "no"),
    }
)
print(customers.head(3).to_string(index=False))

# %%
# A :class:`~maxmargin.streams.Recipe` finds out what each column is for and prepares it along the
# way. Both learners see the same rows, and predict each before they learn from it.

learners = {
    "as it comes": PassiveAggressive(C=0.01),
    "class_weight='balanced'": PassiveAggressive(C=0.01, class_weight="balanced"),
}
recipe = streams.Recipe(drop=["customer"])
rows = streams.open(customers, label="cancelled", recipe=recipe)
results = progressive(list(learners.values()), rows)
reports = {name: result.report() for name, result in zip(learners, results, strict=True)}

# %%
# Accuracy alone would choose the wrong model. The report adds the accuracy of predicting the
# largest class, and recall and precision for each class.


def measures(report):
    cancelling = next(one for one in report["classes"] if one["label"] == "yes")
    return {
        "accuracy": report["accuracy"],
        "balanced accuracy": report["balanced_accuracy"],
        "recall of cancellations": cancelling["recall"],
        "precision of cancellations": cancelling["precision"],
        "AUC": report["auc"],
    }


guess = reports["as it comes"]["largest_class"]
table = pd.DataFrame({name: measures(report) for name, report in reports.items()})
print(f"always predicting 'no' has an accuracy of {100 * guess:.1f} %")
print((100 * table).round(1).to_string())

fig, ax = plt.subplots(figsize=(8.5, 4.2), layout="constrained")
places = np.arange(len(table))
for shift, name, color in zip((-0.2, 0.2), table, ("tab:gray", "tab:green"), strict=True):
    bars = ax.barh(places + shift, 100 * table[name], height=0.38, color=color, label=name)
    ax.bar_label(bars, fmt="%.1f", padding=3, fontsize="small")
ax.axvline(100 * guess, color="tab:red", linestyle=":", label="always predicting 'no'")
ax.set_yticks(places, table.index)
ax.set(xlabel="%", xlim=(0, 112))
ax.invert_yaxis()
ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=3)
plt.show()

# %%
# How were the columns prepared? ``fit_stream`` keeps the recipe with the learner, which takes raw
# rows from then on.

clf = clone(learners["class_weight='balanced'"]).fit_stream(rows)
for column in clf.recipe_.columns_:
    print(f"{column['name']:10}{column['kind']:10}{column.get('missing', 0)} missing")
asked = customers.drop(columns="cancelled").head(2)
print(f"predicted for the first two customers: {clf.predict(asked).tolist()}")
