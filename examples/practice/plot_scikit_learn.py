"""
With scikit-learn
=================

Learners are scikit-learn estimators: they work in pipelines, searches and learning curves. This
example searches for the soft margin, plots the weights, and prints the certificate of the best
model.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import MaxMargin
from maxmargin.evaluate import WeightsDisplay

# %%
# Breast cancer: 30 measurements of 569 tumours. A quarter of the rows is kept back.

cancer = load_breast_cancer()
labels = cancer.target_names[cancer.target]
X, X_new, y, y_new = train_test_split(cancer.data, labels, random_state=0, stratify=labels)

softness = np.logspace(-2, 4, 13)
search = GridSearchCV(
    make_pipeline(StandardScaler(), MaxMargin()), {"maxmargin__soft_margin": softness}, cv=5
)
search.fit(X, y)
accuracy = search.score(X_new, y_new)
clf = search.best_estimator_[-1]
print(f"best soft margin: {search.best_params_['maxmargin__soft_margin']:.3g}")
print(f"right on the rows that were kept back: {100 * accuracy:.1f} %")
print(clf.certificate_)

# %%
# The mean over five folds, and its deviation.

means = 100 * search.cv_results_["mean_test_score"]
spreads = 100 * search.cv_results_["std_test_score"]
fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
ax.plot(softness, means, "o-")
ax.fill_between(softness, means - spreads, means + spreads, alpha=0.2)
ax.axvline(search.best_params_["maxmargin__soft_margin"], color="tab:red", linestyle=":")
ax.set(xscale="log", xlabel="soft_margin", ylabel="right in cross-validation, %")
ax.grid(alpha=0.3)
plt.show()

# %%
# Which measurements count? :class:`~maxmargin.evaluate.WeightsDisplay` shows the largest weights of
# any linear classifier. All features are standardised, so weights can be compared.

display = WeightsDisplay.from_estimator(
    search.best_estimator_, n=12, feature_names=cancer.feature_names
)
plt.show()
