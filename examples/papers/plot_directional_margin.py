"""
The directional margin, by bisection
====================================

A perceptron that requires a fixed margin either finds it or runs forever.
:class:`~maxmargin.BisectionPerceptron` therefore requests a margin halfway between what was found
and what is out of reach, and repeats; a certificate stops rounds that cannot succeed. The plots
show the rounds, and the effect of the column for the intercept on the margin.

P. Tsampouka and J. Shawe-Taylor, "Perceptron-like large margin classifiers".
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import BisectionPerceptron, MaxMargin
from maxmargin.datasets import make_separable

# %%
# The directional margin is that of rows with one more column, a constant, whose weight is the
# intercept. The best one is known here: :class:`~maxmargin.MaxMargin` solves for it, without an
# intercept of its own.

X, y = make_separable(150, 5, gap=2.0, random_state=0)
radius = np.linalg.norm(X, axis=1).max()


def best_directional(scaling):
    extended = np.column_stack([X, np.full(len(X), scaling)])
    return MaxMargin(soft_margin=0, fit_intercept=False).fit(extended, y).certificate_.margin


clf = BisectionPerceptron(precision=0.01, intercept_scaling=radius, random_state=0).fit(X, y)
best = best_directional(radius)
found = max(one.found for one in clf.rounds_ if one.found > 0.0)
print(f"{len(clf.rounds_)} rounds: found {found:.4f} of {best:.4f}, the best directional margin")
for one in clf.rounds_:
    print(f"asked for {one.beta:.4f}: {one.outcome}, {one.checks:,} rows looked at")

# %%
# Rounds that succeed lift what is known from below; those that are proved to be hopeless lower it
# from above. (The first round, which asks for any margin, is below the picture.)

looks = {
    "reached": ("^", "tab:green"),
    "hopeless": ("v", "tab:red"),
    "second stage": ("D", "tab:purple"),
    "given up": ("x", "tab:gray"),
}
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.axhline(best, color="0.4", linestyle=":", label=f"the best one, {best:.3f}")
number = np.arange(1, len(clf.rounds_) + 1)
for outcome, (marker, color) in looks.items():
    chosen = [one.outcome == outcome for one in clf.rounds_]
    if any(chosen):
        asked = [one.beta for one in clf.rounds_ if one.outcome == outcome]
        ax.plot(number[chosen], asked, marker, color=color, markersize=9, label=outcome)
ax.plot(number, [one.found for one in clf.rounds_], "_", color="0.2", markersize=16, label="found")
ax.set(xlabel="round", ylabel="directional margin asked for", xticks=number)
ax.set_ylim(0.7 * best, 1.15 * best)
ax.grid(alpha=0.3)
ax.legend(frameon=False, loc="lower right")
plt.show()

# %%
# The directional margin is not the geometric one, which has a free intercept. But the larger the
# constant of the extra column, the closer the best direction comes to it.

scalings = radius * 2.0 ** np.arange(-4, 4)
geometric = MaxMargin(soft_margin=0).fit(X, y).certificate_.margin
directional = np.array([best_directional(scaling) for scaling in scalings])
lost = 100.0 * (1.0 - directional / geometric)
print(f"lost with a column as large as the longest row: {np.interp(radius, scalings, lost):.1f} %")

fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
ax.plot(
    scalings / radius, directional / geometric, "o-", color="tab:blue", label="best directional"
)
least = 1.0 / np.sqrt(1.0 + (radius / scalings) ** 2)
ax.plot(scalings / radius, least, "--", color="tab:red", label="theory: at least")
ax.axhline(1.0, color="0.4", linestyle=":", label="best geometric")
ax.set(xscale="log", xlabel="constant of the extra column, in lengths of the longest row")
ax.set_ylabel("part of the geometric margin")
ax.grid(alpha=0.3)
ax.legend(frameon=False)
plt.show()
