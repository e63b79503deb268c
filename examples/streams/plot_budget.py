"""
Kernels in bounded memory
=========================

A kernel learner stores the rows it has learned from, and with noise their number grows without
bound. A budget limits it. The plots compare the mistakes of several strategies for a full budget,
and show how few rows suffice.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import ScalarFormatter

from maxmargin import Forgetron, PassiveAggressive, Projectron, RandomBudgetPerceptron
from maxmargin.evaluate import progressive

# %%
# A stream of points on a chessboard; one label in twenty is wrong. No learner can be right more
# often than in 95 % of the rows.

random = np.random.default_rng(0)
NOISE = 0.05
X = random.uniform(-2.0, 2.0, (4000, 2))
y = (np.floor(X).sum(axis=1) % 2 == 0) ^ (random.uniform(size=len(X)) < NOISE)

kernel = {"kernel": "rbf", "gamma": 4.0}
budgets = (10, 20, 40, 80, 160, 320)
ways = {
    "Forgetron: the oldest row goes": lambda budget: Forgetron(budget=budget, gamma=4.0),
    "RandomBudgetPerceptron: any row goes": lambda budget: RandomBudgetPerceptron(
        budget=budget, gamma=4.0, random_state=0
    ),
    "Projectron: new rows are projected": lambda budget: Projectron(budget=budget, gamma=4.0),
    "PassiveAggressive(C=0.1), projected": lambda budget: PassiveAggressive(
        C=0.1, budget=budget, on_full="project", **kernel
    ),
}
free = progressive(PassiveAggressive(C=0.1, **kernel), X, y, step=100)
errors = {}
for name, make in ways.items():
    runs = [progressive(make(budget), X, y, step=100) for budget in budgets]
    errors[name] = [100 * (1 - run.accuracy) for run in runs]
    print(f"{name:38}" + "".join(f"{error:6.1f}" for error in errors[name]))
last = runs[budgets.index(80)]
print(f"without a budget: {100 * (1 - free.accuracy):.1f} %, and {free.supports[-1]:,} rows kept")

# %%
# Left, mistakes on the way against the budget. Right, the rows that are kept: without a budget they
# grow with the stream.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.8), layout="constrained")
for (name, values), marker in zip(errors.items(), "os^D", strict=True):
    left.plot(budgets, values, marker=marker, label=name)
left.axhline(100 * (1 - free.accuracy), color="0.3", linestyle="--", label="without a budget")
left.axhline(100 * NOISE, color="0.6", linestyle=":", label="wrong labels")
left.set(xscale="log", xlabel="budget, rows", ylabel="mistakes, %", ylim=(0, None))
left.set_xticks(budgets, minor=False)
left.xaxis.set_major_formatter(ScalarFormatter())
left.minorticks_off()
left.grid(alpha=0.3)
fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
right.plot(free.trials, free.supports, "--", color="0.3", label="without a budget")
right.plot(last.trials, last.supports, color="tab:red", label="budget 80")
right.set(xlabel="rows of the stream", ylabel="rows kept")
right.grid(alpha=0.3)
right.legend(frameon=False)
plt.show()
