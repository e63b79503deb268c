"""How large the error of predictions made before learning can be, under any drift.

Let ``l_t`` in [0, 1] be the loss of the prediction for row t, made before its label was known,
``r_t = E[l_t | all rows before]`` the expected loss, and ``L_T`` the sum of the losses up to row T.
With probability at least ``1 - delta``, for all T at once,

    r_1 + ... + r_T  <=  min_j (lambda_j L_T + ln(1 / (delta w_j))) / (1 - exp(-lambda_j))

for ``lambda_j = 2^-j`` and ``w_j = 1 / ((j + 1) (j + 2))``, j = 0, 1, ...

Proof. Between 0 and 1 the convex function ``exp(-lambda l)`` lies below its chord, so

    E[exp(-lambda l_t) | past] <= 1 - r_t (1 - exp(-lambda)) <= exp(-r_t (1 - exp(-lambda)))

and ``exp((1 - exp(-lambda)) sum r_t - lambda L_T)`` is a supermartingale that starts at 1. So is
the mixture with the weights ``w_j``, whose sum is 1. By Ville's inequality it exceeds ``1 / delta``
at any time with probability at most ``delta``, and each term of a mixture is at most the mixture.

Nothing is assumed about the rows but that a label is not known when it is predicted: rows may
drift, depend on each other, and depend on the predictions. If rows are independent and from one
distribution, the bound divided by T holds for the risk of a predictor that is chosen among the T
ones at random, and, for one fixed predictor, for its risk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from maxmargin.certificates.directed_rounding import percent_up

# Smaller rates improve nothing: they pay for sums of losses that no stream reaches.
RATES = tuple(2.0**-j for j in range(64))
ROUNDING = 1.0 + 1e-14  # relative errors of one value, which take fewer than ten operations


@dataclass(frozen=True)
class ErrorBound:
    """A proved upper bound on the expected error of predictions, and the error observed.

    Attributes
    ----------
    observed : float
        The share of wrong predictions; NaN before the first row.
    bound : float
        With probability at least ``1 - delta`` the expected error, on average over the rows, is at
        most this. That holds at all times at once.
    rows : int
        Rows predicted.
    delta : float
        The probability of an exception.

    Examples
    --------
    >>> print(ErrorBound(observed=0.154, bound=0.16251, rows=30000, delta=0.05))
    error 15.40 % of 30,000 rows, expected error at most 16.26 % (with probability 95 %)
    """

    observed: float
    bound: float
    rows: int
    delta: float

    def __str__(self) -> str:
        if not self.rows:
            return "no rows were predicted"
        return (
            f"error {100.0 * self.observed:.2f} % of {self.rows:,} rows, expected error at most "
            f"{percent_up(self.bound, 1.0)} % (with probability {100.0 * (1.0 - self.delta):g} %)"
        )


def error_bound(losses: float, rows: int, *, delta: float = 0.05) -> ErrorBound:
    """Bound the mean expected loss of ``rows`` predictions whose losses add up to ``losses``.

    Examples
    --------
    >>> found = error_bound(4_657, 30_162)
    >>> found.observed < found.bound < found.observed + 0.01
    True
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be between 0 and 1, got {delta!r}.")
    if not 0.0 <= losses <= rows:
        raise ValueError(f"losses must be between 0 and rows ({rows}), got {losses!r}.")
    if rows == 0:
        return ErrorBound(math.nan, 1.0, 0, delta)
    most = expected_losses(losses, delta) / rows
    return ErrorBound(losses / rows, min(1.0, most * ROUNDING), rows, delta)


def expected_losses(losses: float, delta: float) -> float:
    """The upper bound on ``r_1 + ... + r_T`` from the sum of the observed losses."""
    return min(
        (rate * losses + math.log((j + 1) * (j + 2) / delta)) / -math.expm1(-rate)
        for j, rate in enumerate(RATES)
    )
