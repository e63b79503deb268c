"""
AMIRA: a large margin in few updates
====================================

:class:`~maxmargin.AMIRA` updates on each row whose margin is at most ``1 - epsilon``. This one
parameter ranges from a learner that corrects only mistakes to one that is nearly
passive-aggressive. The plots show how the margin grows with the updates, and compare theory and
practice.

K. Zhao and L. Huang, "Simple online learning with approximate max margin and fast convergence".
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import AMIRA, MaxMargin
from maxmargin.datasets import make_separable

# %%
# Points of a cube of ten dimensions around the origin, with a gap between the classes, and a column
# of ones for the intercept. The best margin comes from :class:`~maxmargin.MaxMargin`, which solves
# for it.

X, y = make_separable(2000, gap=0.15, random_state=0)
X = np.column_stack([X - 5.0, np.ones(len(X))])
best = MaxMargin(soft_margin=0, fit_intercept=False).fit(X, y).certificate_.margin
print(f"the best margin is {best:.4f}")


def run(epsilon):
    """Updates and shares of the best margin, at first after few rows and then after each pass."""
    clf = AMIRA(epsilon=epsilon, fit_intercept=False)
    pieces = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, len(X)]
    updates, shares = [0], [0.0]
    before = -1
    while updates[-1] > before:  # until a pass brings no update
        before = updates[-1]
        for start, stop in pairwise(pieces):
            clf.partial_fit(X[start:stop], y[start:stop], classes=[-1, 1])
            lowest = np.min(y * clf.decision_function(X))
            updates.append(clf.n_updates_)
            shares.append(lowest / np.linalg.norm(clf.coef_) / best)
        pieces = [0, len(X)]
    return updates, shares


# %%
# The smaller epsilon, the later the run ends, and the better.

epsilons = (1.0, 0.9, 0.7, 0.4, 0.1)
runs = {epsilon: run(epsilon) for epsilon in epsilons}
fig, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
colors = plt.colormaps["viridis"](np.linspace(0.85, 0.0, len(epsilons)))
for (epsilon, (updates, shares)), color in zip(runs.items(), colors, strict=True):
    ax.plot(updates, shares, color=color, linewidth=1, label=f"epsilon = {epsilon:g}")
    ax.plot(updates[-1], shares[-1], "o", color=color)
ax.axhline(1.0, color="0.5", linestyle=":")
ax.set(
    xscale="log",
    xlabel="updates",
    ylabel="margin, as a part of the best",
    xlim=(200, None),
    ylim=(-0.5, 1.05),
)
ax.grid(alpha=0.3)
ax.legend(frameon=False)
plt.show()

# %%
# The theorem promises at most half of the best margin, for any data, within so many updates.
# Practice is kinder.

radius = np.linalg.norm(X, axis=1).max()
reached = [runs[epsilon][1][-1] for epsilon in epsilons]
made = [runs[epsilon][0][-1] for epsilon in epsilons]
promised = [AMIRA.margin_fraction(epsilon) for epsilon in epsilons]
allowed = [AMIRA.max_updates(epsilon, radius, best) for epsilon in epsilons]
for row in zip(epsilons, promised, reached, allowed, made, strict=True):
    print(
        "epsilon {:g}: promised {:.2f}, reached {:.2f} of the best margin; "
        "at most {:,.0f} updates, made {:,}".format(*row)
    )

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for ax, theory, practice in ((left, promised, reached), (right, allowed, made)):
    ax.plot(epsilons, theory, "s--", color="tab:red", label="theorem")
    ax.plot(epsilons, practice, "o-", color="tab:green", label="measured")
    ax.set_xlabel("epsilon")
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
left.set_ylabel("margin, as a part of the best")
right.set(yscale="log", ylabel="updates")
plt.show()
