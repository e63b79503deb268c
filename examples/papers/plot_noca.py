"""
NOCA: Gaussians that appear where they are needed
=================================================

:class:`~maxmargin.NOCA` describes each class by a few Gaussians. A row whose class is not likely
enough creates a new one; every other row moves the nearest Gaussian of its class a little.
Boundaries can have any shape, memory is bounded, and predictions are probabilities.

M. Chi, H. He and W. Zhang, "Nonlinear online classification algorithm with probability margin".
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse

from maxmargin import NOCA, Perceptron
from maxmargin.evaluate import progressive

# %%
# A spiral of two arms, one row after the other.

random = np.random.default_rng(0)
y = random.integers(0, 2, 1000)
turn = 3.0 * np.pi * np.sqrt(random.uniform(0.03, 1.0, y.size))
X = np.column_stack([np.cos(turn), np.sin(turn)]) * (turn * (2 * y - 1))[:, None] / 3.0
X += random.normal(0.0, 0.12, X.shape)

across, up = np.meshgrid(np.linspace(-3.8, 3.8, 160), np.linspace(-3.8, 3.8, 160))
grid = np.column_stack([across.ravel(), up.ravel()])

# %%
# The probability of the red class after 60, 300 and 1000 rows, and the Gaussians, drawn at one
# standard deviation. Between the dashed lines the answer has not the margin that is asked for.

clf = NOCA(epsilon=0.5, max_components=80, random_state=0)
fig, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="compressed", sharey=True)
seen, components = 0, []
for ax, rows in zip(axes, (60, 300, 1000), strict=True):
    clf.partial_fit(X[seen:rows], y[seen:rows], classes=[0, 1])
    seen = rows
    components.append(len(clf.means_))
    chance = clf.predict_proba(grid)[:, 1].reshape(across.shape)
    shown = ax.contourf(across, up, chance, np.linspace(0, 1, 11), cmap="RdYlBu_r", alpha=0.75)
    edges = [0.5 - clf.rho_, 0.5 + clf.rho_]
    ax.contour(across, up, chance, edges, colors="0.2", linestyles="dashed", linewidths=0.8)
    for mean, variance in zip(clf.means_, clf.variances_, strict=True):
        ax.add_patch(Ellipse(mean, *(2.0 * np.sqrt(variance)), fill=False, color="0.2"))
    ax.plot(*X[max(0, rows - 300) : rows].T, ".", color="black", markersize=2.5)
    ax.set(
        aspect="equal", xlabel="first feature", title=f"{rows} rows, {len(clf.means_)} Gaussians"
    )
axes[0].set_ylabel("second feature")
fig.colorbar(shown, ax=axes, label="P(red class)", ticks=np.linspace(0, 1, 6))
plt.show()

# %%
# How many mistakes on the way? Each row is predicted before it is learned from. Beside it a kernel
# perceptron, which keeps every row that it mistook.

learners = [
    NOCA(epsilon=0.5, max_components=80),
    Perceptron(kernel="rbf", gamma=4.0, fit_intercept=False),
]
noca, perceptron = progressive(learners, X, y, step=5)
print(f"NOCA: {noca.mistakes[-1]} mistakes, {components[-1]} Gaussians")
print(f"Perceptron: {perceptron.mistakes[-1]} mistakes, {perceptron.supports[-1]} rows kept")

fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
ax.plot(noca.trials, noca.mistakes, label="NOCA")
ax.plot(perceptron.trials, perceptron.mistakes, label="Perceptron with a Gaussian kernel")
ax.set(xlabel="rows", ylabel="mistakes so far", ylim=(0, None))
ax.grid(alpha=0.3)
ax.legend(frameon=False)
plt.show()
