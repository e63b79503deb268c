"""Drift alarms with a bound on the probability of a false one: a test martingale.

If the rows of a stream are exchangeable (drawn independently from one distribution, say), so are
the scores that one fixed function gives them. Here a score is positive where that function errs,
and its size says by how much it errs or is right. Scores are put in order by their inverses:
mistakes from the smallest to the largest, then the others from the largest to the smallest, so that
rows next to the decision boundary are at both ends. The rank of the n-th score among the first n,
with ties broken at random,

    p_n = (#{i <= n: s_i before s_n} + u_n #{i <= n: s_i = s_n}) / n

is then uniform on [0, 1], and independent of all ranks before (Vovk, Gammerman and Shafer 2005). A
gambler who bets against that, at odds with a mean of 1, has a wealth that is a martingale. The
first scores are not ranked; the share e of mistakes among them says where mistakes end. Each bet
expects them to be r times as likely as others compared with that, at odds

    r / (1 - e + r e)  for p <= e,        1 / (1 - e + r e)  for p > e

times a density of ``p / e``, or of ``(1 - p) / (1 - e)``, which says at what distance from the
boundary more or fewer rows are expected. After n rows the part ``IDLE / (n + LATER)`` of all that
is not bet yet is put on the bets, so that late changes are found as well. By Ville's inequality
wealth reaches ``1 / delta`` with probability at most delta, over all time.

After an alarm all begins anew. The k-th run may spend ``delta / (k (k + 1))``, and these add up to
delta, so that this is a bound on the probability of any false alarm.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.numba_backend import Compiled

# Scores are counted by their sign, and by the exponent of their size with three more bits: that is
# a fixed function of them, and sizes from 2^-32 to 2^32 keep their order up to 9 to 12 %.
GROUPS, EACH = 32, 32
SIZES = GROUPS * EACH // 2
SHIFT, SIZE_BITS, LOWEST = 49, 2**63 - 1, (1023 - 32) * 8
# So many scores say what share of rows is wrong, before others are ranked; it counts as this least.
FIRST, LEAST_SHARE = 200, 0.03
IDLE, LATER = 0.3, 300.0
CELLS = 8


class Bet(NamedTuple):
    """What a gambler expects after a change.

    Attributes
    ----------
    ratio : of the odds of a mistake, after and before
    wrong, right : densities of mistakes and of others by their distance from the boundary, in equal
        parts of what was there before; they are scaled to a mean of 1
    """

    ratio: float
    wrong: tuple[float, ...] = (1.0,) * CELLS
    right: tuple[float, ...] = (1.0,) * CELLS


# The boundary has moved: rows close to it, but not the closest, are on the wrong side now.
MOVED = (0.7, 1.0, 1.45, 1.5, 1.2, 0.85, 0.7, 0.6), (0.8, 0.8, 0.95, 1.05, 1.1, 1.1, 1.1, 1.1)
# Labels are noisier or have changed, so that rows are wrong wherever they are.
NOISIER = (0.55, 0.65, 0.8, 1.0, 1.1, 1.2, 1.3, 1.4), (1.0,) * CELLS
# Rows are further from the boundary than before.
FURTHER = (0.9, 0.9, 0.95, 1.0, 1.0, 1.0, 1.05, 1.2), (0.9, 0.9, 0.92, 0.95, 1.0, 1.03, 1.1, 1.2)
BETS = (
    *(Bet(ratio, *shape) for shape in ((), MOVED, NOISIER) for ratio in (1.4, 2.5)),
    Bet(8.0),
    Bet(0.6),
    Bet(1.0, *FURTHER),
)


DENSITIES = np.array([[bet.right, bet.wrong] for bet in BETS]).transpose(1, 2, 0)
DENSITIES /= DENSITIES.mean(axis=1, keepdims=True)
RATIOS = np.array([bet.ratio for bet in BETS])


def odds_at(share: float) -> np.ndarray:
    """The odds of all bets for this share of mistakes, by cells: those of others first."""
    odds = DENSITIES / (1.0 - share + share * RATIOS)
    odds[1] *= RATIOS
    return odds


@Compiled
def bet_on_scores(scores, keys, ties, counts, groups, wealth, share, odds, limit):  # type: ignore[no-untyped-def]
    """Bet on each score until wealth reaches the limit; the number of scores taken, or 0 - that.

    It is below 0 if the limit was reached with the last of them.

    ``keys`` are the bits of the scores, and ``ties`` uniform in [0, 1). ``counts`` has the number
    of scores at each place of the order, ``groups`` that of `EACH` neighbouring places, and last
    that of all; ``wealth`` is that of each bet, and last all that is not bet yet.
    """
    bets, total = wealth.size - 1, 0.0
    for n in range(scores.size):
        place = min(SIZES - 1, max(0, ((keys[n] & SIZE_BITS) >> SHIFT) - LOWEST))
        if scores[n] <= 0.0:
            place = 2 * SIZES - 1 - place
        group, below = place // EACH, 0
        counts[place] += 1
        groups[group] += 1
        groups[GROUPS] += 1
        for k in range(group):
            below += groups[k]
        for k in range(group * EACH, place):
            below += counts[k]
        p = (below + ties[n] * counts[place]) / groups[GROUPS]
        side = 1 if p <= share else 0
        inside = p / share if side == 1 else (1.0 - p) / (1.0 - share)
        cell = min(CELLS - 1, int(CELLS * inside))
        fresh = wealth[bets] * (IDLE / (groups[GROUPS] - 1 + LATER))
        wealth[bets] -= fresh
        total = wealth[bets]
        for k in range(bets):
            wealth[k] = (wealth[k] + fresh / bets) * odds[side, cell, k]
            total += wealth[k]
        if total >= limit:
            return -1 - n
    return scores.size


class DriftAlarm:
    """A drift detector whose probability of any false alarm, over all time, is at most ``delta``.

    It has the interface of the detectors of river. `update` it with one number for each row: above
    0 if a **fixed** function predicted it wrong, such as a model that does not learn any more, and
    the further from 0 the more it was wrong or right. So the negative margin is such a number, and
    so are 1 and 0. (The errors of a model that learns are not exchangeable, and then nothing is
    promised.) `progressive` with ``on_drift="alarm"`` copies the learner for it. The
    first 200 numbers, and as many after each alarm, only say what is usual.

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
    evidence, limit : float
        The wealth of a gambler who bets on a change, who began with 1, and the wealth that raises
        the next alarm.

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

    # `progressive` updates it with scores of a fixed copy, see `evaluate.drift`.
    on_fixed_scores = True

    def __init__(self, delta: float = 0.01, *, warm_up: int = 1000, random_state: int = 0) -> None:
        if not 0.0 < delta < 1.0:
            raise ValueError(f"delta must be between 0 and 1, got {delta!r}.")
        if not isinstance(warm_up, (int, np.integer)) or warm_up < 1:
            raise ValueError(f"warm_up must be a whole number of at least 1, got {warm_up!r}.")
        self.delta, self.warm_up, self.random_state = delta, warm_up, random_state
        self.drift_detected, self.n_alarms = False, 0
        self._random, self._drawn = np.random.default_rng(random_state), 0
        self._restart()

    def _restart(self) -> None:
        self._first = np.zeros(2, dtype=np.int64)
        self._wealth = np.zeros(len(BETS) + 1)
        self._wealth[-1] = 1.0
        self._counts = np.zeros(2 * SIZES, dtype=np.int64)
        self._groups = np.zeros(GROUPS + 1, dtype=np.int64)

    def _set_odds(self) -> None:
        """By the share of mistakes among the first scores."""
        self._share = max(LEAST_SHARE, (int(self._first[1]) + 0.5) / (FIRST + 1.0))
        self._odds = odds_at(self._share)

    @property
    def evidence(self) -> float:
        return float(self._wealth.sum())

    @property
    def limit(self) -> float:
        k = self.n_alarms + 1
        return k * (k + 1) / self.delta

    def update(self, x: Any) -> DriftAlarm:
        """One more row, with its score."""
        self.update_many(np.array([x], dtype=np.float64))
        return self

    def update_many(self, scores: np.ndarray) -> int:
        """`update` with scores up to the first alarm; the number of scores taken."""
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        if not np.isfinite(scores).all():
            raise ValueError("Scores of a drift alarm must be finite numbers.")
        first = min(scores.size, FIRST - int(self._first[0]))
        self.drift_detected = False
        if first > 0:
            self._first[0] += first
            self._first[1] += np.count_nonzero(scores[:first] > 0.0)
            scores = scores[first:]
            if self._first[0] == FIRST:
                self._set_odds()
        if not scores.size:
            return first
        keys, ties = scores.view(np.int64), self._random.random(scores.size)
        counted = self._counts, self._groups, self._wealth, self._share, self._odds
        found = int(bet_on_scores(scores, keys, ties, *counted, self.limit))
        taken, self.drift_detected = abs(found), found < 0
        if taken < scores.size:  # the others are still to come
            self._random.bit_generator.advance(taken - scores.size)  # type: ignore[attr-defined]
        self._drawn += taken
        if self.drift_detected:
            self.n_alarms += 1
            self._restart()
        return first + taken

    # ---------------------------------------------------------------------------------- for files
    def state(self) -> dict[str, Any]:
        """All that rows have changed, in plain types."""
        return {
            "first": self._first.copy(),
            "counts": self._counts.copy(),
            "wealth": self._wealth.copy(),
            "drawn": self._drawn,
            "alarms": self.n_alarms,
        }

    def restore(self, state: dict[str, Any]) -> DriftAlarm:
        """Go on from the `state` of another detector with the same parameters."""
        arrays = {name: np.array(state[name]) for name in ("first", "counts", "wealth")}
        drawn, alarms = int(state["drawn"]), int(state["alarms"])
        for name, array in arrays.items():
            own = getattr(self, f"_{name}")
            if array.shape != own.shape or array.dtype != own.dtype:
                raise ValueError(f"{name} of a drift alarm has another shape or type")
            if not np.isfinite(array).all() or (array < 0).any():
                raise ValueError(f"{name} of a drift alarm is out of its range")
        (rows, mistakes), counted = arrays["first"].tolist(), int(arrays["counts"].sum())
        if not (mistakes <= rows <= FIRST and alarms >= 0 and counted <= drawn):
            raise ValueError("a drift alarm has counted more scores than it has seen")
        self.drift_detected, self.n_alarms = False, alarms
        self._random, self._drawn = np.random.default_rng(self.random_state), drawn
        self._random.bit_generator.advance(drawn)  # type: ignore[attr-defined]
        self._first, self._wealth = arrays["first"], arrays["wealth"]
        self._counts, groups = arrays["counts"], arrays["counts"].reshape(GROUPS, EACH).sum(axis=1)
        self._groups = np.append(groups, groups.sum())
        self._set_odds()
        return self
