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

clf, leaders = FixedShare(), []
looks = np.arange(50, y.size + 1, 50)
for stop in looks:
    clf.partial_fit(X[stop - 50 : stop], y[stop - 50 : stop], classes=[False, True])
    leaders.append(clf.weights_.argmax())
experts = clf.expert_mistakes_
best = clf.experts_[np.argmin(experts)]
print(f"the vote: {clf.n_mistakes_:,} mistakes in {len(y):,} rows")
print(f"the best of {experts.size} experts in hindsight: {experts.min():,}, {best}")
print(f"the median expert: {int(np.median(experts)):,}, the worst: {experts.max():,}")

# %%
# Which expert had the largest weight, when.

fig, ax = plt.subplots(figsize=(8.5, 4.5), layout="constrained")
shown, places = np.unique(leaders, return_inverse=True)
ax.plot(looks, places, ".")
ax.set_yticks(np.arange(shown.size), [str(clf.experts_[e]) for e in shown], fontsize="small")
ax.set_xlabel("trials")
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
ax.axvline(clf.n_mistakes_, color="tab:red", label="the vote")
ax.set(xlabel="mistakes on the whole stream", ylabel="number of experts")
ax.legend(frameon=False)
plt.show()
