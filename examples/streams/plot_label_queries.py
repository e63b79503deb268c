"""
Labels only where they matter
=============================

Rows are cheap, and labels often are not: somebody has to look. A label tells a learner the most
where it is in doubt. :class:`~maxmargin.LabelQueries` asks for the labels of rows near the margin
and keeps to a share of labels on every stream. Beside it, the same share of rows is drawn at
random.

The rows are those of Adult (does a person earn more than 50 000 dollars a year?) and of the second
half of the electricity prices, read from the folder named by ``MAXMARGIN_DATA``, or downloaded from
OpenML.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import AutoMargin, LabelQueries
from maxmargin.datasets import load_adult, load_electricity
from maxmargin.evaluate import progressive

X, y = load_electricity()
half = len(y) // 2
streams = {"Adult": load_adult(), "electricity": (X[half:], y[half:])}
shares, seeds = [0.03, 0.1, 0.3], range(3)

# %%
# Each row is predicted before the question whether to ask. The accuracy is that of all rows. A row
# of weight 0 is predicted, but not learned from: that makes the other half of the comparison.


def near_the_margin(X, y, share, seed):
    clf = LabelQueries(AutoMargin(), budget=share, random_state=seed)
    progress = progressive(clf, X, y)
    return progress.accuracy, progress.label_shares[-1]


def at_random(X, y, share, seed):
    drawn = np.random.default_rng(seed).random(len(y)) < share
    drawn[0] = True
    return progressive(AutoMargin(), X, y, sample_weight=drawn.astype(float)).accuracy, drawn.mean()


everything, found = {}, {}
for name, (X, y) in streams.items():
    everything[name] = progressive(AutoMargin(), X, y).accuracy
    for ways in (near_the_margin, at_random):
        each = [[ways(X, y, share, seed) for seed in seeds] for share in shares]
        found[name, ways.__name__] = np.mean(each, axis=1)  # accuracy and share, for each share
        for accuracy, share in found[name, ways.__name__]:
            title = ways.__name__.replace("_", " ")
            print(f"{name:12}{title:18}{100 * share:5.1f} % of the labels{100 * accuracy:7.2f} %")
    print(f"{name:12}{'all labels':40}{100 * everything[name]:7.2f} %")

# %%
# On Adult a tenth of the labels is nearly as good as all of them. The labels of electricity come in
# runs, which only a learner that sees most of them can follow.

fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, name in zip(axes, streams, strict=True):
    ax.axhline(100 * everything[name], color="gray", linestyle=":", label="all labels")
    for ways, title in (("near_the_margin", "near the margin"), ("at_random", "at random")):
        accuracy, share = found[name, ways].T
        ax.plot(100 * share, 100 * accuracy, marker="o", label=title)
    ax.set(xscale="log", xlabel="labels, % of rows", title=name)
    ax.set_xticks([3, 10, 30], labels=["3", "10", "30"])
axes[0].set_ylabel("accuracy, %")
axes[0].legend()
plt.show()
