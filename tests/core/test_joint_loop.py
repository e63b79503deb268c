"""The violations of one row: the heap of its rivals, and the smallest step that mends all gaps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_multiclass import hildreth, project_by_qp

from maxmargin.algorithms.amira import AMIRARule
from maxmargin.core.joint_loop import new_rivals, smallest_steps
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


def test_no_gaps_need_no_steps():
    assert smallest_steps(np.empty(0), 1.0).shape == (0,)


def test_gaps_are_left_as_they_are():
    gaps = np.array([0.5, 1.0, 0.1])
    smallest_steps(gaps, 2.0)
    np.testing.assert_array_equal(gaps, [0.5, 1.0, 0.1])


@given(gaps=some_gaps, xx=squares)
def test_compiled_steps_have_the_bits_of_their_meaning(gaps, xx):
    violations = new_rivals(gaps.size)
    violations.gaps[:] = np.sort(gaps)[::-1]
    total = violations.solve(gaps.size, xx)
    assert smallest_steps(violations.gaps, xx).tobytes() == violations.steps.tobytes()
    assert total == pytest.approx(violations.steps.sum(), rel=1e-12, abs=1e-12 / xx)


def drain(violations, own, rule, trial, drained):
    """Write the rivals of class ``own`` that come too close down, as they come; their number."""
    size, count = violations.challengers(own, rule, trial), 0
    while size > 0:
        drained[count] = violations.heap[0]
        count += 1
        size = violations.pop(size)
    return count


compiled_drain = Compiled(drain)


def drained(drain, violations, outputs, own, epsilon):
    """The rivals in the order in which they come."""
    violations.outputs[:] = outputs
    found, trial = np.full(outputs.size, -1), Trial(0.0, 1.0, 1.0, 1.0, 1, 0)
    count = drain(violations, own, AMIRARule(epsilon), trial, found)
    np.testing.assert_array_equal(violations.outputs, outputs)
    is_due = violations.least_margin(own) <= 1.0 - epsilon
    assert is_due == (count > 0)
    assert violations.worst(own, AMIRARule(epsilon), trial) == (found[0] if is_due else own)
    return found[:count].tolist()


either = pytest.mark.parametrize("drain", [drain, compiled_drain], ids=["plain", "compiled"])


@settings(deadline=None)
@given(outputs=few_outputs, data=st.data())
@either
def test_rivals_come_highest_first_and_of_equals_the_first_class(drain, outputs, data):
    own = data.draw(st.integers(0, outputs.size - 1))
    found = drained(drain, new_rivals(outputs.size), outputs, own, 0.1)
    above = outputs[own] - outputs <= 0.9
    assert found == [c for c in np.argsort(-outputs, kind="stable") if c != own and above[c]]
