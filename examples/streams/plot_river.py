"""
river's drift detectors
=======================

The target jumps every 3000 rows. A drift detector of `river <https://riverml.xyz>`_ monitors the
mistakes of a learner. When it detects a drift, the learner is reset, or learns faster from then on.
The plots compare these with a learner that simply continues.

It needs ``pip install "maxmargin[river]"``.
"""

import matplotlib.pyplot as plt
import numpy as np
from river import drift, evaluate, metrics, preprocessing, stream

from maxmargin import PassiveAggressive
from maxmargin.evaluate import Drift, ProgressiveDisplay, progressive
from maxmargin.river import classifier

random = np.random.default_rng(0)
rows, width, jumps = 12_000, 20, 4
X = random.standard_normal((rows, width))
weights = random.standard_normal((jumps, width))[np.arange(rows) * jumps // rows]
y = ((X * weights).sum(axis=1) > 0.0) ^ (random.random(rows) < 0.05)

# %%
# A small ``C`` averages the noise away, and is slow to forget. The detector,
# `ADWIN <https://riverml.xyz/latest/api/drift/ADWIN/>`_, compares the mistakes of late with those
# before.


def learn_faster(clf):
    clf.set_params(C=2.0 * clf.C)


actions = {
    "goes on": None,
    "reset": Drift(drift.ADWIN(), "reset"),
    "faster": Drift(drift.ADWIN(), learn_faster),
}
results = {
    name: progressive(PassiveAggressive(C=0.003), X, y, step=100, on_drift=action)
    for name, action in actions.items()
}
for name, result in results.items():
    print(f"{name:10} {100 * result.accuracy:.1f} % accuracy, drifts at {result.drifts.tolist()}")

# %%
# Dotted lines are the drifts that were detected.

ProgressiveDisplay.from_results(
    list(results.values()),
    names=list(results),
    window=500,
    ax=plt.subplots(layout="constrained")[1],
)
plt.show()

# %%
# The same learner in river: behind its scaler, in its loop, with its own class for such detectors.

model = preprocessing.StandardScaler() | drift.DriftRetrainingClassifier(
    classifier(PassiveAggressive(C=0.003)), drift.ADWIN(), train_in_background=False
)
found = metrics.Accuracy()
print(evaluate.progressive_val_score(stream.iter_array(X, y.tolist()), model, found))
