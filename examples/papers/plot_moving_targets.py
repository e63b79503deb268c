"""
Moving targets: forget, and keep a margin
=========================================

When the target moves, old rows mislead. :class:`~maxmargin.NORMA` forgets a little in every trial,
and :class:`~maxmargin.TrackingALMA` keeps its weights in a ball. Both have mistake bounds against
any moving target. The plots show that forgetting helps, and that requiring a margin helps more.

J. Kivinen, A. Smola and R. Williamson, "Large margin classification for moving targets", 2002.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt

from maxmargin import NORMA, Perceptron, TrackingALMA
from maxmargin.datasets import make_drifting, make_switching
from maxmargin.evaluate import progressive

# %%
# Two classes in the plane, each a mixture of two Gaussians. They drift a little every 10 rows, or
# jump to new places every 1000. Here are three moments of the drifting stream.

TRIALS = 5000
streams = {
    "drifting": make_drifting(TRIALS, random_state=0),
    "switching": make_switching(TRIALS, random_state=0),
}
X, y = streams["drifting"]
fig, axes = plt.subplots(1, 3, figsize=(8.5, 3.5), layout="compressed", sharey=True)
for ax, start in zip(axes, (0, 1000, 2000), strict=True):
    rows = slice(start, start + 200)
    for label, color in ((-1, "tab:blue"), (1, "tab:orange")):
        ax.plot(*X[rows][y[rows] == label].T, "o", color=color, markersize=4, alpha=0.8)
    ax.set(aspect="equal", xlim=(-3.5, 3.5), ylim=(-3.5, 3.5), xlabel="first feature")
    ax.set_title(f"rows {start} to {start + 200}", fontsize="medium")
axes[0].set_ylabel("second feature")
plt.show()

# %%
# All learners have the same Gaussian kernel. With a margin of 0 they learn from mistakes only.

shared = {"kernel": "rbf", "gamma": 2.0, "fit_intercept": False}
learners = {
    "Perceptron": Perceptron(**shared),
    "NORMA, margin 0": NORMA(rate=1.0, decay=0.003, margin=0.0, **shared),
    "TrackingALMA, margin 0": TrackingALMA(rate=1.0, radius=1.5, margin=0.0, **shared),
    "NORMA, margin 0.7": NORMA(rate=1.0, decay=0.03, margin=0.7, **shared),
    "TrackingALMA, margin 0.5": TrackingALMA(rate=1.0, radius=3.0, margin=0.5, **shared),
}
styles = (
    ("0.3", "-"),
    ("tab:blue", "--"),
    ("tab:orange", "--"),
    ("tab:blue", "-"),
    ("tab:orange", "-"),
)

mistakes = {}
fig, axes = plt.subplots(1, 2, figsize=(8.5, 4), layout="constrained", sharey=True)
for ax, (stream, (X, y)) in zip(axes, streams.items(), strict=True):
    mistakes[stream] = {}
    for (name, clf), (color, line) in zip(learners.items(), styles, strict=True):
        result = progressive(type(clf)(**clf.get_params()), X, y, step=50)
        mistakes[stream][name] = int(result.mistakes[-1])
        ax.plot(result.trials, result.mistakes, color=color, linestyle=line, label=name)
    ax.set(xlabel="rows", title=f"{stream} target")
    ax.grid(alpha=0.3)
axes[0].set_ylabel("mistakes so far")
axes[0].legend(frameon=False, fontsize="small")
plt.show()

print(f"{'mistakes in ' + format(TRIALS, ',') + ' rows':26}" + "".join(f"{s:>12}" for s in streams))
for name in learners:
    print(f"{name:26}" + "".join(f"{mistakes[stream][name]:12}" for stream in streams))

# %%
# Decays, radii and margins were chosen for such streams. If you cannot choose,
# :class:`~maxmargin.FixedShare` does.
