"""Passes over rows for Newton's method on squared hinge losses, one or more problems at a time.

The slack t of a row is its goal minus its output ``y (w.x + b)``. Its loss is 0 for t <= 0, ``t^2``
up to a limit L, and ``2 L t - L^2`` beyond (the limit is infinite for the squared hinge loss).
Rows with a positive slack are *active*: they contribute to value and gradient, and those below the
limit to the Hessian. Line c of all arrays belongs to the problem ``first + c`` of the targets;
``lines`` selects lines.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.loop import SMALLEST_XX
from maxmargin.core.numba_backend import Compiled

# Newton's method for the length of a step ends when a change of the length is no more than that
# part of it: such a change squares the error. A whole step stays whole, but for rounding.
CLOSE, SAME = 1e-3, 1e-10


class Chosen(NamedTuple):
    """Some rows of some problems.

    numbers : which rows; slacks are in that order
    rows, targets, sample_weight : of all rows
    first : the first of the problems
    """

    numbers: np.ndarray
    rows: Any
    targets: Any
    sample_weight: np.ndarray
    first: int


@Compiled
def signed_outputs(chosen, lines, weights, out):  # type: ignore[no-untyped-def]
    """``out[c, n] = y (w.x + b)`` for the n-th row."""
    rows, numbers, targets = chosen.rows, chosen.numbers, chosen.targets
    for n in range(numbers.size):
        rows.prefetch(numbers, n)
        for c in lines:
            sign = targets.sign(numbers[n], chosen.first + c)
            out[c, n] = sign * rows.dot(numbers[n], weights, c)


@Compiled
def positive(chosen, lines, out):  # type: ignore[no-untyped-def]
    """``out[c, n]`` is true if the n-th row is positive."""
    for n in range(chosen.numbers.size):
        for c in lines:
            out[c, n] = chosen.targets.sign(chosen.numbers[n], chosen.first + c) > 0.0


@Compiled
def pulls(chosen, lines, slack, limit, sums, totals):  # type: ignore[no-untyped-def]
    """Sum the active rows times their slacks up to the limit, separately for both classes.

    Lines 2c and 2c + 1 are for the positive and the negative rows: ``sums`` has the vectors, and
    ``totals`` the sums of slacks, losses and the number of rows.
    """
    rows, numbers, sample_weight = chosen.rows, chosen.numbers, chosen.sample_weight
    for n in range(numbers.size):
        rows.prefetch(numbers, n)
        i = numbers[n]
        for c in lines:
            if slack[c, n] > 0.0:
                side = 2 * c if chosen.targets.sign(i, chosen.first + c) > 0.0 else 2 * c + 1
                within = min(slack[c, n], limit)
                mass = sample_weight[i] * within
                totals[side, 0] += mass
                totals[side, 1] += mass * (2.0 * slack[c, n] - within)
                totals[side, 2] += 1.0
                rows.add(i, sums, side, mass)


@Compiled
def along_steps(slack, change, chosen, lines, lengths, out):  # type: ignore[no-untyped-def]
    """Add ``sum s left^2`` and half its derivative by t, ``left = slack - t change``.

    ``change`` is what the whole step, t = 1, takes off the slacks; t is one of the lengths.
    """
    for c in lines:
        for n in range(chosen.numbers.size):
            s, by = chosen.sample_weight[chosen.numbers[n]], change[c, n]
            for k in range(lengths.size):
                left = slack[c, n] - lengths[k] * by
                if left > 0.0:
                    out[c, k, 0] += s * left * left
                    out[c, k, 1] -= s * left * by


class Objective(NamedTuple):
    """``penalty (slope t + curvature t^2 / 2)`` and half the losses of ``slack - t change``.

    penalty, slope, curvature : of the squared length of the weights along a step
    limit : slacks from which losses grow linearly
    """

    penalty: float
    slope: Any
    curvature: Any
    limit: float


@Compiled
def best_step(slack, change, sample_weight, numbers, along):  # type: ignore[no-untyped-def]
    """The t > 0 at which the `Objective` along a step is least.

    Its derivative is piecewise linear and grows: Newton's method finds the root in finitely many
    steps, kept between two points of different sign.
    """
    low, high, t, limit = 0.0, np.inf, 1.0, along.limit
    for _ in range(60):
        second = along.penalty * along.curvature
        first = along.penalty * along.slope + t * second
        for n in range(slack.size):
            # Without branches, which would be mispredicted.
            left = slack[n] - t * change[n]
            pull = sample_weight[numbers[n]] * change[n] if left > 0.0 else 0.0
            first -= pull * min(left, limit)
            second += pull * change[n] if left < limit else 0.0
        if first < 0.0:
            low = t
        else:
            high = t
        if first == 0.0:
            return t
        after = t - first / second if second > 0.0 else np.inf
        if abs(after - t) <= SAME * t:
            return t
        if abs(after - t) <= CLOSE * t:
            return after
        if not low < after < high:
            after = 0.5 * (low + high) if high < np.inf else 2.0 * t
        t = after
    return t


def best_steps(xp: Any, slack: Any, change: Any, counts: Any, along: Objective) -> Any:
    """`best_step` for all columns, by functions that devices have.

    ``along`` has a slope and a curvature for each.
    """
    limit, low = along.limit, xp.zeros(along.slope.shape)
    high, t = xp.full(along.slope.shape, np.inf), xp.ones(along.slope.shape)
    weighted = counts * change
    for _ in range(60):
        left = slack - t * change
        pull = xp.where(left > 0.0, weighted, 0.0)
        first = along.penalty * (along.slope + t * along.curvature)
        first = first - (pull * xp.minimum(left, limit)).sum(axis=0)
        second = along.penalty * along.curvature
        second = second + xp.where(left < limit, pull * change, 0.0).sum(axis=0)
        low, high = xp.where(first < 0.0, t, low), xp.where(first < 0.0, high, t)
        after = t - first / xp.maximum(second, 1e-300)
        over = ((abs(after - t) <= 1e-9 * t) & (second > 0.0)) | (first == 0.0)
        outside = ~((low < after) & (after < high))
        after = xp.where(outside, xp.where(high < np.inf, 0.5 * (low + high), 2.0 * t), after)
        t = xp.where(over, t, after)
        if bool(over.all()):
            break
    return t


@Compiled
def move(slack, change, t, limit):  # type: ignore[no-untyped-def]
    """``slack -= t change``; returns how many entered or left the range from 0 to the limit."""
    count = 0
    for n in range(slack.size):
        was_inside = 0.0 < slack[n] < limit
        slack[n] -= t * change[n]
        count += was_inside != (0.0 < slack[n] < limit)
    return count


@Compiled
def scatter(rows, numbers, sample_weight, sign, row, hessian):  # type: ignore[no-untyped-def]
    """Add ``sign * sample_weight * x x'`` of each row to the upper triangle.

    The columns of rows are in order; ``row`` has buffers for the columns and values of one.
    """
    columns, values = row
    for n in range(numbers.size):
        rows.prefetch(numbers, n)
        i = numbers[n]
        size = rows.entries(i, hessian)
        for k in range(size):
            columns[k], values[k] = rows.entry(i, k)
        for k in range(size):
            line, amount = columns[k], sign * sample_weight[i] * values[k]
            for other in range(k, size):
                hessian[line, columns[other]] += amount * values[other]


@Compiled
def leverages(rows, numbers, sample_weight, row, inverse, out):  # type: ignore[no-untyped-def]
    """Put ``sample_weight x' inverse x`` of the n-th row into ``out[n]``.

    Of the inverse, which is symmetric, the upper triangle is read; otherwise as in `scatter`.
    """
    columns, values = row
    for n in range(numbers.size):
        rows.prefetch(numbers, n)
        i = numbers[n]
        size, total = rows.entries(i, inverse), 0.0
        for k in range(size):
            columns[k], values[k] = rows.entry(i, k)
        for k in range(size):
            line, above = columns[k], 0.5 * values[k] * inverse[columns[k], columns[k]]
            for other in range(k + 1, size):
                above += values[other] * inverse[line, columns[other]]
            total += 2.0 * values[k] * above
        out[n] = sample_weight[i] * total


@Compiled
def gather(rows, numbers, sample_weight, center, block):  # type: ignore[no-untyped-def]
    """Put the rows, less ``center`` and times the root of their sample_weight, into ``block``."""
    for n in range(numbers.size):
        rows.prefetch(numbers, n)
        i = numbers[n]
        for j in range(block.shape[1]):
            block[n, j] = -center[j]
        for k in range(rows.entries(i, block)):
            column, value = rows.entry(i, k)
            block[n, column] += value
        root = np.sqrt(sample_weight[i])
        for j in range(block.shape[1]):
            block[n, j] *= root


@Compiled
def products(rows, numbers, width, line, out):  # type: ignore[no-untyped-def]
    """The products of all rows with each other, without the coordinate behind the features.

    ``line`` is a buffer for one row.
    """
    for n in range(numbers.size):
        for j in range(line.shape[1]):
            line[0, j] = 0.0
        rows.add(numbers[n], line, 0, 1.0)
        line[0, width] = 0.0
        for other in range(n + 1):
            out[n, other] = out[other, n] = rows.dot(numbers[other], line, 0)


@Compiled
def combine(rows, numbers, coefs, out):  # type: ignore[no-untyped-def]
    """Add the rows times their coefficients to ``out``, which has one line."""
    for n in range(numbers.size):
        rows.add(numbers[n], out, 0, coefs[n])


@Compiled
def along(rows, numbers, sample_weight, direction, out):  # type: ignore[no-untyped-def]
    """Add ``sample_weight (x.v) x`` of each row to ``out``; both arrays have one line."""
    for n in range(numbers.size):
        rows.prefetch(numbers, n)
        i = numbers[n]
        rows.add(i, out, 0, sample_weight[i] * rows.dot(i, direction, 0))


@Compiled
def diagonal(rows, numbers, sample_weight, out):  # type: ignore[no-untyped-def]
    """Add ``sample_weight x^2`` of each row to ``out``, which has one line."""
    for n in range(numbers.size):
        rows.prefetch(numbers, n)
        i = numbers[n]
        for k in range(rows.entries(i, out)):
            column, value = rows.entry(i, k)
            out[0, column] += sample_weight[i] * value * value


@Compiled
def squares(rows, numbers, out):  # type: ignore[no-untyped-def]
    """Put ``x.x`` of row i into ``out[i]``."""
    for n in range(numbers.size):
        out[numbers[n]] = rows.square(numbers[n])


class Dual(NamedTuple):
    """The dual of the problem in which the intercept b costs ``(b - a)^2 / (2 r)``.

    ridge : lambda with the squared hinge loss, else 0
    most : the largest coefficient of a row of weight 1
    intercept : r; 0 without an intercept
    """

    ridge: float
    most: float
    intercept: float


@Compiled
def ascend(chosen, lines, dual, xx, coefs, weights):  # type: ignore[no-untyped-def]
    """One pass of coordinate ascent on the dual, which optimises one coefficient after the other.

    ``xx[i]`` is the squared norm of row i with ``dual.intercept`` added, and ``coefs[c, i]`` its
    coefficient; ``weights`` follow.
    """
    rows, numbers, last = chosen.rows, chosen.numbers, weights.shape[1] - 1
    for n in range(numbers.size):
        rows.prefetch(numbers, n)
        i = numbers[n]
        counts = chosen.sample_weight[i]
        own, most = dual.ridge / counts, dual.most * counts
        whole = max(xx[i] + own, SMALLEST_XX)
        for c in lines:
            y, before = chosen.targets.sign(i, chosen.first + c), coefs[c, i]
            lacking = 1.0 - y * rows.dot(i, weights, c) - own * before
            after = min(max(before + lacking / whole, 0.0), most)
            if after != before:
                bias, change = weights[c, last], y * (after - before)
                rows.add(i, weights, c, change)
                weights[c, last] = bias + dual.intercept * change
                coefs[c, i] = after


class DualSystem(NamedTuple):
    """Signs and goals of rows, lambda over their sample weight, and the square of the coordinate
    that stands for the intercept.
    """

    signs: np.ndarray
    goals: np.ndarray
    own: np.ndarray
    intercept: float


@Compiled
def ascend_by_matrix(matrix, system, passes, coefs, outputs):  # type: ignore[no-untyped-def]
    """`ascend` for rows with a given kernel matrix; changes the coefficients and their outputs.

    Coefficients must not be negative. The intercept moves by ``system.intercept`` times the change
    of ``sum of y coefs``; that is taken into account, but not added to the outputs.
    """
    signs, goals, own, intercept, bias = (
        system.signs,
        system.goals,
        system.own,
        system.intercept,
        0.0,
    )
    for _ in range(passes):
        for i in range(signs.size):
            y, before = signs[i], coefs[i]
            lacking = goals[i] - y * (outputs[i] + bias)
            if lacking > 0.0 or before > 0.0:
                whole = matrix[i, i] + own[i] + intercept
                after = max(before + (lacking - own[i] * before) / whole, 0.0)
                if after != before:
                    coefs[i] = after
                    change = y * (after - before)
                    bias += intercept * change
                    for k in range(signs.size):
                        outputs[k] += change * matrix[i, k]
