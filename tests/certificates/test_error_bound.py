"""The expected error of predictions made before learning is at most its bound, under any drift."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin import AutoMargin, Perceptron
from maxmargin.certificates.error_bound import ErrorBound, error_bound, expected_losses
from maxmargin.evaluate import progressive

STREAMS, ROWS, DELTA = 2000, 400, 0.05


def steady(expected, losses):
    return np.full(STREAMS, 0.2)


def chasing(expected, losses):
    """Likely mistakes wherever fewer were observed than expected."""
    return np.where(losses < expected + 1.0, 0.5, 0.01)


def hiding(expected, losses):
    """Likely mistakes only after the first one was observed."""
    return np.where(losses > 0.0, 0.7, 0.02)


def rare(expected, losses):
    return np.full(STREAMS, 0.005)


def bounds(losses, delta):
    """The bound, as a formula over many streams."""
    j = np.arange(40)[:, None]
    rates = 0.5**j
    return np.min(
        (rates * losses + np.log((j + 1) * (j + 2) / delta)) / (1.0 - np.exp(-rates)), axis=0
    )


@pytest.mark.parametrize("nature", [steady, chasing, hiding, rare])
@pytest.mark.parametrize("graded", [False, True])
def test_bounds_hold_at_all_times_on_adaptive_streams(nature, graded):
    random = np.random.default_rng(0)
    expected, losses, broken = np.zeros(STREAMS), np.zeros(STREAMS), np.zeros(STREAMS, bool)
    for _ in range(ROWS):
        chance = nature(expected, losses)
        wrong = random.random(STREAMS) < (np.sqrt(chance) if graded else chance)
        losses = losses + wrong * (np.sqrt(chance) if graded else 1.0)
        expected = expected + chance
        broken |= expected > bounds(losses, DELTA)
    assert broken.mean() <= DELTA
    assert np.median(bounds(losses, DELTA) - expected) < 0.25 * ROWS  # it says something


def test_smaller_numbers_would_be_exceeded():
    """The count of mistakes alone bounds nothing."""
    random = np.random.default_rng(0)
    losses = (random.random((STREAMS, ROWS)) < 0.2).cumsum(axis=1)
    assert (0.2 * np.arange(1, ROWS + 1) > losses + 2.0).any(axis=1).mean() > 0.5


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.floats(1e-12, 0.999))
def test_formula(mistakes, others, delta):
    rows = mistakes + others
    if rows == 0:
        return
    found = error_bound(mistakes, rows, delta=delta)
    assert found.observed == mistakes / rows
    assert found.observed <= found.bound <= 1.0
    assert expected_losses(mistakes, delta) == pytest.approx(
        bounds(np.array([float(mistakes)]), delta)[0], rel=1e-6
    )
    assert found.bound * rows >= min(rows, expected_losses(mistakes, delta)) * (1.0 - 1e-15)


@given(st.floats(0.0, 1.0), st.integers(1, 10**9))
def test_printed_bounds_are_rounded_up(bound, rows):
    text = str(ErrorBound(observed=0.0, bound=bound, rows=rows, delta=0.05))
    assert float(re.search(r"at most ([\d.]+) %", text)[1]) >= 100.0 * bound * (1.0 - 1e-15)


def test_more_rows_and_less_certainty_give_smaller_bounds():
    shares = [error_bound(0.1 * rows, rows).bound for rows in (100, 1000, 10_000, 100_000)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 0.105
    assert error_bound(10, 100, delta=0.2).bound < error_bound(10, 100, delta=0.01).bound


def test_of_a_stream():
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 3))
    side = (X[:, 0] > 0.0).astype(int)
    flipped = random.random(600) < 0.1
    y = side ^ flipped
    progress = progressive(AutoMargin(), X, y)
    found = progress.error_bound(delta=0.1)
    assert found == error_bound(int(progress.wrong.sum()), 600, delta=0.1)
    assert progress.report()["error_bound"] == progress.error_bound().bound
    # Labels are right with a known probability: this is the expected error itself.
    # Given the row and all rows before it, a prediction is wrong with probability 0.1 or 0.9.
    against = progress.wrong ^ flipped
    assert np.where(against, 0.9, 0.1).mean() < found.bound < 0.3


def test_without_rows():
    found = progressive(Perceptron(), (), classes=[0, 1]).error_bound()
    assert (found.bound, found.rows, str(found)) == (1.0, 0, "no rows were predicted")
    assert np.isnan(found.observed)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, np.nan])
def test_bad_probabilities(delta):
    with pytest.raises(ValueError, match="delta must be between 0 and 1"):
        error_bound(1, 10, delta=delta)


@pytest.mark.parametrize("losses", [-1, 11, np.nan])
def test_bad_losses(losses):
    with pytest.raises(ValueError, match="losses must be between 0 and rows"):
        error_bound(losses, 10)
