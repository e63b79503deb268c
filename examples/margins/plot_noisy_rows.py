"""
Rows with wrong labels
======================

A hard margin trusts every label. One wrong label can rotate the boundary, and a few can make the
rows inseparable. A soft margin tolerates wrong rows at a price, and sample weights express which
rows to doubt.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone

from maxmargin import PUMMA, MaxMargin, Perceptron

# %%
# Two groups that a line separates easily, and one row of the wrong group. The line that separates
# all of them is a strange one. The softer the margin of :class:`~maxmargin.MaxMargin`, the less it
# cares about a single row; and a row of weight 0 does not count at all.

random = np.random.default_rng(4)
X = np.concatenate(
    [random.normal((-2.0, 0.0), 0.6, (40, 2)), random.normal((2.0, 0.0), 0.6, (40, 2))]
)
y = np.repeat([0, 1], 40)
X = np.concatenate([X, [[-1.1, 2.2]]])
y = np.append(y, 1)
doubtful = np.ones(len(X))
doubtful[-1] = 0.0

fits = {
    "soft_margin = 0": MaxMargin(soft_margin=0).fit(X, y),
    "soft_margin = 1": MaxMargin(soft_margin=1.0).fit(X, y),
    "soft_margin = 30": MaxMargin(soft_margin=30.0).fit(X, y),
    "soft_margin = 0, row has weight 0": MaxMargin(soft_margin=0).fit(X, y, doubtful),
}
fig, axes = plt.subplots(2, 2, figsize=(7.5, 6), layout="constrained", sharex=True, sharey=True)
turned = {}
for ax, (name, clf) in zip(axes.flat, fits.items(), strict=True):
    (w,), (b,) = clf.coef_, clf.intercept_
    turned[name] = np.degrees(np.arctan2(abs(w[1]), abs(w[0])))
    at = np.linspace(-4.0, 4.0, 2)
    for level, style in ((0.0, "-"), (-1.0, "--"), (1.0, "--")):
        ax.plot((level - b - w[1] * at) / w[0], at, color="0.3", linestyle=style, linewidth=1)
    for label, color in enumerate(("tab:blue", "tab:orange")):
        ax.plot(*X[y == label].T, "o", color=color, markersize=4)
    ax.plot(*X[-1], "o", markerfacecolor="none", markeredgecolor="tab:red", markersize=12)
    ax.set(xlim=(-4, 4), ylim=(-3, 3))
    ax.set_title(name, fontsize="medium")
    print(f"{name:34} the boundary is turned by {turned[name]:4.1f} degrees")
for ax in axes[1]:
    ax.set_xlabel("first feature")
for ax in axes[:, 0]:
    ax.set_ylabel("second feature")
plt.show()

# %%
# Now many wrong labels: 20 features, and a share of the training labels is flipped. The plot shows
# the accuracy on new rows with true labels. For data in memory, a soft margin is best. The two
# Perceptrons see each row once, as on a stream: the last weights change with every wrong label, and
# their mean (``average=True``) does not.

target = random.normal(size=20)
X, X_new = random.normal(size=(3000, 20)), random.normal(size=(5000, 20))
clean, y_new = X @ target > 0.0, X_new @ target > 0.0
flipped = (0.0, 0.05, 0.1, 0.2, 0.3)
learners = {
    "MaxMargin()": MaxMargin(),
    "PUMMA(soft_margin=1.0)": PUMMA(soft_margin=1.0, max_iter=100_000, random_state=0),
    "Perceptron(average=True), one pass": Perceptron(average=True),
    "Perceptron(), one pass": Perceptron(),
}
right = {name: [] for name in learners}
for share in flipped:
    y = clean ^ (random.uniform(size=len(clean)) < share)
    for name, clf in learners.items():
        fitted = clone(clf)
        if "one pass" in name:
            fitted.partial_fit(X, y, classes=[False, True])
        else:
            fitted.fit(X, y)
        right[name].append(100.0 * fitted.score(X_new, y_new))

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for (name, values), marker in zip(right.items(), "os^v", strict=True):
    ax.plot([100 * share for share in flipped], values, marker=marker, label=name)
    print(f"{name:36}" + "".join(f"{value:7.1f}" for value in values))
ax.set(xlabel="training labels flipped, %", ylabel="accuracy on new rows, %")
ax.grid(alpha=0.3)
ax.legend(frameon=False)
plt.show()
