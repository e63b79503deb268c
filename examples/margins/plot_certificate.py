"""
How a certificate closes in
===========================

An online learner can prove how good it is while it learns. Its margin grows, and the proved bound
on the margin of any boundary falls. The plots show how the two approach each other, and the
boundary at four points of the run.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import PUMMA
from maxmargin.datasets import make_separable

# %%
# Two classes in the plane, with an empty band between them. :class:`~maxmargin.PUMMA` gets them
# row by row, over and over, until nothing is left to correct. After each update we measure the
# margin, which is the distance from the boundary to the nearest row, and ask for the bound.

X, y = make_separable(60, 2, gap=0.6, random_state=3)
clf = PUMMA(delta=0.01)

updates, margins, bounds, boundaries = [], [], [], []
quiet, known = 0, 0
while quiet < len(X):
    for row, label in zip(X, y, strict=True):
        clf.learn_one(row, label, classes=[-1, 1])
        quiet += 1
        if clf.n_updates_ > max(known, 1):  # the first row alone makes no boundary
            quiet, known = 0, clf.n_updates_
            (w,), (b,) = clf.coef_, clf.intercept_
            updates.append(known)
            margins.append(np.min(y * (X @ w + b)) / np.linalg.norm(w))
            bounds.append(clf.certificate_.bound)
            boundaries.append((w, b))

ratio = margins[-1] / bounds[-1]
print(f"{updates[-1]} updates: margin {margins[-1]:.4f}, at most {bounds[-1]:.4f}")
print(f"The margin is at least {100 * ratio:.2f} % of the best possible one.")

# %%
# Four moments. The band is as wide as the margin on both sides of the boundary; where the margin is
# negative, some row is on the wrong side, and there is none. Below, the two curves: the truth is
# always between them.

fig, axes = plt.subplot_mosaic("abcd;eeee", figsize=(8.5, 5.5), layout="constrained")
moments = [0, 3, 12, len(updates) - 1]
for name, moment in zip("abcd", moments, strict=True):
    ax, (w, b), margin = axes[name], boundaries[moment], margins[moment]
    height = (np.stack(np.meshgrid(*[np.linspace(-1, 11, 300)] * 2), axis=-1) @ w + b) / np.hypot(
        *w
    )
    extent = {"extent": (-1, 11, -1, 11), "origin": "lower"}
    ax.contour(height, [0.0], colors="0.2", **extent)
    if margin > 0.0:
        ax.contourf(height, [-margin, margin], colors=["0.85"], **extent)
    for label, color in ((-1, "tab:blue"), (1, "tab:orange")):
        ax.plot(*X[y == label].T, "o", color=color, markersize=4)
    ax.set(xlim=(-0.5, 10.5), ylim=(-0.5, 10.5), aspect="equal", xticks=[], yticks=[])
    reached = f"margin {margin:.2f}" if margin > 0.0 else "not separated"
    ax.set_title(f"{updates[moment]} updates: {reached}", fontsize="small")

ax = axes["e"]
ax.plot(updates, bounds, color="tab:red", label="proved: no boundary has a margin above this")
ax.plot(updates, margins, color="tab:green", label="measured: the margin of the learner")
ax.fill_between(updates, np.maximum(margins, 0.0), bounds, color="0.9")
for moment in moments:
    ax.axvline(updates[moment], color="0.6", linestyle=":", linewidth=1)
ax.set(xscale="log", xlabel="updates", ylabel="margin", ylim=(0.0, 2.6 * bounds[-1]))
ax.legend(frameon=False)
plt.show()

# %%
# For data in memory no loop is needed: ``PUMMA(delta=0.01).fit(X, y)`` does the same,
# and ``certificate_`` has both numbers. :class:`~maxmargin.evaluate.MarginDisplay` draws the curves
# for any learner.
