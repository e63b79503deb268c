"""The function behind the tuning of NORMA and TrackingALMA (Lemma 2 of the paper)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.algorithms.movingtargets import best_gap, error_bound

margins = st.floats(1e-3, 1e3)
losses = st.just(0.0) | st.floats(-12.0, 4.0).map(lambda power: 10.0**power)
constants = st.floats(-3.0, 6.0).map(lambda power: 10.0**power)


def errors(gap, margin, losses, constant):
    """What the proofs bound the errors by, for any gap between 0 and the margin."""
    return losses / (margin - gap) + constant / (gap * (margin - gap))


@given(margin=margins, losses=losses, constant=constants)
def test_gap_without_cancellation(margin, losses, constant):
    expected = margin / (1 + np.sqrt(1 + losses * margin / constant))
    assert best_gap(margin, losses, constant) == pytest.approx(expected, rel=1e-9)


@given(margin=margins, losses=losses, constant=constants)
def test_bound_is_the_value_at_the_gap(margin, losses, constant):
    gap = best_gap(margin, losses, constant)
    value = errors(gap, margin, losses, constant)
    assert error_bound(margin, losses, constant) == pytest.approx(value, rel=1e-9)


@given(margin=margins, losses=losses, constant=constants, part=st.floats(0.01, 0.99))
def test_no_other_gap_is_better(margin, losses, constant, part):
    limit = error_bound(margin, losses, constant)
    assert limit <= errors(part * margin, margin, losses, constant) * (1 + 1e-9)


def test_by_hand():
    assert best_gap(2.0, 3.0, 0.7) == pytest.approx(0.488547, abs=1e-6)
    assert error_bound(2.0, 3.0, 0.7) == pytest.approx(2.93282, abs=1e-5)
    assert best_gap(2.0, 0.0, 0.7) == 1.0
