"""
Mistakes that cost more than others
===================================

Classifying a tired driver as alert is worse than the reverse. ``AMIRA(costs=...)`` requires a
larger margin where a confusion is expensive, and learns all classes jointly. The confusion matrices
show that mistakes move to where they are cheap.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix

from maxmargin import AMIRA

# %%
# Three classes that overlap in the plane.

random = np.random.default_rng(0)
NAMES = ["alert", "unsure", "tired"]
centres = np.array([[-1.2, 0.0], [0.0, 1.2], [1.2, 0.0]])
y = random.integers(0, 3, 6000)
X = centres[y] + random.normal(0.0, 0.8, (len(y), 2))
learned, new = slice(0, 3000), slice(3000, None)

# %%
# Line: the true class, column: the rival. A tired driver (last line) must not be taken for an alert
# one (first column).

costs = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [8.0, 4.0, 0.0]])
learners = {
    "all confusions cost 1": AMIRA(average=True),
    "a tired driver costs 4 or 8": AMIRA(average=True, costs=costs),
}
missed, prices = {}, {}
fig, axes = plt.subplots(1, 2, figsize=(8.5, 4), layout="constrained")
for ax, (name, clf) in zip(axes, learners.items(), strict=True):
    clf.partial_fit(X[learned], y[learned], classes=[0, 1, 2])
    predicted = clf.predict(X[new])
    matrix = confusion_matrix(y[new], predicted)
    missed[name] = int(matrix[2, 0])
    prices[name] = int((matrix * costs).sum())
    ConfusionMatrixDisplay(matrix, display_labels=NAMES).plot(ax=ax, cmap="Blues", colorbar=False)
    ax.set_title(f"{name}\n(price of all mistakes: {prices[name]:,})", fontsize="medium")
    print(f"{name}: {missed[name]} tired drivers taken for alert ones, price {prices[name]:,}")
plt.show()
