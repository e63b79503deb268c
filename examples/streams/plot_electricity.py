"""
Electricity prices that drift
=============================

Is the price of electricity above or below the average of the last 24 hours? The data are
half-hourly prices of the market of New South Wales in chronological order. What holds in one season
fails in the next, so a model that stops learning decays. The plots show by how much, and compare
with naive baselines.

The data are read from the folder named by ``MAXMARGIN_DATA``, or downloaded from OpenML.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import PassiveAggressive, Perceptron, streams
from maxmargin.datasets import load_electricity
from maxmargin.evaluate import progressive

X, y = load_electricity()
X = X[:, 1:]  # without the date, in which a frozen model would have to extrapolate
print(f"{len(X):,} rows, {X.shape[1]} features, {100 * np.mean(y == 'DOWN'):.1f} % DOWN")

# %%
# Each row is predicted before it is learned from. A :class:`~maxmargin.streams.Recipe` standardises
# the features along the way, by what has been seen so far.

learners = [PassiveAggressive(C=1.0), Perceptron()]
rows = streams.open(X, y, recipe=streams.Recipe())
reports = progressive(learners, rows, step=250)

# %%
# A third learner sees the first quarter of the stream and then stops learning.

quarter = len(X) // 4
frozen = PassiveAggressive(C=1.0).fit_stream(
    streams.open(X[:quarter], y[:quarter], recipe=streams.Recipe())
)
right = frozen.predict(X[quarter:]) == y[quarter:]

# %%
# Labels come in runs, so repeating the last label is a strong baseline. A learner is worth what it
# adds to that.

repeating = reports[0].report()["repeating"]
accuracy = {report.name: report.accuracy for report in reports}
accuracy["PassiveAggressive, first quarter only"] = right.mean()
accuracy["repeating the last label"] = repeating
for name, value in accuracy.items():
    print(f"{name:40}{100 * value:6.2f} % accuracy")

window = 2000
fig, ax = plt.subplots(figsize=(9, 4.4), layout="constrained")
for report in reports:
    ax.plot(
        report.trials, 100 * report.recent_accuracy(window), label=f"{report.name}, learning on"
    )
slid = np.convolve(right, np.ones(window) / window, mode="valid")
ax.plot(
    quarter + np.arange(window, len(right) + 1),
    100 * slid,
    color="tab:red",
    label="PassiveAggressive, stopped learning",
)
ax.axhline(100 * repeating, color="0.4", linestyle=":", label="repeating the last label")
ax.axvline(quarter, color="tab:red", linestyle=":", linewidth=1)
ax.set(xlabel="half hours", ylabel=f"right among the last {window:,}, %", ylim=(50, 100))
ax.grid(alpha=0.3)
ax.legend(loc="lower left", fontsize="small")
plt.show()
