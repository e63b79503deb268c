"""
How good is your LinearSVC?
===========================

A support vector machine seeks a large margin, but does not report how large it could have been.
:func:`maxmargin.certify` does, for any fitted linear classifier: it measures the margin on your
rows and proves a bound for all boundaries.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.svm import SVC, LinearSVC

import maxmargin

# %%
# Handwritten threes against eights. They can be separated by a hyperplane, so each classifier that
# does has a margin above 0.

X, y = load_digits(return_X_y=True)
chosen = (y == 3) | (y == 8)
X, y = X[chosen] / 16.0, y[chosen]

default = maxmargin.certify(LinearSVC(random_state=0).fit(X, y), X, y)
print(f"LinearSVC(): {default}")

# %%
# The larger C, the less slack is allowed, and the closer the margin should come to the best one. It
# does at first. Then it falls again, because the solver stops too early: with a smaller ``tol`` it
# gets there. No score on the training rows would have told, since all of them are right.

strengths = np.logspace(-2, 3, 11)
margins, bound = {}, np.inf
for tol in (1e-4, 1e-9):
    margins[tol] = []
    for C in strengths:
        svm = LinearSVC(C=C, tol=tol, dual=False, max_iter=100_000, random_state=0).fit(X, y)
        certificate = maxmargin.certify(svm, X, y, tol=0.001)
        margins[tol].append(certificate.margin)
        bound = min(bound, certificate.bound)
    print(f"tol={tol:g}: {100 * margins[tol][-1] / bound:.2f} % of the bound for the largest C")

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.axhspan(bound, 1.25 * bound, color="tab:red", alpha=0.12)
ax.axhline(bound, color="tab:red", label=f"no hyperplane has a margin above {bound:.4f}")
ax.axhline(0.0, color="0.6", linewidth=0.8)
ax.plot(strengths, margins[1e-9], "s-", color="tab:green", label="LinearSVC(C, tol=1e-9)")
ax.plot(
    strengths, margins[1e-4], "o--", color="tab:blue", label="LinearSVC(C), tol=1e-4 as it comes"
)
ax.set(xscale="log", xlabel="C", ylabel="margin on all rows", ylim=(None, 1.25 * bound))
ax.legend(loc="lower right")
plt.show()

# %%
# The same question to other classifiers. ``MaxMargin(soft_margin=0)`` is the hard margin, solved by
# Newton's method; ``PUMMA`` sees one row at a time.

classifiers = {
    "Perceptron()": Perceptron(random_state=0),
    "LinearSVC()": LinearSVC(random_state=0),
    "LogisticRegression()": LogisticRegression(max_iter=1000),
    "LogisticRegression(C=1000)": LogisticRegression(C=1000.0, max_iter=10_000),
    "SVC(kernel='linear', C=1000)": SVC(kernel="linear", C=1000.0),
    "maxmargin.PUMMA(delta=0.01)": maxmargin.PUMMA(delta=0.01, random_state=0),
    "maxmargin.MaxMargin(soft_margin=0)": maxmargin.MaxMargin(soft_margin=0),
}
shares = {}
for name, clf in classifiers.items():
    certificate = maxmargin.certify(clf.fit(X, y), X, y, tol=0.001)
    shares[name] = certificate.ratio
    print(f"{name:36}{certificate}")

fig, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
colors = ["tab:green" if name.startswith("maxmargin") else "tab:blue" for name in shares]
bars = ax.barh(list(shares), [100 * share for share in shares.values()], color=colors)
ax.bar_label(bars, fmt="%.2f", padding=3)
ax.set(xlim=(0, 114), xlabel="certified: at least so much of the best margin, %")
ax.invert_yaxis()
plt.show()

# %%
# A bar is a guarantee, so it may be short for two reasons: the margin is small, or the bound is
# weak. Here ``tol=0.001`` lets :func:`~maxmargin.certify` work on the bound until it is within a
# thousandth of the best margin.
