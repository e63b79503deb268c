"""
An SVM with a kernel, and nothing to tune
=========================================

:class:`~maxmargin.MaxMargin` with a kernel finds the boundary of a support vector machine from all
rows at once, and proves how close to the optimum it is. It can choose its soft margin and compute
probabilities by leave-one-out, without refitting.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from maxmargin import MaxMargin

X, y = make_moons(2200, noise=0.3, random_state=0)
X, X_test, y, y_test = X[:200], X[200:], y[:200], y[200:]
across, up = np.meshgrid(np.linspace(-1.8, 2.8, 150), np.linspace(-1.4, 1.9, 150))
grid = np.column_stack([across.ravel(), up.ravel()])

# %%
# With the hinge loss it is ``SVC``: ``soft_margin`` is ``1 / (2 C)``. Both boundaries are the same,
# and so are the rows that count; the certificate says how near the objective is to its optimum.

C = 1.0
hinge = MaxMargin(kernel="rbf", gamma=2.0, loss="hinge", soft_margin=1.0 / (2.0 * C)).fit(X, y)
svc = SVC(kernel="rbf", gamma=2.0, C=C).fit(X, y)
ours, theirs = hinge.decision_function(grid), svc.decision_function(grid)
agreement = np.mean((ours > 0.0) == (theirs > 0.0))
print(f"certified: the optimum is at least {hinge.certificate_.ratio:.4f} of the objective")
print(f"the same side on {100.0 * agreement:.2f} % of the plane")

# %%
# With the squared hinge loss, the default, leave-one-out errors follow from the system that a fit
# has solved anyway. They choose lambda, and ``calibration="loo"`` fits a sigmoid to leave-one-out
# scores.

auto = MaxMargin(kernel="rbf", gamma=2.0, calibration="loo").fit(X, y)
path = MaxMargin(kernel="rbf", gamma=2.0).path(X, y)
fits = [MaxMargin(kernel="rbf", gamma=2.0, soft_margin=each).fit(X, y) for each in path.lambdas]
errors = [100.0 * (1.0 - clf.score(X_test, y_test)) for clf in fits]
left_out = 100.0 * path.loo_error[path.best]
print(f"lambda {auto.soft_margin_:.3g}: {left_out:.1f} % of rows that were left out are wrong")
print(f"of new rows, {100.0 * (1.0 - auto.score(X_test, y_test)):.1f} % are")

# %%
# Left: the hinge loss, filled by sides, with support vectors ringed, and the boundary of ``SVC``
# dashed. Middle: errors for each lambda, and the one that was chosen. Right: probabilities.

fig, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
shape, sides = across.shape, ["#d6e6f4", "#fde3cb"]
left.contourf(across, up, ours.reshape(shape) > 0.0, [-0.5, 0.5, 1.5], colors=sides)
left.contour(across, up, ours.reshape(shape), [0.0], colors="0.2")
left.contour(across, up, theirs.reshape(shape), [0.0], colors="tab:red", linestyles="dashed")
left.plot(*X[hinge.support_].T, "o", markerfacecolor="none", markeredgecolor="0.4", markersize=6)
left.set(title="hinge loss, beside SVC", xlabel="first feature", ylabel="second feature")

middle.plot(path.lambdas, 100.0 * path.loo_error, label="rows, each left out")
middle.plot(path.lambdas, errors, color="black", linestyle="--", label="new rows")
middle.axvline(auto.soft_margin_, color="0.4", linestyle=":", label="chosen")
middle.set(xscale="log", xlabel="soft_margin (lambda)", ylabel="error, %", title="which lambda?")
middle.legend(loc="upper left")

chances = auto.predict_proba(grid)[:, 1]
shown = right.contourf(
    across, up, chances.reshape(shape), np.linspace(0.0, 1.0, 11), cmap="PuOr_r", alpha=0.6
)
fig.colorbar(shown, ax=right, ticks=[0.0, 0.5, 1.0])
right.set(title="probability of the second class", xlabel="first feature")
for ax in (left, right):
    for label, color in enumerate(("tab:blue", "tab:orange")):
        ax.plot(*X[y == label].T, "o", color=color, markersize=2.5)
plt.show()
