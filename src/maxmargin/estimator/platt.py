"""Platt's map from scores to probabilities, followed row by row.

For each problem, of a score s seen before its row is learnt from, and the sign y of the row in it:

    scale <- the mean of |s|, over the last rows;  z = s / scale
    P(y = +1) = sigmoid(slope z + offset)
    (slope, offset) <- those that minimise  -log P(y) + |(slope, offset) - those before|^2_H / 2
    H <- keep H + (1 - keep) I + (the second derivative of -log P(y))

This is one step of Newton's method on running sums, H, but for the last row, which counts as it is
(an implicit step): however strange a row, no step goes beyond what that row asks for. H forgets, so
that scores of weights which were other ones long ago do not count any more; and scores are measured
by their present scale, since weights of online learners grow or shrink while they learn.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_expit

from maxmargin.core.bridge import Compiled

# Rows that are remembered: for slope and offset, and for the scale of scores. Chosen on Adult and
# electricity, see docs/probabilities.md.
WINDOW = 10_000.0
SCALE_WINDOW = 300.0
# The implicit step is computed to so many digits; Newton's method takes four rounds or five.
ROUNDS, PRECISION = 60, 1e-12
# Larger multiples of the scale mean the same.
LARGEST = 1e6

# H is kept as that of a weighted sample of z: its mass, its mean, and the sum of squares about it.
PLATT = np.dtype(
    [
        *(("slope", "f8"), ("offset", "f8")),
        *(("mass", "f8"), ("center", "f8"), ("spread", "f8")),
        *(("scale", "f8"), ("rows", "f8")),
    ],
    align=True,
)


def new_maps(problems: int) -> np.recarray:
    """Of no rows: a score of the usual size means odds of e."""
    maps = np.zeros(problems, PLATT).view(np.recarray)
    maps.slope = maps.mass = maps.spread = 1.0
    return maps


def what_is_wrong(maps: np.recarray) -> str:
    """Why these cannot be maps that followed rows, if they cannot."""
    if not all(np.isfinite(maps[name]).all() for name in PLATT.fields or ()):
        return "it has numbers that are none"
    if (maps.slope < 0.0).any() or (maps.scale < 0.0).any() or (maps.rows < 0.0).any():
        return "a slope, a scale or a count is negative"
    if not ((maps.mass > 0.0).all() and (maps.spread > 0.0).all()):
        return "a mass or a spread is not positive"
    return ""


@Compiled
def follow(scores, targets, order, weights, maps):  # type: ignore[no-untyped-def]
    """Let the maps of all problems learn from the scores of the rows ``order``, one after another.

    A row i that stands there as ``-1 - i`` is only looked at. It counts ``weights[i]`` times, or
    once if there are none.
    """
    for n in range(order.size):
        i = order[n]
        if i < 0:
            continue
        weight = weights[i] if weights.size else 1.0
        for c in range(maps.size):
            one, score, y = maps[c], scores[n, c], targets.sign(i, c)
            one.rows += 1.0
            one.scale += (abs(score) - one.scale) / min(one.rows, SCALE_WINDOW)
            z = score / one.scale if one.scale > 0.0 else 0.0
            # Forget, and add (1 - keep) I, a sample of that mass around 0.
            new = 1.0 / min(one.rows + 1.0, WINDOW)
            kept = (1.0 - new) * one.mass
            mass = kept + new
            spread = (1.0 - new) * one.spread + new + kept * new / mass * one.center**2
            center = kept / mass * one.center
            # The margin v after the step has v = margin + length sigmoid(-v).
            away = z - center
            length = weight * (1.0 / mass + away * away / spread)
            margin = y * (one.slope * z + one.offset)
            low, high = margin, min(margin + length, max(margin, 0.0) + np.log1p(length) + 1.0)
            v = margin
            for _ in range(ROUNDS):
                wrong = 1.0 / (1.0 + np.exp(min(v, 700.0)))
                beyond = v - margin - length * wrong
                if beyond > 0.0:
                    high = v
                else:
                    low = v
                then = v - beyond / (1.0 + length * wrong * (1.0 - wrong))
                if not low <= then <= high:
                    then = 0.5 * (low + high)
                moved, v = abs(then - v), then
                if moved <= PRECISION * (1.0 + abs(v)):
                    break
            wrong = 1.0 / (1.0 + np.exp(min(v, 700.0)))
            turn = weight * y * wrong * away / spread
            one.slope += turn
            one.offset += weight * y * wrong / mass - center * turn
            curved = weight * wrong * (1.0 - wrong)
            one.mass = mass + curved
            one.spread = spread + curved * away * away * mass / one.mass
            one.center = center + curved / one.mass * away
            if one.slope < 0.0:  # the nearest map, as H measures it, that does not fall
                one.offset += one.center * one.slope
                one.slope = 0.0


def log_odds(maps: np.recarray, scores: np.ndarray) -> np.ndarray:
    """Those of the positive class for scores of shape (rows, problems)."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        sizes = np.clip(scores / maps.scale, -LARGEST, LARGEST)
    return maps.slope * np.where(maps.scale > 0.0, sizes, 0.0) + maps.offset


def log_shares(odds: np.ndarray) -> np.ndarray:
    """Logarithms of one-vs-rest probabilities, normalised, for log-odds of shape (rows, classes).

    Where all are so small that they would be 0, their ratios still count.
    """
    logs = log_expit(odds)
    return logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)
