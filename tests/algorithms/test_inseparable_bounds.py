"""AMIRA and PA on rows that nothing separates: bounds on updates and mistakes.

A naive AMIRA runs on thousands of streams at once; `test_amira` holds the learner to it.
"""

import numpy as np
import pytest

from maxmargin import AMIRA, PassiveAggressive

STREAMS, TRIALS, FEATURES = 4000, 40, 3
# Of rows that were just projected onto margin 1.
ROUNDED = 1e-12


def random_streams(seed):
    """Rows of different lengths, labels of a random direction with noise, and these directions."""
    random = np.random.default_rng(seed)
    lengths = np.exp(0.7 * random.normal(size=(STREAMS, TRIALS, 1)))
    X = lengths * random.normal(size=(STREAMS, TRIALS, FEATURES))
    u = random.normal(size=(STREAMS, FEATURES))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    noise = random.choice([0.0, 0.1, 1.0], size=(STREAMS, 1)) * random.normal(
        size=(STREAMS, TRIALS)
    )
    y = np.where(np.einsum("std,sd->st", X, u) + noise > 0.0, 1.0, -1.0)
    return X, y, u


def naive_amira(X, y, epsilon):
    """Which trials of each stream bring an update, and which are mistakes."""
    w = np.zeros((len(X), X.shape[2]))
    updated, mistaken = np.zeros_like(y, dtype=bool), np.zeros_like(y, dtype=bool)
    for t in range(X.shape[1]):
        x = y[:, t, None] * X[:, t]
        margin = np.sum(w * x, axis=1)
        updated[:, t] = margin <= 1.0 - np.maximum(epsilon, ROUNDED)
        mistaken[:, t] = margin <= 0.0
        step = updated[:, t] * (1.0 - margin) / np.sum(x * x, axis=1)
        w += step[:, None] * x
    return updated, mistaken


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0])
def test_bounds_hold_on_random_streams(epsilon):
    X, y, u = random_streams(seed=int(10 * epsilon))
    updated, mistaken = naive_amira(X, y, epsilon)
    assert mistaken.sum() > 20_000
    norms = np.linalg.norm(X, axis=2)
    outputs = y * np.einsum("std,sd->st", X, u)
    for margin in (0.03, 0.3, 1.0, 3.0):
        relative = (np.maximum(0.0, margin - outputs) / norms) ** 2
        for s in range(0, STREAMS, 4):
            radius = norms[s, updated[s]].max()
            losses = {"squared_losses": float(relative[s, updated[s]].sum())}
            most = AMIRA.max_updates_inseparable(epsilon, radius, margin, **losses)
            fewest = AMIRA.max_mistakes(epsilon, radius, margin, **losses)
            assert updated[s].sum() <= most
            assert mistaken[s].sum() <= fewest <= most * (1.0 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
def test_separable_streams_have_few_mistakes(epsilon):
    X, _, u = random_streams(seed=7)
    outputs = np.einsum("std,sd->st", X, u)
    y = np.where(outputs > 0.0, 1.0, -1.0)
    _, mistaken = naive_amira(X, y, epsilon)
    margins, radii = np.abs(outputs).min(axis=1), np.linalg.norm(X, axis=2).max(axis=1)
    for made, radius, margin in zip(mistaken.sum(axis=1), radii, margins, strict=True):
        most = AMIRA.max_mistakes(epsilon, radius, margin)
        assert made <= most == pytest.approx((radius / margin) ** 2)
        assert PassiveAggressive.max_mistakes(radius, 1.0 / margin, None) == pytest.approx(most)


def test_orthogonal_rows_attain_the_bounds():
    rows = 16
    X, y = np.eye(rows)[np.newaxis], np.ones((1, rows))
    updated, mistaken = naive_amira(X, y, 1.0)
    assert updated.sum() == mistaken.sum() == rows
    best = 1.0 / np.sqrt(rows)
    for margin in (best, 1.5 * best, 2.0 * best):
        losses = {"squared_losses": rows * (margin - best) ** 2}
        assert AMIRA.max_updates_inseparable(1.0, 1.0, margin, **losses) == pytest.approx(rows)
    assert AMIRA.max_mistakes(0.3, 1.0, best) == pytest.approx(rows)
    assert PassiveAggressive.max_mistakes(1.0, 1.0 / best, None) == pytest.approx(rows)


def test_labels_in_turns_nearly_attain_the_bound_with_losses():
    X, y = np.ones((1, 1000, 1)), np.tile([1.0, -1.0], (1, 500))
    _, mistaken = naive_amira(X, y, 0.0)
    assert mistaken.sum() == 1000
    margins = np.geomspace(0.1, 100.0, 50)
    bounds = [
        AMIRA.max_mistakes(
            0.0, 1.0, gamma, squared_losses=500 * (max(0.0, gamma - 1.0) ** 2 + (gamma + 1.0) ** 2)
        )
        for gamma in margins
    ]
    assert 1000 <= min(bounds) <= 2010


def test_pa_and_amira_are_bounded_alike():
    for squared_losses in (0.0, 0.1, 5.0):
        margin = 0.3
        of_pa = PassiveAggressive.max_mistakes(
            2.0, 1.0 / margin, None, comparison=squared_losses / margin**2
        )
        of_amira = AMIRA.max_mistakes(0.0, 2.0, margin, squared_losses=squared_losses)
        assert of_pa == pytest.approx(of_amira)


@pytest.mark.parametrize(("multiclass", "k"), [("1-best", 1), ("k-best", 2), ("k-best", 3)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_several_classes(multiclass, k, epsilon):
    random = np.random.default_rng(k)
    classes = 4
    for seed in range(60):
        X = random.normal(size=(50, 3)) * np.exp(0.5 * random.normal(size=(50, 1)))
        U = random.normal(size=(classes, 3))
        U /= np.linalg.norm(U)
        y = (X @ U.T + (seed % 3) * 0.5 * random.normal(size=(50, classes))).argmax(axis=1)
        clf = AMIRA(epsilon=epsilon, multiclass=multiclass, k=k, fit_intercept=False)
        clf.partial_fit(X, y, classes=np.arange(classes))
        outputs = X @ U.T
        own = outputs[np.arange(50), y]
        outputs[np.arange(50), y] = -np.inf
        leads, norms = own - outputs.max(axis=1), np.linalg.norm(X, axis=1)
        for margin in (0.1, 0.5, 2.0):
            losses = float(((np.maximum(0.0, margin - leads) / norms) ** 2).sum())
            facts = (epsilon, np.sqrt(2.0) * norms.max(), margin)
            bounds = {"squared_losses": losses, "k": k}
            assert clf.n_updates_ <= AMIRA.max_updates_inseparable(*facts, **bounds)
            assert clf.n_mistakes_ <= AMIRA.max_mistakes(*facts, **bounds)


def test_a_smallest_norm_stands_for_all():
    of_each = AMIRA.max_mistakes(0.5, 1.0, 0.3, squared_losses=4.0)
    assert AMIRA.max_mistakes(0.5, 1.0, 0.3, squared_losses=1.0, smallest=0.5) == of_each
