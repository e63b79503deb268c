"""
Data on many machines
=====================

Data that exceed one machine are split into shards. In each round every shard answers one question,
and the answers add up to a Newton step and a certificate. The plot shows what is certified after
each round, and that more shards do not need more rounds. Here the shards are in one process;
:class:`maxmargin.dask.DaskClassifier` does the same with the workers of a cluster.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import MaxMargin
from maxmargin.distributed import Held, fit

# %%
# Rows with labels of which some 15 % are beyond any hyperplane.

random = np.random.default_rng(0)
normal = random.normal(size=20)
X = random.normal(size=(50_000, 20)) + 3.0
noise = 0.5 * np.linalg.norm(normal) * random.normal(size=len(X))
y = (X - 3.0) @ normal + noise > 0.0
whole = MaxMargin(soft_margin=1.0).fit(X, y)
print(whole.certificate_)

# %%
# The same rows in 1, 8, 64 and 512 shards. ``report`` is told what is certified after each round.

ratios, models = {}, {}
for count in (1, 8, 64, 512):
    parts = zip(np.array_split(X, count), np.array_split(y, count), strict=True)
    shards = [Held(k, f"part {k}", *part) for k, part in enumerate(parts)]
    told = []
    models[count] = fit(MaxMargin(soft_margin=1.0, tol=1e-6), shards, report=told.append)
    ratios[count] = [progress.ratio for progress in told]
    agreement = np.mean(models[count].predict(X) == whole.predict(X))
    print(f"{count:3} of them: {len(told)} rounds, {agreement:.2%} predicted as by one fit")

# %%
# What is left between margin and bound shrinks by Newton's steps: slowly, then all at once.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for (count, found), marker in zip(ratios.items(), "osD^", strict=True):
    rounds = np.arange(1, len(found) + 1)
    left = np.maximum(1.0 - np.array(found), 1e-16)
    ax.semilogy(rounds, left, marker=marker, label=f"{count} shard" + "s" * (count > 1))
ax.axhline(1e-3, color="grey", linestyle=":")
ax.annotate("certified 99.9 %", (1.0, 1e-3), (0, 4), textcoords="offset points", color="grey")
ax.set(xlabel="round", ylabel="1 − certified share of the margin")
ax.xaxis.get_major_locator().set_params(integer=True)
ax.legend()
plt.show()
