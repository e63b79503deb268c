"""
Probabilities from a stream
===========================

A margin is not a probability. `AutoMargin` learns probabilities from the score that each row had
before it was learned, so no rows are held out. The plots compare them with the true ones, which are
known here, and with a sigmoid of the score of another learner.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.calibration import CalibrationDisplay
from sklearn.metrics import brier_score_loss

from maxmargin import AutoMargin, Perceptron

# %%
# Labels that are drawn by known chances.

random = np.random.default_rng(0)
X = random.normal(size=(16_000, 5))
truth = expit(1.7 * X[:, 0] + 0.8 * X[:, 1] - 0.5)
y = random.uniform(size=len(X)) < truth
learned, new = slice(0, 8_000), slice(8_000, None)

clf = AutoMargin().partial_fit(X[learned], y[learned], classes=[False, True])
probabilities = clf.predict_proba(X[new])[:, 1]
error = np.abs(probabilities - truth[new]).mean()
print(f"mean distance from the true probability: {error:.3f}")

# %%
# Left, what was predicted against how often it happened, on new rows. The score of a
# `Perceptron`, put through a plain sigmoid, is far too sure. Right, each predicted probability
# against the true one.

plain = Perceptron(average=True).partial_fit(X[learned], y[learned], classes=[False, True])
plain = expit(plain.decision_function(X[new]))
fig, (left, right) = plt.subplots(1, 2, figsize=(8.5, 4.2), layout="constrained")
scores = {}
for values, name, color in (
    (probabilities, "AutoMargin", "tab:green"),
    (plain, "sigmoid of the score", "tab:gray"),
):
    scores[name] = brier_score_loss(y[new], values)
    CalibrationDisplay.from_predictions(
        y[new], values, n_bins=12, name=name, ax=left, color=color, strategy="quantile"
    )
    print(f"{name}: Brier score {scores[name]:.4f}")
best = brier_score_loss(y[new], truth[new])
print(f"the true probabilities: Brier score {best:.4f}")
left.set(xlabel="predicted probability", ylabel="share that happened")
right.plot(truth[new][::8], probabilities[::8], ".", color="tab:green", markersize=3)
right.plot([0, 1], [0, 1], color="0.3", linestyle=":")
right.set(xlabel="true probability", ylabel="predicted probability", aspect="equal")
plt.show()

# %%
# How soon is it good?

counts = np.unique(np.geomspace(20, 8_000, 25).astype(int))
online = AutoMargin()
distances, seen = [], 0
for count in counts:
    online.partial_fit(X[seen:count], y[seen:count], classes=[False, True])
    distances.append(np.abs(online.predict_proba(X[new])[:, 1] - truth[new]).mean())
    seen = count

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.plot(counts, distances, "o-", color="tab:green", markersize=4)
ax.set(
    xscale="log", xlabel="rows learned from", ylabel="mean distance from the truth", ylim=(0, None)
)
ax.grid(alpha=0.3)
plt.show()
