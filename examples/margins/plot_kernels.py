"""
Curved boundaries, certified
============================

With a kernel, an online learner learns curved boundaries, and its certificate holds in the space of
the kernel. From one row at a time, :class:`~maxmargin.PUMMA` reaches the boundary that a support
vector machine finds by solving a quadratic programme over all rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from maxmargin import PUMMA

X, y = make_moons(200, noise=0.12, random_state=1)
across, up = np.meshgrid(np.linspace(-1.6, 2.6, 200), np.linspace(-1.1, 1.6, 200))
grid = np.column_stack([across.ravel(), up.ravel()])

# %%
# Three widths of a Gaussian kernel. Filled: the side of the boundary that PUMMA gives to each
# class, with its supports ringed. Dashed: the boundary of ``SVC`` with a hard margin.

fig, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained", sharey=True)
agreement, ratios = [], []
for ax, gamma in zip(axes, (0.5, 3.0, 30.0), strict=True):
    clf = PUMMA(delta=0.01, kernel="rbf", gamma=gamma, max_iter=100_000, random_state=0).fit(X, y)
    svm = SVC(kernel="rbf", gamma=gamma, C=1e8).fit(X, y)
    ours, theirs = clf.decision_function(grid), svm.decision_function(grid)
    agreement.append(np.mean((ours > 0.0) == (theirs > 0.0)))
    ratios.append(clf.certificate_.ratio)
    print(
        f"gamma {gamma:4g}: {clf.certificate_}\n"
        f"            {len(clf.support_)} supports (SVC: {len(svm.support_)}), "
        f"the same side on {100 * agreement[-1]:.2f} % of the plane"
    )

    shown = ours.reshape(across.shape)
    ax.contourf(across, up, shown > 0.0, [-0.5, 0.5, 1.5], colors=["#d6e6f4", "#fde3cb"])
    ax.contour(across, up, shown, [0.0], colors="0.2")
    ax.contour(
        across, up, theirs.reshape(across.shape), [0.0], colors="tab:red", linestyles="dashed"
    )
    ax.plot(*X[clf.support_].T, "o", markerfacecolor="none", markeredgecolor="0.3", markersize=7)
    for label, color in enumerate(("tab:blue", "tab:orange")):
        ax.plot(*X[y == label].T, "o", color=color, markersize=3)
    ax.set(title=f"gamma = {gamma:g}", xlabel="first feature")
axes[0].set_ylabel("second feature")
plt.show()

# %%
# Each kernel has a space of its own, so margins for different ``gamma`` cannot be compared. What
# can be compared is the certified share, and what the boundary does with new rows.
