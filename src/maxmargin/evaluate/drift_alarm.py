"""Drift alarms with a bound on the probability of a false one: a test martingale.

If the rows of a stream are exchangeable (drawn independently from one distribution, say), so are
the scores that one fixed function gives them. The rank of the n-th score among the first n, with
ties broken at random, is then uniform, and independent of the ranks before (Vovk, Gammerman and
Shafer 2005):

    p_n = (#{i <= n: s_i > s_n} + u_n #{i <= n: s_i = s_n}) / n

A gambler who bets against that, at odds ``f(p)`` with a mean of 1, has a wealth that is a
martingale. Here the bets are powers, ``f(p) = k p^(k - 1)`` with several k below 1, and steps,
which pay for p below a limit, against small p (scores that are higher than before), and powers of
``1 - p`` (scores that are lower). A part
``S_{n-1} - S_n`` of the first wealth begins to bet at row n, with ``S_n = (1 + n)^-0.1``, so that
late changes are found as well. By Ville's inequality wealth reaches ``1 / delta`` with
probability at most delta, over all time.

After an alarm all begins anew. The k-th run may spend ``delta / (k (k + 1))``, and these add up to
delta, so that this is a bound on the probability of any false alarm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.core.numba_backend import Compiled

# Scores are counted in BINS times BINS bins, a fixed function of them: by their sign and logarithm,
# with 5 % between neighbours. What is below the smallest counts as 0.
BINS, FINENESS, SMALLEST = 32, 18.0, 1e-6
HALF = BINS * BINS // 2
# Exponents of bets against small p and against large p; and bets that pay `ODDS` for p below
# `STEPS`. All have the same share of the wealth.
POWERS = (0.4, 0.7, 0.7)
UPWARD = 2
STEPS = (0.1, 0.2, 0.35)
ODDS = (2.0, 1.5, 1.3)
SHARE = 1.0 / (len(POWERS) + len(STEPS))
# After n rows (1 + n)^-IDLE of the wealth is not bet yet.
IDLE = 0.1


@Compiled
def bet_on_scores(scores, ties, counts, groups, wealth, rows, limit):  # type: ignore[no-untyped-def]
    """Bet on each score until wealth reaches the limit; the number of scores taken, or 0 - that.

    It is below 0 if the limit was reached with the last of them.

    ``ties`` are uniform in [0, 1). ``counts`` has the scores of each bin, and ``groups`` those of
    `BINS` neighbouring bins; ``wealth`` is that of each bet, and last all that is not bet yet;
    ``rows`` their number so far.
    """
    last = wealth.size - 1
    for n in range(scores.size):
        size = int(FINENESS * np.log1p(abs(scores[n]) / SMALLEST))
        place = HALF + min(HALF - 1, size) if scores[n] >= 0.0 else HALF - 1 - min(HALF - 1, size)
        group = place // BINS
        counts[place] += 1.0
        groups[group] += 1.0
        rows[0] += 1.0
        above = 0.0
        for k in range(group + 1, BINS):
            above += groups[k]
        for k in range(place + 1, (group + 1) * BINS):
            above += counts[k]
        p = (above + (1.0 - ties[n]) * counts[place]) / rows[0]
        small = np.log(p)
        large = np.log1p(-(above + ties[n] * counts[place]) / rows[0])
        idle = (1.0 + rows[0]) ** -IDLE
        fresh, wealth[last] = wealth[last] - idle, idle
        total = idle
        for k in range(last):
            step = k - len(POWERS)
            if step < 0:
                power = POWERS[k]
                odds = power * np.exp((power - 1.0) * (small if k < UPWARD else large))
            elif p <= STEPS[step]:
                odds = ODDS[step]
            else:
                odds = (1.0 - STEPS[step] * ODDS[step]) / (1.0 - STEPS[step])
            wealth[k] = (wealth[k] + SHARE * fresh) * odds
            total += wealth[k]
        if total >= limit:
            return -1 - n
    return scores.size


class DriftAlarm:
    """A drift detector whose probability of any false alarm, over all time, is at most ``delta``.

    It has the interface of the detectors of river. `update` it with one number for each row: how
    badly a **fixed** function predicted it, such as the error or the negative margin of a model
    that does not learn any more. (The errors of a model that learns are not exchangeable, and then
    nothing is promised.) `progressive` with ``on_drift="alarm"`` freezes copies of the learner for
    it.

    Parameters
    ----------
    delta : float, default=0.01
        If all rows are exchangeable, the probability of any alarm is at most this.
    warm_up : int, default=1000
        In `progressive`: the rows that a learner learns from before it is copied, at the beginning
        and after each alarm.
    random_state : int, default=0
        Seed for the order of equal scores.

    Attributes
    ----------
    drift_detected : bool
        Did the last `update` raise an alarm?
    n_alarms : int
        Alarms so far.

    References
    ----------
    V. Vovk, A. Gammerman and G. Shafer, "Algorithmic learning in a random world", 2005; V. Vovk, I.
    Petej, I. Nouretdinov, E. Ahlberg, L. Carlsson and A. Gammerman, "Retrain or not retrain:
    conformal test martingales for change-point detection", 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.evaluate import DriftAlarm
    >>> errors = np.random.default_rng(1).random(2000) < np.repeat([0.1, 0.5], 1000)
    >>> alarm = DriftAlarm(delta=0.01)
    >>> for row, error in enumerate(errors):
    ...     _ = alarm.update(error)
    ...     if alarm.drift_detected:
    ...         break
    >>> 1000 < row < 1100
    True
    """

    # `progressive` updates it with scores of a frozen copy, see `evaluate.drift`.
    on_frozen_scores = True

    def __init__(self, delta: float = 0.01, *, warm_up: int = 1000, random_state: int = 0) -> None:
        if not 0.0 < delta < 1.0:
            raise ValueError(f"delta must be between 0 and 1, got {delta!r}.")
        if not isinstance(warm_up, (int, np.integer)) or warm_up < 1:
            raise ValueError(f"warm_up must be a whole number of at least 1, got {warm_up!r}.")
        self.delta, self.warm_up, self.random_state = delta, warm_up, random_state
        self.drift_detected, self.n_alarms = False, 0
        self._random = np.random.default_rng(random_state)
        self._restart()

    def _restart(self) -> None:
        k = self.n_alarms + 1
        self._limit = k * (k + 1) / self.delta
        self._counts, self._groups = np.zeros(BINS * BINS), np.zeros(BINS)
        self._wealth, self._rows = np.zeros(len(POWERS) + len(STEPS) + 1), np.zeros(1)
        self._wealth[-1] = 1.0

    def update(self, x: Any) -> DriftAlarm:
        """One more row, with its score."""
        self.update_many(np.array([x], dtype=np.float64))
        return self

    def update_many(self, scores: np.ndarray) -> int:
        """`update` with scores up to the first alarm; the number of scores taken."""
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        if not np.isfinite(scores).all():
            raise ValueError("Scores of a drift alarm must be finite numbers.")
        before = self._random.bit_generator.state
        ties, parts = self._random.random(scores.size), (self._counts, self._groups, self._wealth)
        found = int(bet_on_scores(scores, ties, *parts, self._rows, self._limit))
        taken, self.drift_detected = abs(found), found < 0
        if taken < scores.size:  # the others are still to come
            self._random.bit_generator.state = before
            self._random.random(taken)
        if self.drift_detected:
            self.n_alarms += 1
            self._restart()
        return taken
