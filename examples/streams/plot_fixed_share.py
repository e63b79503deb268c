"""
Moving targets without tuning
=============================

How fast does the target move? This is rarely known, and it may change.
:class:`~maxmargin.FixedShare` runs 34 learners side by side and takes a weighted vote. Learners
that err lose weight, but never all of it, so that they can recover later. The plots show which
learner led at which time, and that the vote is as good as the best learner in hindsight.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import FixedShare
from maxmargin.evaluate import progressive

# %%
# A linear target in ten dimensions with three ways to behave: it rests, though some labels are
# wrong, then it turns all the time, and then it rests again elsewhere.

random = np.random.default_rng(0)
PART = 3000
X = random.normal(size=(3 * PART, 10))
target, side = np.eye(10)[0], np.eye(10)[1]
angles = np.concatenate([np.zeros(PART), np.linspace(0, 3 * np.pi, PART), np.full(PART, 3 * np.pi)])
y = np.sum(X * (np.outer(np.cos(angles), target) + np.outer(np.sin(angles), side)), axis=1) > 0.0
wrong_label = (random.uniform(size=y.size) < 0.15) & (angles % np.pi == 0.0)
y = y ^ wrong_label

clf = FixedShare()
vote = progressive(clf, X, y, step=50)
experts = clf.expert_mistakes_
best = clf.experts_[np.argmin(experts)]
print(f"the vote: {vote.mistakes[-1]:,} mistakes in {len(y):,} rows")
print(f"the best of {experts.size} experts in hindsight: {experts.min():,}, {best}")
print(f"the median expert: {int(np.median(experts)):,}, the worst: {experts.max():,}")

# %%
# Which expert had the largest weight, when.

fig, ax = plt.subplots(figsize=(8.5, 4.5), layout="constrained")
clf.plot_leaders(ax)
ax.set_title("")
for change in (PART, 2 * PART):
    ax.axvline(change, color="tab:red", linestyle=":")
for part, what in enumerate(("the target rests", "it turns", "it rests again")):
    place = ((part + 0.5) * PART, 1.02)
    ax.annotate(what, place, xycoords=("data", "axes fraction"), ha="center", color="tab:red")
plt.show()

# %%
# The mistakes of all experts, and of the vote. None of the experts is the right one all the time.

fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.hist(experts, bins=30, color="0.7", label="experts")
ax.axvline(vote.mistakes[-1], color="tab:red", label="the vote")
ax.set(xlabel="mistakes on the whole stream", ylabel="number of experts")
ax.legend(frameon=False)
plt.show()
