"""Prediction sets whose coverage is kept on any stream of scores."""

import numpy as np
import pytest
from campaigns.coverage_on_streams import TARGETS, is_within_bounds, keeps_its_bounds
from hypothesis import given
from hypothesis import strategies as st
from reference_conformal import (
    CORRECTION,
    adaptive,
    scores_by_outputs,
    scores_by_probabilities,
    several_rates,
)

from maxmargin.certificates.coverage_bounds import coverage_bound, window_bound
from maxmargin.training import prediction_sets
from maxmargin.training.prediction_sets import follow_sets, new_tracker


# ------------------------------------------------------------------------------------------ theorem
def outputs_of_a_stream(kind, n, random):
    """Outputs of two classes and labels, of which one part does not go by the other for ever."""
    outputs, noise = random.normal(size=n), random.logistic(size=n)
    slope = np.full(n, random.uniform(0.0, 4.0))
    if kind == "abrupt":
        for stop in random.integers(0, n, size=3):
            slope[stop:] = random.uniform(-4.0, 4.0)
    elif kind == "slow":
        slope *= np.cos(np.arange(n) * random.uniform(0.0, 20.0) / n)
    elif kind == "growing":  # outputs grow or shrink by a factor of up to 1e6
        return outputs * 10.0 ** (np.linspace(0, 6, n) * random.choice([-1, 1])), noise > 0.0
    elif kind == "silent":
        return np.zeros(n), noise > random.normal()
    return outputs, slope * outputs + noise > 0.0


STREAMS = ["abrupt", "slow", "growing", "silent", "still"]


def test_coverage_keeps_its_bound_on_a_thousand_streams():
    """Of these, 950 with drift of many kinds, 50 with labels that know the set before."""
    random, kept, rows = np.random.default_rng(42), 0, 0
    for k in range(950):
        n, coverage = int(random.integers(200, 3000)), TARGETS[k % len(TARGETS)]
        outputs, labels = outputs_of_a_stream(STREAMS[k // 5 % len(STREAMS)], n, random)
        tracker, seen = new_tracker(coverage), np.empty((n, 2))
        order, codes = np.arange(n, dtype=np.int32), labels.astype(np.int32)
        follow_sets(tracker, outputs[:, None], bool(k % 2), codes, order, slice(None), 2, seen)
        kept += keeps_its_bounds(seen[:, 0], coverage)
        rows += n
    first = np.zeros(1, dtype=np.int32)
    for k in range(50):
        coverage, tracker = TARGETS[k % len(TARGETS)], new_tracker(TARGETS[k % len(TARGETS)])
        wants_error, outside = random.random(400) < (k % 3 + 1) / 3, []
        for n in range(400):
            evidence, is_odds = random.normal(size=(1, 3)), bool(k % 2)
            inside = prediction_sets.prediction_sets(tracker, evidence, is_odds, 3)[0]
            wished = np.flatnonzero(inside != wants_error[n])
            label = wished[0] if wished.size else 0
            codes = np.array([label], dtype=np.int32)
            follow_sets(tracker, evidence, is_odds, codes, first, slice(None), 3)
            outside.append(not inside[label])
        assert tracker.counts[1] == sum(outside)
        kept += keeps_its_bounds(np.array(outside), coverage)
    assert kept == 1000
    assert rows > 1_000_000


@pytest.mark.parametrize("k", [0, 7, 13, 16, 17])
def test_coverage_of_learners_keeps_its_bound(k):
    """A sample of tests/campaigns/coverage_on_streams.py, with mixtures and several classes."""
    assert is_within_bounds(k)


def test_the_bound_is_met_by_a_stream_that_never_has_its_label_inside():
    """An adversary wins until sets are full: then the level has fallen as far as it can."""
    outside, levels = adaptive(np.ones(400), 0.9, 0.1)
    rows = int(np.argmin(levels))
    off = abs(outside[:rows].mean() - 0.1)
    assert outside[:rows].any()
    assert off <= coverage_bound(rows, rate=0.1, start=0.1)
    assert off >= 0.1 * coverage_bound(rows, rate=0.1, start=0.1)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.5, 0.9, 0.99]),
    st.sampled_from([0.001, 0.03, 0.5, 3.0]),
)
def test_the_theorem_holds_for_the_reference_at_any_rate(seed, coverage, rate):
    random = np.random.default_rng(seed)
    scores = random.random(300) ** random.uniform(0.1, 10.0)
    outside, levels = adaptive(scores, coverage, rate)
    share = np.cumsum(outside) / np.arange(1, 301)
    bounds = [coverage_bound(t, rate=rate, start=1.0 - coverage) for t in range(1, 301)]
    assert (np.abs(share - (1.0 - coverage)) <= bounds).all()
    assert -rate <= levels.min() <= levels.max() <= 1.0 + rate


def test_any_2000_rows_are_within_two_points():
    assert window_bound(2000, rate=CORRECTION) <= 0.02 + 1e-12
    assert prediction_sets.CORRECTION == CORRECTION


def test_bounds_say_what_is_wrong():
    with pytest.raises(ValueError, match="rate must be a positive number, got 0"):
        coverage_bound(10, rate=0, start=0.1)
    with pytest.raises(ValueError, match="start must be between 0 and 1, got 2"):
        coverage_bound(10, rate=0.1, start=2)
    assert coverage_bound(0, rate=0.1, start=0.1) == window_bound(0, rate=0.1) == np.inf


# ---------------------------------------------------------------------------------------- reference
@given(st.integers(0, 2**32 - 1), st.sampled_from(TARGETS), st.booleans(), st.integers(2, 5))
def test_sets_are_those_of_the_reference(seed, coverage, is_odds, classes):
    """Of more than two classes; those of two have one output."""
    random, n = np.random.default_rng(seed), 300
    outputs = 3.0 * random.normal(size=(n, 1 if classes == 2 else classes))
    outputs[random.random(n) < 0.1] = 0.0
    labels = random.integers(0, classes, size=n).astype(np.int32)
    if random.random() < 0.7 and classes > 2:
        labels = (outputs + random.normal(size=outputs.shape)).argmax(axis=1).astype(np.int32)
    scores, all_scores, scale = np.empty(n), np.empty((n, classes)), 0.0
    for i, row in enumerate(outputs):
        values = np.array([-row[0], row[0]]) if classes == 2 else row
        if is_odds:
            chances = 1.0 / (1.0 + np.exp(-values))
            all_scores[i] = scores_by_probabilities(chances / chances.sum())
        else:
            all_scores[i] = scores_by_outputs(values, scale)
            scale += (np.sort(values)[-1] - np.sort(values)[-2] - scale) / min(i + 1, 300)
        scores[i] = all_scores[i, labels[i]]
    outside, made, _ = several_rates(scores, coverage)
    tracker, seen = new_tracker(coverage), np.empty((n, 2))
    order = np.arange(n, dtype=np.int32)
    follow_sets(tracker, outputs, is_odds, labels, order, slice(None), classes, seen)
    # Scores that are rounded otherwise may be on the other side of a threshold that met them.
    if np.abs(all_scores - made[:, None]).min() > 1e-9:
        np.testing.assert_array_equal(seen[:, 0], outside)
        np.testing.assert_array_equal(seen[:, 1], (all_scores <= made[:, None]).sum(axis=1))
    if not is_odds:
        np.testing.assert_allclose(tracker.mean_lead, scale, rtol=1e-12)


@pytest.mark.parametrize("is_odds", [False, True])
def test_compiled_and_uncompiled_agree(is_odds):
    random, found, order = np.random.default_rng(3), [], np.arange(120, dtype=np.int32)
    evidence, codes = random.normal(size=(120, 3)), random.integers(0, 3, 120).astype(np.int32)
    for run in (prediction_sets.cover, prediction_sets.cover.plain):
        tracker, seen = new_tracker(0.8), np.empty((120, 2))
        buffers = tracker, np.empty(3), np.empty(3), seen
        run(evidence, is_odds, codes, order, 0, 3, prediction_sets.loss_rate(0.8), *buffers)
        found.append(np.concatenate([*tracker, seen.ravel()]))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


@pytest.mark.parametrize("size", [1e-300, 1e300, 1.7e308, np.inf, np.nan])
@pytest.mark.parametrize("is_odds", [False, True])
def test_any_scores_make_sets_of_finite_statistics(size, is_odds):
    evidence = np.where(np.arange(150).reshape(50, 3) % 2, size, -size)
    evidence[10:20], evidence[20:30] = 0.0, -size
    tracker, order = new_tracker(0.9), np.arange(50, dtype=np.int32)
    follow_sets(tracker, evidence, is_odds, order % 3, order, slice(None), 3)
    assert prediction_sets.what_is_wrong(tracker) == ""
    assert prediction_sets.prediction_sets(tracker, evidence, is_odds, 3).shape == (50, 3)


def test_drift_is_followed():
    """Labels become much noisier in the middle: sets grow, and every 500 rows have the coverage."""
    random, n = np.random.default_rng(0), 10_000
    outputs = random.normal(size=n)
    slope = np.where(np.arange(n) < 5000, 4.0, 0.5)
    labels = (slope * outputs + random.logistic(size=n) > 0.0).astype(np.int32)
    tracker, seen = new_tracker(0.9), np.empty((n, 2))
    order = np.arange(n, dtype=np.int32)
    follow_sets(tracker, 4.0 * outputs[:, None], True, labels, order, slice(None), 2, seen)
    shares = seen[:, 0].reshape(20, 500).mean(axis=1)
    assert np.abs(shares - 0.1).max() < 0.03
    assert seen[5000:, 1].mean() > seen[:5000, 1].mean() + 0.3
