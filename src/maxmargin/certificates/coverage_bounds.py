"""How far the coverage of prediction sets can be from its target, on any stream.

Adaptive conformal inference (Gibbs and Candès 2021) follows a miscoverage level: with the target
``alpha``, a fixed rate ``gamma`` and ``err_t = 1`` if the label of row t was outside of its set,

    alpha_{t+1} = alpha_t + gamma (alpha - err_t)

Sets are full where ``alpha_t < 0`` and empty where ``alpha_t > 1``; in between they may be any sets
that do not depend on the label. A full set has no error and so raises the level, an empty one
lowers it. Hence all levels lie in ``[-gamma, 1 + gamma]``, more closely in
``[-gamma (1 - alpha), 1 + gamma alpha]``. The sum of all steps is ``gamma (alpha T - errors)``, so
over the rows 1 to T

    |errors / T - alpha| = |alpha_{T+1} - alpha_1| / (gamma T)
                         <= (max(alpha_1, 1 - alpha_1) + gamma) / (gamma T)

and over any n rows in a row, wherever they begin, at most ``(1 + gamma) / (gamma n)``. Nothing is
assumed about rows, labels or the learner.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from maxmargin.certificates.directed_rounding import text_down, text_up


@dataclass(frozen=True)
class Coverage:
    """The share of rows whose label was in the prediction set, before it was learned from.

    Attributes
    ----------
    target : float
        The share that was asked for.
    observed : float
        The share so far; NaN before the first row.
    bound : float
        By the theorem, `observed` differs from `target` by at most this, on any stream.
    rows : int
        Rows so far.
    mean_size : float
        The mean number of classes in a set; NaN before the first row.

    Examples
    --------
    >>> print(Coverage(target=0.9, observed=0.901, bound=0.02, rows=2000, mean_size=1.25))
    coverage 0.901 of 2000 rows (target 0.9, at most 0.02 away), 1.25 classes on average
    """

    target: float
    observed: float
    bound: float
    rows: int
    mean_size: float

    def __str__(self) -> str:
        return (
            f"coverage {text_down(self.observed, 4)} of {self.rows} rows (target {self.target:g}, "
            f"at most {text_up(self.bound, 4)} away), {self.mean_size:.2f} classes on average"
        )


def coverage_bound(rows: int, *, rate: float, start: float) -> float:
    """The largest distance of the share of errors from its target after so many rows.

    ``start`` is the first miscoverage level, ``alpha_1``.
    """
    _check_rate(rate)
    if not 0.0 <= start <= 1.0:
        raise ValueError(f"start must be between 0 and 1, got {start!r}.")
    return (max(start, 1.0 - start) + rate) / (rate * rows) if rows > 0 else math.inf


def window_bound(rows: int, *, rate: float) -> float:
    """The same for any so many consecutive rows, wherever in the stream they begin."""
    _check_rate(rate)
    return (1.0 + rate) / (rate * rows) if rows > 0 else math.inf


def _check_rate(rate: float) -> None:
    if not 0.0 < rate < math.inf:
        raise ValueError(f"rate must be a positive number, got {rate!r}.")
