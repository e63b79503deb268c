"""
Labels of sequences
===================

If an output has parts that depend on each other, such as the labels of a sequence, there are too
many outputs for one weight vector each. Instead, a joint feature map describes a row and an output
together, and a decoder finds the best outputs. Learning needs nothing new: the requirement that the
true output y leads a wrong output z by 1 is a constraint on the difference of their features, and
`AMIRA` projects onto such constraints. Its theorems and its certificate hold for differences as
they do for rows.
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import AMIRA

# %%
# Sequences of ten symbols out of six, each with a label out of three. The joint features count how
# often a symbol comes with a label, and how often a label follows another one.

LABELS, SYMBOLS, LENGTH = 3, 6, 10


def joint_features(x, y):
    counts = np.zeros(LABELS * SYMBOLS + LABELS * LABELS)
    for symbol, own in zip(x, y, strict=True):
        counts[own * SYMBOLS + symbol] += 1.0
    for before, after in itertools.pairwise(y):
        counts[LABELS * SYMBOLS + before * LABELS + after] += 1.0
    return counts


def best_answers(w, x, k):
    """The k label sequences of the highest output, best first: Viterbi's algorithm."""
    emit = w[: LABELS * SYMBOLS].reshape(LABELS, SYMBOLS)
    follow = w[LABELS * SYMBOLS :].reshape(LABELS, LABELS)
    ends = [[(emit[label, x[0]], (label,))] for label in range(LABELS)]
    for symbol in x[1:]:
        ends = [
            sorted(
                (
                    (score + follow[path[-1], label] + emit[label, symbol], (*path, label))
                    for end in ends
                    for score, path in end
                ),
                reverse=True,
            )[:k]
            for label in range(LABELS)
        ]
    return [path for _, path in sorted(itertools.chain(*ends), reverse=True)[:k]]


# %%
# The data are made by weights that are planted: only sequences whose best answer leads the second
# by 1 are kept, so all can be labelled with a margin of ``1 / |w|`` at least. Symbols say little
# about labels, and the label before says much.

random = np.random.default_rng(0)
planted = random.normal(size=LABELS * SYMBOLS + LABELS * LABELS)
planted[LABELS * SYMBOLS :] *= 2.0
kept = []
while len(kept) < 160:
    x = random.integers(SYMBOLS, size=LENGTH)
    first, second = best_answers(planted, x, 2)
    if planted @ (joint_features(x, first) - joint_features(x, second)) >= 1.0:
        kept.append((x, first))
train, test = kept[:80], kept[80:]
planted_margin = 1.0 / np.linalg.norm(planted)

# %%
# In each step the decoder finds the three best wrong answers. AMIRA's k-best step is the shortest
# one after which the true answer leads all of them by 1 that came too close: a projection, which
# Hildreth's algorithm finds one constraint at a time. It goes along a mixture of their differences,
# and it is the step that AMIRA makes for the mixture as a row. So one row is learned for each
# sequence, and since a mixture is no longer than the longest difference and has no smaller margin,
# the bound on the number of updates and the certificate hold. There is no intercept, and one class
# only: every difference is to have an output of 1. When a pass brings no update, the true answer of
# each sequence leads all others by more than ``1 - epsilon``.

K, EPSILON = 3, 0.1


def differences(w, x, y):
    wrong = [z for z in best_answers(w, x, K + 1) if z != y][:K]
    return joint_features(x, y) - np.array([joint_features(x, z) for z in wrong])


def mixture(w, D):
    """The mixture of the differences that come too close, as a row; no row if none does."""
    D = D[D @ w <= 1.0 - EPSILON]
    steps, gaps, gram = np.zeros(len(D)), 1.0 - D @ w, D @ D.T
    before = np.ones(len(D))
    while np.abs(steps - before).max(initial=0.0) > 1e-13 * steps.max(initial=0.0):
        before = steps.copy()
        for z in range(len(D)):
            steps[z] = max(0.0, steps[z] + (gaps[z] - gram[z] @ steps) / gram[z, z])
    return (steps @ D / steps.sum())[np.newaxis] if len(D) else D


def lowest_margin(w):
    leads = [differences(w, x, y)[0] @ w for x, y in train]
    return min(leads) / np.linalg.norm(w)


def share_of_errors(w, pairs):
    return np.mean([np.not_equal(best_answers(w, x, 1)[0], y) for x, y in pairs])


clf = AMIRA(epsilon=EPSILON, fit_intercept=False)
w, radius, margins, bounds, errors = np.zeros(planted.size), 0.0, [], [], []
converged = False
while not converged:
    before = clf.n_updates_ if margins else 0
    for number in random.permutation(len(train)):
        D = differences(w, *train[number])
        radius = max(radius, np.linalg.norm(D, axis=1).max())
        row = mixture(w, D)
        if len(row):
            clf.partial_fit(row, [1.0], classes=[-1.0, 1.0])
            w = clf.coef_[0]
    converged = clf.n_updates_ == before
    margins.append(lowest_margin(w))
    bounds.append(clf.certificate_.bound)
    errors.append(share_of_errors(w, test))

most = AMIRA.max_updates(EPSILON, radius, planted_margin)
print(f"{clf.n_updates_} updates in {len(margins)} passes; the theorem allows {most:.0f}")
print(f"margin {margins[-1]:.4f}, and none is above {bounds[-1]:.4f}")

# %%
# A classifier of single positions, which sees the symbol and its two neighbours, cannot know which
# label came before.


def windows(pairs):
    codes = np.eye(SYMBOLS + 1)
    padded = np.array([[SYMBOLS, *x, SYMBOLS] for x, _ in pairs])
    X = np.concatenate([codes[padded[:, shift : shift + LENGTH]] for shift in range(3)], axis=2)
    return X.reshape(-1, X.shape[2]), np.concatenate([y for _, y in pairs])


alone = AMIRA(average=True)
X, y = windows(train)
for _ in range(len(margins)):
    alone.partial_fit(X, y, classes=range(LABELS))
single_errors = 1.0 - alone.score(*windows(test))
print(f"wrong labels: {single_errors:.1%} by position, {errors[-1]:.1%} by sequence")

# %%
# The best margin is between what is reached and the bound; that of the planted weights is below.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
passes = np.arange(1, len(margins) + 1)
left.plot(passes, bounds, label="bound on all margins")
left.plot(passes, margins, label="margin reached")
left.axhline(planted_margin, color="grey", linestyle=":", label="margin of the planted weights")
left.set(xlabel="pass", ylabel="margin")
left.legend()
right.plot(passes, 100.0 * np.array(errors), label="sequences")
right.axhline(100.0 * single_errors, color="grey", linestyle=":", label="single positions")
right.set(xlabel="pass", ylabel="wrong labels of test rows, %")
right.legend()
plt.show()
