"""
Endless digits
==============

A digit that is slightly rotated, shifted or bent is still the same digit, so training data are
unlimited: :func:`~maxmargin.datasets.make_endless_digits` generates digits while the learner
learns, and only those that cause an update are stored.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from maxmargin import AMIRA
from maxmargin.datasets import load_mnist, make_endless_digits

# %%
# MNIST if it is there, with deformations that suit its 28 by 28 pixels; otherwise the digits that
# come with scikit-learn, of 8 by 8 pixels, with smaller ones. Of both a few hundred to learn from.

if Path(os.environ.get("MAXMARGIN_DATA", "."), "mnist").is_dir():
    (X, y), (X_test, y_test) = load_mnist(), load_mnist("test")
    X, y, X_test, y_test = X[:1000], y[:1000], X_test[:2000], y_test[:2000]
    deformations = {}
else:
    X, y = load_digits(return_X_y=True)
    X, y, X_test, y_test = X[:300], y[:300], X[300:], y[300:]
    deformations = {"shift": 0.3, "elastic": 0.3, "smoothness": 1.5}
side, ink = int(np.sqrt(X.shape[1])), X.max()

# %%
# Above, one digit of each class; below, what is made of it.

shown = [np.flatnonzero(y == digit)[1] for digit in range(10)]
columns = []
for one in shown:
    stream = make_endless_digits(
        X[[one]], y[[one]], block_size=6, random_state=int(one), **deformations
    )
    made, _ = next(stream)
    pictures = np.vstack([X[[one]], made]).reshape(7, side, side)
    columns.append(np.pad(pictures, ((0, 0), (1, 1), (1, 1))).reshape(-1, side + 2))
picture = np.hstack(columns)

fig, ax = plt.subplots(figsize=(8, 5.6), layout="constrained")
ax.imshow(picture, cmap="gray_r", vmin=0, vmax=ink)
ax.axhline(side + 1.5, color="tab:red", linewidth=1)
ax.set(xticks=[], yticks=[], title="above the line: the originals")
plt.show()

# %%
# The same learner, first on the digits as they are, pass after pass, then on a stream of deformed
# ones. All digits that it has to start from are the same.

gamma = 0.04 / ink**2 * 28**2 / side**2
settings = {"epsilon": 0.5, "kernel": "rbf", "gamma": gamma, "fit_intercept": False}
plain = AMIRA(**settings, random_state=0).fit(X, y)
plain_error = 100 * np.mean(plain.predict(X_test) != y_test)

learner, seen, errors = AMIRA(**settings), [], []
stream = make_endless_digits(
    X, y, n_samples=10_000, block_size=1000, random_state=0, **deformations
)
for X_block, y_block in stream:
    learner.partial_fit(X_block, y_block, classes=np.arange(10))
    seen.append(1000 * (len(seen) + 1))
    errors.append(100 * np.mean(learner.predict(X_test) != y_test))
print(f"{len(y)} digits as they are: {plain_error:.2f} % wrong")
print(f"after {seen[-1]:,} deformed ones: {errors[-1]:.2f} %, {len(learner.support_):,} kept")

fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.plot(seen, errors, "o-", label="one pass over deformed digits")
ax.axhline(plain_error, color="tab:red", linestyle=":", label="the digits as they are")
ax.set(xlabel="digits seen", ylabel="wrong on new digits, %", ylim=(0, None))
ax.legend(frameon=False)
ax.grid(alpha=0.3)
plt.show()
