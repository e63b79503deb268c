"""What the arguments of theorems can be.

A bound is infinite where nothing is promised: for a margin that is not positive, a tolerance of 0,
or numbers whose squares overflow. An argument that no rows and no learner can have is a
`ValueError` that names it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from numbers import Integral, Real
from typing import Any

import numpy as np

from maxmargin._validation import Function, Interval, validate_params
from maxmargin.estimator.parameters import Exponents

POSITIVE: list[Any] = [Interval(Real, 0, None, closed="neither")]
NOT_NEGATIVE: list[Any] = [Interval(Real, 0, None, closed="left")]
FINITE: list[Any] = [Interval(Real, None, None, closed="neither")]
FRACTION: list[Any] = [Interval(Real, 0, 1, closed="both")]
BELOW_ONE: list[Any] = [Interval(Real, 0, 1, closed="left")]
FROM_ONE: list[Any] = [Interval(Real, 1, None, closed="left")]
COUNT: list[Any] = [Interval(Integral, 0, None, closed="left")]
COUNT_FROM_ONE: list[Any] = [Interval(Integral, 1, None, closed="left")]

# By their names, which mean the same in all theorems.
ARGUMENTS: dict[str, list[Any]] = {
    "radius": NOT_NEGATIVE,
    "diameter": NOT_NEGATIVE,
    "smallest": NOT_NEGATIVE,
    "norm": NOT_NEGATIVE,
    "margin": FINITE,
    "losses": NOT_NEGATIVE,
    "log_loss": NOT_NEGATIVE,
    "squared_losses": NOT_NEGATIVE,
    "comparison": NOT_NEGATIVE,
    "drift": NOT_NEGATIVE,
    "squared_drift": NOT_NEGATIVE,
    "p": [Exponents()],
    "distortion": FROM_ONE,
    "features": COUNT_FROM_ONE,
    "delta": FRACTION,
    "epsilon": FRACTION,
    "alpha": FRACTION,
    "beta": NOT_NEGATIVE,
    "threshold": NOT_NEGATIVE,
    "target": NOT_NEGATIVE,
    "rate": POSITIVE,
    "decay": NOT_NEGATIVE,
    "aggressive": ["boolean"],
    "C": [*POSITIVE, None],
    "lambda_": POSITIVE,
    "project": ["boolean"],
    "intercept_scaling": POSITIVE,
    "f_min": NOT_NEGATIVE,
    "f_max": NOT_NEGATIVE,
    "spread": [Interval(Real, 1, None, closed="both")],
    "start": COUNT_FROM_ONE,
    "k": [*COUNT_FROM_ONE, None],
    "budget": COUNT_FROM_ONE,
    "trials": COUNT_FROM_ONE,
    "mistakes": COUNT,
    "switches": COUNT,
    "experts": COUNT_FROM_ONE,
    "share": BELOW_ONE,
    "margin_errors": [*COUNT, None],
    "rho": NOT_NEGATIVE,
    "rho_min": NOT_NEGATIVE,
    "tau": BELOW_ONE,
    "r": POSITIVE,
    "l1": NOT_NEGATIVE,
    "l2": NOT_NEGATIVE,
    "norm1": NOT_NEGATIVE,
    "deviation": NOT_NEGATIVE,
    "gradients": NOT_NEGATIVE,
}


def validates(**own: list[Any]) -> Callable[[Function], Function]:
    """Checks arguments; ``own`` are constraints on those that mean something else there."""
    return validate_params(ARGUMENTS | own, prefer_skip_nested_validation=False)


def bound(nothing: float = math.inf, **own: list[Any]) -> Callable[[Function], Function]:
    """Decorates a theorem, which is validated.

    It promises ``nothing`` where its arithmetic overflows, or ends in NaN: infinity for a bound
    from above, 0 for one from below.
    """

    def decorate(theorem: Function) -> Function:
        @wraps(theorem)
        def safe(*args: Any, **kwargs: Any) -> float:
            try:
                with np.errstate(all="ignore"):  # of arguments that are numbers of NumPy
                    found = float(theorem(*args, **kwargs))
            except (OverflowError, ZeroDivisionError):
                return nothing
            return nothing if math.isnan(found) else found

        return validates(**own)(safe)  # type: ignore[return-value]

    return decorate


def squared_ratio(radius: float, margin: float, least: float = 1.0) -> float:
    """``(radius / margin)**2``, infinite unless the margin is positive.

    No margin exceeds ``radius / least``, but for rounding: ValueError if this one does.
    """
    if margin <= 0.0:
        return math.inf
    ratio = radius / margin
    if ratio < least * (1.0 - 1e-6):
        raise ValueError(
            f"The 'margin' parameter must be at most {radius / least:g}, which no margin of such "
            f"rows exceeds. Got {margin:g} instead."
        )
    return max(ratio, least) * max(ratio, least)


def quotient(above: float, below: float) -> float:
    """``above / below``, infinite where nothing is below."""
    return above / below if below > 0.0 else math.inf


def check_factors(f_min: float, f_max: float) -> None:
    """Raise unless the smallest factor is at most the largest."""
    if f_min > f_max:
        raise ValueError(f"The 'f_min' parameter must be at most f_max={f_max}. Got {f_min}.")
