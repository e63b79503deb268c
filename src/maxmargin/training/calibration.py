"""Probabilities by Platt's map from scores, fitted online to the score before each update.

For each problem, with a score s from before its row is learned, and the sign y of the row in it:

    level = the score of the mean of the last rows, by the same weights
    scale <- the mean of |s - level|, over the last rows
    x = (1, level / scale, (s - level) / scale)
    P(y = +1) = sigmoid(theta.x)
    theta <- that which minimises  -log P(y) + |theta - the one before|^2_H / 2
    H <- keep H + (1 - keep) I + (the second derivative of -log P(y))

This is one step of Newton's method on running sums, H, except that the last row counts exactly (an
implicit step), so that no outlier causes a step beyond its own minimum. H forgets, because scores
of old weights do not matter any more.

The weights of online learners swing from row to row, and all scores with them. The level measures
the present offset without any label, and theta how much of it counts. With weights w and the mean
m of rows it is w.m, updated in constant time: m moves a fraction of the way to a row, and w.m the
same fraction to the row's score; a step of w along a row changes w.m by the product of that row
and m.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from maxmargin.core.array_fields import aligned_zeros, with_width
from maxmargin.core.numba_backend import Compiled, bridge
from maxmargin.core.rows import NO_TAIL, DenseRows
from maxmargin.experts.logistic_step import wrong_after_step
from maxmargin.models.base import Model
from maxmargin.models.linear_model import LinearModel, read_only

# Effective numbers of rows for theta, and for the level and scale of scores. Chosen on Adult and
# electricity, see docs/probabilities.md.
WINDOW = 5000.0
RECENT = 300.0
# The relative precision of implicit steps.
PRECISION = 1e-12
# Scores and levels are clipped to these multiples of the scale.
LARGEST, LARGEST_LEVEL = 1e6, 10.0
# The scale of the mean is folded into it below this.
FADED = 1e-100
NO_WEIGHTS = np.empty(0)
NO_ODDS = np.empty((0, 0))
# Stands for the rows if no level is tracked.
NO_ROWS = DenseRows(read_only(np.empty((0, 0))), NO_TAIL)


class Maps(NamedTuple):
    """The map of each problem, and statistics of its scores.

    Attributes
    ----------
    theta : coefficients of 1, the level and the score
    curvature : H as ``L D L'``: D on the diagonal, unit triangular L below it
    levels : of the current weights, and of those that predict, which may be averaged
    scales : mean absolute difference of scores and level
    rows : number of rows so far
    mean, fading : the mean of recent rows is ``fading * mean``; empty if no level is tracked
    """

    theta: np.ndarray
    curvature: np.ndarray
    levels: np.ndarray
    scales: np.ndarray
    rows: np.ndarray
    mean: np.ndarray
    fading: np.ndarray

    def odds_of(self, c, score):
        """The log-odds of problem ``c`` for a score; see `log_odds`."""
        level, scale = self.levels[c, 1], self.scales[c]
        if not scale > 0.0:
            return self.theta[c, 0]
        lift = max(-LARGEST_LEVEL, min(LARGEST_LEVEL, level / scale))
        size = max(-LARGEST, min(LARGEST, (score - level) / scale))
        return self.theta[c, 0] + self.theta[c, 1] * lift + self.theta[c, 2] * size

    def learn_label(self, c, score, y, weight):
        """Update the map of problem ``c`` by a score and the sign ``y`` of its row."""
        H, theta, level = self.curvature, self.theta, self.levels[c, 1]
        self.scales[c] += (abs(score - level) - self.scales[c]) / min(self.rows[0], RECENT)
        scale, u, z = self.scales[c], 0.0, 0.0
        if scale > 0.0:
            u = max(-LARGEST_LEVEL, min(LARGEST_LEVEL, level / scale))
            z = (score - level) / scale
        new = 1.0 / min(self.rows[0] + 1.0, WINDOW)
        for j in range(3):
            H[c, j, j] *= 1.0 - new
        self.curve(c, new, 1.0, 0.0, 0.0)
        self.curve(c, new, 0.0, 1.0, 0.0)
        self.curve(c, new, 0.0, 0.0, 1.0)
        # L^-1 x is (1, one, two).
        one = u - H[c, 1, 0]
        two = z - H[c, 2, 0] - H[c, 2, 1] * one
        length = 1.0 / H[c, 0, 0] + one * one / H[c, 1, 1] + two * two / H[c, 2, 2]
        margin = y * (theta[c, 0] + theta[c, 1] * u + theta[c, 2] * z)
        wrong = wrong_after_step(margin, weight * length, PRECISION)
        step, curved = weight * y * wrong, weight * wrong * (1.0 - wrong)
        by_score = two / H[c, 2, 2]
        by_level = one / H[c, 1, 1] - H[c, 2, 1] * by_score
        theta[c, 0] += step * (1.0 / H[c, 0, 0] - H[c, 1, 0] * by_level - H[c, 2, 0] * by_score)
        theta[c, 1] += step * by_level
        theta[c, 2] += step * by_score
        self.curve(c, curved, 1.0, u, z)
        if theta[c, 2] < 0.0:  # project, in the metric of H, onto maps that do not decrease
            theta[c, 0] += theta[c, 2] * (H[c, 2, 0] - H[c, 1, 0] * H[c, 2, 1])
            theta[c, 1] += theta[c, 2] * H[c, 2, 1]
            theta[c, 2] = 0.0

    def curve(self, c, amount, first, second, third):
        """``H += amount v v'`` for ``v = (first, second, third)``; rounding keeps D positive."""
        H = self.curvature
        was = H[c, 0, 0]
        H[c, 0, 0] = now = was + amount * first * first
        part, amount = amount * first / now, amount * was / now
        second -= first * H[c, 1, 0]
        third -= first * H[c, 2, 0]
        H[c, 1, 0] += part * second
        H[c, 2, 0] += part * third
        was = H[c, 1, 1]
        H[c, 1, 1] = now = was + amount * second * second
        part, amount = amount * second / now, amount * was / now
        third -= second * H[c, 2, 1]
        H[c, 2, 1] += part * third
        H[c, 2, 2] += amount * third * third

    def move_mean(self, rows, i):
        """Move the mean towards row ``i``; returns the fraction of the way."""
        part = 1.0 / min(self.rows[0], RECENT)
        self.fading[0] *= 1.0 - part
        if self.fading[0] < FADED:
            for j in range(self.mean.shape[1]):
                self.mean[0, j] *= self.fading[0]
            self.fading[0] = 1.0
        rows.add(i, self.mean, 0, part / self.fading[0])
        return part


bridge("odds_of", "learn_label", "curve", "move_mean")


def new_maps(problems: int, width: int | None = None) -> Maps:
    """Maps before the first row, with slope 1; levels are tracked if ``width`` is given."""
    return Maps(
        theta=np.tile([0.0, 0.0, 1.0], (problems, 1)),
        curvature=np.tile(np.eye(3), (problems, 1, 1)),
        levels=np.zeros((problems, 2)),
        scales=np.zeros(problems),
        rows=np.zeros(1),
        mean=np.zeros((0, 0)) if width is None else aligned_zeros(1, width + 1),
        fading=np.ones(1),
    )


def copied_maps(maps: Maps, width: int, which: Sequence[int] | None = None) -> Maps:
    """A copy for ``width`` features in which problem c continues problem ``which[c]``."""
    mean = (
        maps.mean.copy()
        if not maps.mean.size
        else with_width(maps.mean, maps.mean.shape[1] - 1, width)
    )
    chosen: slice | list[int] = slice(None) if which is None else list(which)
    of_problems = {
        name: getattr(maps, name)[chosen].copy()
        for name in ("theta", "curvature", "levels", "scales")
    }
    return maps._replace(**of_problems, rows=maps.rows.copy(), mean=mean, fading=maps.fading.copy())


def invalid_maps_message(maps: Maps) -> str:
    """Why these maps cannot be the result of learning; empty if they can."""
    if not all(np.isfinite(each).all() for each in maps):
        return "it contains NaN or infinity"
    if (maps.theta[:, 2] < 0.0).any() or (maps.scales < 0.0).any() or (maps.rows < 0.0).any():
        return "a slope, a scale or a count is negative"
    if not ((np.diagonal(maps.curvature, axis1=1, axis2=2) > 0.0).all() and maps.fading[0] > 0.0):
        return "a curvature, or what a mean fades by, is not positive"
    return ""


@Compiled
def follow(rows, scores, outputs, steps, targets, order, weights, maps, trials, odds):  # type: ignore[no-untyped-def]
    """Update the maps of all problems by the rows ``order``; entries ``-1 - i`` are not learned.

    Row i counts ``weights[i]`` times, or once if that is empty. ``scores`` are those of the weights
    that predict, ``outputs`` those of the current weights, ``steps`` their changes, as in `Trace`.
    If averaged weights predict, ``trials`` is the number of trials before, otherwise it is
    negative. The log-odds of each row before it is learned are written into ``odds``, unless that
    is empty.
    """
    for n in range(order.size):
        i = order[n]
        if n < odds.shape[0]:
            for c in range(maps.scales.size):
                odds[n, c] = maps.odds_of(c, scores[n, c])
        if i < 0:
            continue
        weight = weights[i] if weights.size else 1.0
        maps.rows[0] += 1.0
        for c in range(maps.scales.size):
            maps.learn_label(c, scores[n, c], targets.sign(i, c), weight)
        if maps.mean.shape[0] == 0:
            continue
        part = maps.move_mean(rows, i)
        product = maps.fading[0] * rows.dot(i, maps.mean, 0)
        for c in range(maps.scales.size):
            level, asked = maps.levels[c, 0], maps.levels[c, 1]
            level += part * (outputs[n, c] - level)
            level = steps[n, c, 0] * level + steps[n, c, 1] * product
            if trials < 0:
                asked = level
            else:
                asked += part * (scores[n, c] - asked)
                asked += (level - asked) / (trials + 1)
            maps.levels[c, 0], maps.levels[c, 1] = level, asked
        if trials >= 0:
            trials += 1


class Sigmoids(NamedTuple):
    """The present maps from scores to log-odds, arrays of shape (problems,).

    ::

        s = (score - level) / scale, clipped to between -`LARGEST` and `LARGEST`
        log-odds = offset + slope * s
    """

    offsets: np.ndarray
    slopes: np.ndarray
    levels: np.ndarray
    scales: np.ndarray


def sigmoids(maps: Maps, which: slice) -> Sigmoids:
    """The present maps of these problems."""
    theta, levels, scales = maps.theta[which], maps.levels[which, 1], maps.scales[which]
    has_scores = scales > 0.0
    scales = np.where(has_scores, scales, 1.0)
    with np.errstate(over="ignore"):
        lifts = np.clip(levels / scales, -LARGEST_LEVEL, LARGEST_LEVEL)
    offsets = theta[:, 0] + theta[:, 1] * np.where(has_scores, lifts, 0.0)
    return Sigmoids(offsets, np.where(has_scores, theta[:, 2], 0.0), levels, scales)


def log_odds(maps: Maps, which: slice, scores: np.ndarray) -> np.ndarray:
    """Log-odds of the positive class for scores of shape (rows, problems), of these problems."""
    offsets, slopes, levels, scales = sigmoids(maps, which)
    with np.errstate(over="ignore"):
        sizes = np.clip((scores - levels) / scales, -LARGEST, LARGEST)
    return offsets + slopes * sizes


def log_shares(odds: np.ndarray) -> np.ndarray:
    """Logarithms of normalised one-vs-rest probabilities, for log-odds of shape (rows, classes).

    They do not underflow if all probabilities are tiny.
    """
    logs = log_expit(odds)
    return logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)


# ----------------------------------------------------------------------------- while learning
def tracks_level(model: Model) -> bool:
    """True if the level can be tracked: the weights must be vectors that move along rows."""
    is_plain = isinstance(model, LinearModel) and model.steps_along_rows
    return is_plain and model.p == 2.0 and not model.is_joint  # type: ignore[attr-defined]


def maps_for(model: Model) -> Maps:
    """Maps of a model before the first row."""
    return new_maps(model.problems(), model.width() if tracks_level(model) else None)


# --------------------------------------------------------------------- Platt's sigmoids, in a batch
# For each problem ``P(y = +1) = sigmoid(offset + slope score)`` minimises the log loss with Platt's
# targets, ``(N+ + 1) / (N+ + 2)`` for positive rows and ``1 / (N- + 2)`` for others, where N are
# sums of sample weights (Lin, Lin and Weng, "A note on Platt's probabilistic outputs", 2007).
# A negative slope, of uninformative scores, becomes 0.
PLATT_PRECISION = 1e-10


def fitted_maps(scores: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> Maps:
    """Fit the maps of all problems; ``scores`` and ``positive`` have shape (problems, rows)."""
    maps = new_maps(scores.shape[0])
    maps.rows[0] = scores.shape[1]
    for c, (line, is_positive) in enumerate(zip(scores, positive, strict=True)):
        scale = maps.scales[c] = np.average(np.abs(line), weights=weights)
        sizes = line / scale if scale > 0.0 else np.zeros_like(line)
        maps.theta[c, 0], maps.theta[c, 2] = sigmoid_for(sizes, is_positive, weights)
    return maps


def sigmoid_for(
    scores: np.ndarray, positive: np.ndarray, weights: np.ndarray
) -> tuple[float, float]:
    """Offset and slope of Platt's sigmoid."""
    ones, zeros = weights[positive].sum(), weights[~positive].sum()
    targets = np.where(positive, (ones + 1.0) / (ones + 2.0), 1.0 / (zeros + 2.0))
    shares, rows = weights / weights.sum(), np.stack([np.ones_like(scores), scores])

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        odds = theta @ rows
        value = -shares @ (targets * log_expit(odds) + (1.0 - targets) * log_expit(-odds))
        return float(value), rows @ (shares * (expit(odds) - targets))

    def hessian(theta: np.ndarray) -> np.ndarray:
        chances = expit(theta @ rows)
        curvature: np.ndarray = (rows * (shares * chances * (1.0 - chances))) @ rows.T
        return curvature

    start = [np.log((ones + 1.0) / (zeros + 1.0)), 0.0]
    how = {"jac": True, "hess": hessian, "options": {"gtol": PLATT_PRECISION}}
    offset, slope = map(float, minimize(loss, start, method="trust-exact", **how).x)
    if slope >= 0.0:
        return offset, slope
    mean = np.average(targets, weights=weights)
    return float(np.log(mean / (1.0 - mean))), 0.0
