"""What Theorems 1 to 4 on moving targets have in common.

J. Kivinen, A. Smola and R. Williamson, "Large margin classification for moving targets", 2002. The
bounds compare a learner with any sequence of vectors u_t of q-norm at most B that has margin mu up
to hinge losses of sum K, on rows of p-norm at most X, 1/p + 1/q = 1. All that they need to know of
how u_t moves is a length S, and the constant ``C = (p - 1) / 4 X**2 S``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from maxmargin.algorithms.bound_arguments import NOT_NEGATIVE, POSITIVE, bound, validates

# Bounds are infinite without a margin; `tuned` needs one.
bound_on_moving_targets = bound(radius=POSITIVE, norm=POSITIVE)
validates_tuning = validates(
    radius=POSITIVE, norm=POSITIVE, margin=POSITIVE, threshold=[*NOT_NEGATIVE, None]
)


class Comparison(NamedTuple):
    """What is known of the rows and of the comparison vectors.

    Attributes
    ----------
    radius, norm, margin, losses, p : X, B, mu, K and p
    length : S, made of B and of how far the comparison vectors move
    """

    radius: float
    norm: float
    margin: float
    losses: float
    p: float
    length: float

    def checked(self, trials: int = 1) -> Comparison:
        """Itself; ValueError if each of so many trials costs more than all losses."""
        largest = self.radius * self.norm + self.losses / trials
        if self.margin > largest * (1.0 + 1e-9):  # of numbers that were rounded
            raise ValueError(
                f"The 'margin' parameter must be at most {largest:g}, which no margin of such rows "
                f"exceeds, with these losses. Got {self.margin:g} instead."
            )
        return self

    def curvature(self) -> float:
        return (self.p - 1.0) * self.radius**2

    def constant(self) -> float:
        return 0.25 * self.curvature() * self.length

    def gap(self) -> float:
        """How far the margin of the learner stays below mu."""
        return best_gap(self.margin, self.losses, self.constant())

    def rate(self) -> float:
        return 2.0 * self.gap() / self.curvature()

    def above(self, threshold: float) -> Comparison:
        """The same with what the comparison vectors have above a margin of the learner's own."""
        if threshold >= self.margin:
            raise ValueError(
                f"The 'threshold' parameter must be below the margin {self.margin}, "
                f"got {threshold}."
            )
        return self._replace(margin=self.margin - threshold)

    def tuned(self, aggressive: bool, threshold: float | None) -> tuple[float, float]:
        """The rate and the learner's margin, which is the ``threshold`` if there is one."""
        if threshold is not None:
            return self.above(threshold).rate(), threshold
        return self.rate(), self.margin - self.gap() if aggressive else 0.0

    def errors_below(self, threshold: float) -> float:
        """Bound on the trials with ``y (w.x) <= threshold``."""
        if self.margin <= 0.0:
            return math.inf
        return error_bound(self.above(threshold).margin, self.losses, self.constant())

    def errors_at_rate(self, rate: float) -> float:
        """Bound on the trials with ``y (w.x) <= 0``, for any rate: (6) and (15), solved for E."""
        gain = self.margin - 0.5 * rate * self.curvature()
        return (self.losses + 0.5 * self.length / rate) / gain if gain > 0.0 else math.inf

    def losses_below(self, threshold: float, rate: float, margin_errors: int | None) -> float:
        """Bound on the sum of ``max(0, threshold - y (w.x))``, for any rate: (6) and (15).

        ``K + S / (2 rate) - E (mu - threshold - rate (p - 1) X**2 / 2)`` after E margin errors. If
        their number is not known, none is the worst as long as the bracket is not negative.
        """
        gain = self.margin - threshold - 0.5 * rate * self.curvature()
        if self.margin <= 0.0 or (margin_errors is None and gain < 0.0):
            return math.inf
        most = self.losses + 0.5 * self.length / rate
        bound = most - (margin_errors or 0) * gain
        if bound < -1e-9 * most:  # of numbers that were rounded
            raise ValueError(
                f"The 'margin_errors' parameter must be at most {most / gain:g}, which such a "
                f"learner never exceeds. Got {margin_errors} instead."
            )
        return max(bound, 0.0)


def best_gap(margin: float, losses: float, constant: float) -> float:
    """``h(x, K, C) = sqrt(C/K (x + C/K)) - C/K``, written without cancellation; x/2 for K = 0."""
    return margin / (1.0 + math.sqrt(1.0 + losses * margin / constant))


def error_bound(margin: float, losses: float, constant: float) -> float:
    """``K/m + 2 C/m**2 + 2 sqrt(C/m**2 (K/m + C/m**2))`` for ``m = margin``."""
    per_loss, per_move = losses / margin, constant / margin**2
    return per_loss + 2.0 * per_move + 2.0 * math.sqrt(per_move * (per_loss + per_move))
