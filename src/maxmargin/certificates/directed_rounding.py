"""Numbers as text that is rounded in one direction, so that a printed statement stays true.

The shortest decimal text of a float stands for the float: the text of 0.98 is 0.98 in both
directions, and reading the text of a bound never gives a smaller float than the bound.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal


def text_up(value: float, digits: int = 6) -> str:
    """At least ``value``, with at most this many significant digits: for upper bounds.

    Examples
    --------
    >>> text_up(0.5108303130)
    '0.510831'
    """
    return _text(value, Context(prec=digits, rounding=ROUND_CEILING))


def text_down(value: float, digits: int = 6) -> str:
    """At most ``value``, with at most this many significant digits: for what was attained."""
    return _text(value, Context(prec=digits, rounding=ROUND_FLOOR))


def percent_down(part: float, whole: float, decimals: int = 2) -> str:
    """``100 part / whole`` for a positive ``whole``, rounded down to so many decimals."""
    return _percent(part, whole, decimals, ROUND_FLOOR)


def percent_up(part: float, whole: float, decimals: int = 2) -> str:
    """The same, rounded up."""
    return _percent(part, whole, decimals, ROUND_CEILING)


def _percent(part: float, whole: float, decimals: int, rounding: str) -> str:
    precise = Context(prec=40, rounding=rounding)
    percent = precise.divide(100 * Decimal(repr(float(part))), Decimal(repr(float(whole))))
    return str(percent.quantize(Decimal(1).scaleb(-decimals), rounding, precise))


def _text(value: float, context: Context) -> str:
    value = float(value)
    if not math.isfinite(value) or value == 0.0:
        return f"{value:g}"
    return f"{float(context.create_decimal(repr(value))):.{context.prec}g}"
