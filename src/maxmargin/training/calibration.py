"""Probabilities by Platt's map from scores, fitted row by row to scores before each update.

For each problem, with a score s from before its row is learned, and the sign y of the row in it:

    level = the score of the mean of the last rows, by the same weights
    scale <- the mean of |s - level|, over the last rows
    x = (1, level / scale, (s - level) / scale)
    P(y = +1) = sigmoid(theta.x)
    theta <- that which minimises  -log P(y) + |theta - the one before|^2_H / 2
    H <- keep H + (1 - keep) I + (the second derivative of -log P(y))

This is one step of Newton's method on running sums, H, but for the last row, which counts as it is
(an implicit step): however strange a row, no step goes beyond what that row asks for. H forgets, so
that scores of weights which were other ones long ago do not count any more.

Weights of online learners swing from row to row, and all scores swing with them. The level says how
far they are out at the moment, without a look at any label, and theta says how much of that counts.
With the weights w and the mean m of rows it is w.m, and never has to be summed: m moves a part of
the way to a row, and w.m the same part to the row's score; a step of w by a row moves w.m by the
product of that row and m.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import log_expit

from maxmargin.core.array_fields import aligned_zeros, with_width
from maxmargin.core.logistic_step import wrong_after_step
from maxmargin.core.numba_backend import Compiled, bridge
from maxmargin.core.rows import NO_TAIL, DenseRows
from maxmargin.models.base import Model
from maxmargin.models.linear_model import LinearModel, read_only

# Rows that are remembered: for theta, and for the level and the scale of scores. Chosen on Adult
# and electricity, see docs/probabilities.md.
WINDOW = 5000.0
RECENT = 300.0
# Larger multiples of the scale mean the same, of scores and of levels.
LARGEST, LARGEST_LEVEL = 1e6, 10.0
# A mean that has faded so far is multiplied out.
FADED = 1e-100
NO_WEIGHTS = np.empty(0)
NO_ODDS = np.empty((0, 0))
# Where no level is followed, rows are not looked at.
NO_ROWS = DenseRows(read_only(np.empty((0, 0))), NO_TAIL)


class Maps(NamedTuple):
    """The map of each problem, and statistics of its scores.

    Attributes
    ----------
    theta : of offset, level and score
    curvature : H as ``L D L'``: D on the diagonal, and below it L, whose diagonal is 1
    levels : those of the weights that learn, and of those that are asked, which may be a mean
    scales : of scores above or below their level
    rows : how many were followed, the same for all
    mean, fading : the mean of the last rows is ``fading * mean``; no line without levels
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
        """Let the map of problem ``c`` learn that a row with this score has the sign ``y``."""
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
        # With L^-1 x, which is 1, one, two.
        one = u - H[c, 1, 0]
        two = z - H[c, 2, 0] - H[c, 2, 1] * one
        length = 1.0 / H[c, 0, 0] + one * one / H[c, 1, 1] + two * two / H[c, 2, 2]
        margin = y * (theta[c, 0] + theta[c, 1] * u + theta[c, 2] * z)
        wrong = wrong_after_step(margin, weight * length)
        step, curved = weight * y * wrong, weight * wrong * (1.0 - wrong)
        by_score = two / H[c, 2, 2]
        by_level = one / H[c, 1, 1] - H[c, 2, 1] * by_score
        theta[c, 0] += step * (1.0 / H[c, 0, 0] - H[c, 1, 0] * by_level - H[c, 2, 0] * by_score)
        theta[c, 1] += step * by_level
        theta[c, 2] += step * by_score
        self.curve(c, curved, 1.0, u, z)
        if theta[c, 2] < 0.0:  # the nearest map, as H measures it, that does not fall
            theta[c, 0] += theta[c, 2] * (H[c, 2, 0] - H[c, 1, 0] * H[c, 2, 1])
            theta[c, 1] += theta[c, 2] * H[c, 2, 1]
            theta[c, 2] = 0.0

    def curve(self, c, amount, first, second, third):
        """``H += amount v v'`` for the vector of these three: D stays positive in any rounding."""
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

    def meet_row(self, rows, i):
        """Move the mean towards row ``i``; which part of the way."""
        part = 1.0 / min(self.rows[0], RECENT)
        self.fading[0] *= 1.0 - part
        if self.fading[0] < FADED:
            for j in range(self.mean.shape[1]):
                self.mean[0, j] *= self.fading[0]
            self.fading[0] = 1.0
        rows.add(i, self.mean, 0, part / self.fading[0])
        return part


bridge("odds_of", "learn_label", "curve", "meet_row")


def new_maps(problems: int, width: int | None = None) -> Maps:
    """Of no rows: a score of the usual size means odds of e.

    Levels are followed for rows of ``width`` features.
    """
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
    """A copy for rows of ``width`` features, in which problem c continues problem ``which[c]``."""
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


def what_is_wrong(maps: Maps) -> str:
    """Why these cannot be maps that followed rows, if they cannot."""
    if not all(np.isfinite(each).all() for each in maps):
        return "it contains NaN or infinity"
    if (maps.theta[:, 2] < 0.0).any() or (maps.scales < 0.0).any() or (maps.rows < 0.0).any():
        return "a slope, a scale or a count is negative"
    if not ((np.diagonal(maps.curvature, axis1=1, axis2=2) > 0.0).all() and maps.fading[0] > 0.0):
        return "a curvature, or what a mean fades by, is not positive"
    return ""


@Compiled
def follow(rows, scores, outputs, steps, targets, order, weights, maps, trials, odds):  # type: ignore[no-untyped-def]
    """Let the maps of all problems learn from the rows ``order``, one after another.

    A row i that stands there as ``-1 - i`` is only looked at. It counts ``weights[i]`` times, or
    once if there are none. ``scores`` are those of the weights that are asked, ``outputs`` those of
    the weights that learn, and ``steps`` what they learned, as in `Trace`. If the mean of all
    weights is asked, it was one over so many ``trials`` before, which are below 0 otherwise. The
    log-odds of each row before it is learned are written into ``odds``, unless that is empty.
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
        part = maps.meet_row(rows, i)
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
    """What maps say of scores now: log-odds, with ``s`` between -`LARGEST` and `LARGEST`.

    ::

        s = (score - level) / scale
        log-odds = offset + slope * s

    Attributes
    ----------
    offsets, slopes, levels, scales : arrays of shape (problems,)
    """

    offsets: np.ndarray
    slopes: np.ndarray
    levels: np.ndarray
    scales: np.ndarray


def sigmoids(maps: Maps, which: slice) -> Sigmoids:
    """Those of the positive classes, of these problems."""
    theta, levels, scales = maps.theta[which], maps.levels[which, 1], maps.scales[which]
    has_scores = scales > 0.0
    scales = np.where(has_scores, scales, 1.0)
    with np.errstate(over="ignore"):
        lifts = np.clip(levels / scales, -LARGEST_LEVEL, LARGEST_LEVEL)
    offsets = theta[:, 0] + theta[:, 1] * np.where(has_scores, lifts, 0.0)
    return Sigmoids(offsets, np.where(has_scores, theta[:, 2], 0.0), levels, scales)


def log_odds(maps: Maps, which: slice, scores: np.ndarray) -> np.ndarray:
    """Those of the positive class for scores of shape (rows, problems), of these problems."""
    offsets, slopes, levels, scales = sigmoids(maps, which)
    with np.errstate(over="ignore"):
        sizes = np.clip((scores - levels) / scales, -LARGEST, LARGEST)
    return offsets + slopes * sizes


def log_shares(odds: np.ndarray) -> np.ndarray:
    """Logarithms of one-vs-rest probabilities, normalised, for log-odds of shape (rows, classes).

    Where all are so small that they would be 0, their ratios still count.
    """
    logs = log_expit(odds)
    return logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)


# ----------------------------------------------------------------------------- while learning
def knows_level(model: Model) -> bool:
    """Can the score of the mean of rows be followed?

    Its weights must be vectors that move along the row itself.
    """
    is_plain = isinstance(model, LinearModel) and model.steps_along_rows
    return is_plain and model.p == 2.0 and not model.is_joint  # type: ignore[attr-defined]


def maps_for(model: Model) -> Maps:
    """Those that have followed no rows."""
    return new_maps(model.problems(), model.width() if knows_level(model) else None)
