"""
Which lambda?
=============

How soft should a margin be? If it is too hard, the boundary follows the noise of the training rows;
if it is too soft, it follows nothing. :class:`~maxmargin.MaxMargin` computes leave-one-out
predictions without refitting, so it knows the leave-one-out error of every lambda for the price of
a few fits.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import MaxMargin
from maxmargin.evaluate import PathDisplay

# %%
# 80 rows of 40 features, of which 10 matter, and many wrong labels; and 5 000 rows to ask.

random = np.random.default_rng(0)
X = random.normal(size=(5080, 40))
y = X[:, :10].sum(axis=1) + 3.0 * random.normal(size=5080) > 0.0
X, X_test, y, y_test = X[:80], X[80:], y[:80], y[80:]

path = MaxMargin().path(X, y, return_weights=True)
display = PathDisplay.from_path(path)

# %%
# The error on the rows that were fitted says little: it falls as lambda does. The leave-one-out
# error tells what to expect of new rows. The loss is smoother: ``soft_margin="auto"`` goes by it.


def errors(X, y):
    outputs = X @ path.coefs[:, 0].T + path.intercepts[:, 0]
    return 100.0 * ((outputs > 0.0) != y[:, None]).mean(axis=0)


fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
ax.plot(path.lambdas, errors(X, y), label="rows that were fitted")
ax.plot(path.lambdas, 100.0 * path.loo_error, label="the same rows, each left out")
ax.plot(path.lambdas, errors(X_test, y_test), label="new rows", color="black", linestyle="--")
ax.axvline(path.soft_margin, color="0.4", linestyle=":")
ax.set(xscale="log", xlabel="soft_margin (lambda)", ylabel="error, %")
ax.legend(frameon=False)

# %%
# The lambda that was chosen, what leaving rows out promises of it, and what it keeps:

clf = MaxMargin().fit(X, y)
promised = 100.0 * clf.path_.loo_error[clf.path_.best]
kept = 100.0 * (1.0 - clf.score(X_test, y_test))
print(f"lambda {clf.soft_margin_:.3g}, by {clf.path_.method}")
print(f"error: {promised:.1f} % of rows that were left out, {kept:.1f} % of new rows")
plt.show()
