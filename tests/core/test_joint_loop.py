"""The violations of one row: its worst rivals, and the smallest step that mends all gaps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_multiclass import hildreth, project_by_qp

from maxmargin.algorithms.amira import AMIRARule
from maxmargin.core.joint_loop import new_rivals
from maxmargin.core.numba_backend import Compiled
from maxmargin.core.rule import Trial

# Steps of a thousandth, so that equal gaps and gaps of 0 are drawn, too.
some_gaps = st.lists(
    st.integers(-2000, 4000).map(lambda thousandths: thousandths / 1000), min_size=1, max_size=30
).map(np.array)
squares = st.floats(-3.0, 3.0).map(lambda power: 10.0**power)
few_outputs = st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=30).map(np.array)


def gram(count, xx):
    """The inner products of the constraints of one row."""
    return xx * (np.eye(count) + 1.0)


@Compiled
def solve(rivals, xx):
    return rivals.solve(0, rivals.outputs.size, xx)


def steps_for(gaps, xx, solve=solve):
    """The steps in the order of the gaps, and their sum."""
    rivals = new_rivals(gaps.size)
    rivals.outputs[:] = 0.0
    rivals.missing[:] = gaps
    count, total = solve(rivals, xx)
    steps = np.zeros(gaps.size)
    steps[rivals.taken[:count]] = rivals.steps[:count]
    return steps, total


def smallest_steps(gaps, xx):
    return steps_for(gaps, xx)[0]


@settings(max_examples=200, deadline=None)
@given(gaps=some_gaps, xx=squares)
def test_steps_are_those_of_the_quadratic_programme(gaps, xx):
    steps, size = smallest_steps(gaps, xx), np.abs(gaps).max() / xx
    by_qp = project_by_qp(gram(gaps.size, xx), gaps)
    np.testing.assert_allclose(steps, by_qp, rtol=0, atol=1e-9 * size)


@settings(max_examples=60, deadline=None)
@given(gaps=some_gaps, xx=squares)
def test_steps_are_those_of_hildreth(gaps, xx):
    steps, size = smallest_steps(gaps, xx), np.abs(gaps).max() / xx
    iterated = hildreth(gram(gaps.size, xx), gaps)
    np.testing.assert_allclose(steps, iterated, rtol=0, atol=1e-9 * size)


@given(gaps=some_gaps, xx=squares)
def test_all_gaps_are_closed_and_active_ones_exactly(gaps, xx):
    steps = smallest_steps(gaps, xx)
    margins = 1.0 - gaps + gram(gaps.size, xx) @ steps
    assert steps.min() >= 0.0
    assert margins.min() >= 1.0 - 1e-12
    np.testing.assert_allclose(margins[steps > 0.0], 1.0, rtol=0, atol=1e-12)
    assert steps.any() == (gaps.max() > 0.0)


@given(gaps=some_gaps, xx=squares, data=st.data())
def test_the_order_of_gaps_does_not_matter(gaps, xx, data):
    order = np.array(data.draw(st.permutations(range(gaps.size))))
    np.testing.assert_array_equal(smallest_steps(gaps[order], xx), smallest_steps(gaps, xx)[order])


@given(gap=st.floats(-1.0, 4.0), xx=squares)
def test_one_gap_is_closed_by_a_projection(gap, xx):
    assert smallest_steps(np.array([gap]), xx)[0] == pytest.approx(max(gap, 0.0) / (2.0 * xx))


@given(gap=st.floats(0.01, 4.0), count=st.integers(1, 30), xx=squares)
def test_equal_gaps_have_equal_steps(gap, count, xx):
    steps = smallest_steps(np.full(count, gap), xx)
    np.testing.assert_array_equal(steps, steps[0])
    assert steps[0] == pytest.approx(gap / ((count + 1) * xx), rel=1e-12)


@given(gaps=some_gaps, xx=squares)
def test_compiled_steps_have_the_bits_of_their_meaning(gaps, xx):
    steps, total = steps_for(gaps, xx)
    plain, sum_of_plain = steps_for(gaps, xx, solve.plain)
    assert (steps.tobytes(), total) == (plain.tobytes(), sum_of_plain)
    assert total == pytest.approx(steps.sum(), rel=1e-12, abs=1e-12 / xx)


def drain(rivals, own, rule, trial, drained):
    """Write the rivals of class ``own`` that come too close down, the worst first; their number."""
    rivals.find_gaps(own, rule, trial)
    count, rival = 0, rivals.worst(own)
    while rivals.missing[rival] > -np.inf:
        drained[count] = rival
        rivals.missing[rival] = -np.inf
        count, rival = count + 1, rivals.worst(own)
    return count


compiled_drain = Compiled(drain)
either = pytest.mark.parametrize("drain", [drain, compiled_drain], ids=["plain", "compiled"])


@settings(deadline=None)
@given(outputs=few_outputs, data=st.data())
@either
def test_rivals_come_highest_first_and_of_equals_the_first_class(drain, outputs, data):
    own, rivals = data.draw(st.integers(0, outputs.size - 1)), new_rivals(outputs.size)
    rivals.outputs[:] = outputs
    found, trial = np.full(outputs.size, -1), Trial(0.0, 1.0, 1.0, 1.0, 1, 0)
    count = drain(rivals, own, AMIRARule(0.1), trial, found)
    assert (rivals.least_margin(own) <= 0.9) == (count > 0)
    above = outputs[own] - outputs <= 0.9
    wanted = [c for c in np.argsort(-outputs, kind="stable") if c != own and above[c]]
    assert found[:count].tolist() == wanted
