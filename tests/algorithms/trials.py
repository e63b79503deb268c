"""Single trials, as a rule sees them, and what its step makes of them."""

import math
from typing import NamedTuple

from hypothesis import strategies as st

from maxmargin.core.rule import Trial


def _seen(
    log_xx: float, log_ww: float, cosine: float, log_excess: float, k: int, quiet: int
) -> Trial:
    xx, ww = 10.0**log_xx, 10.0**log_ww
    margin = cosine * math.sqrt(xx) * math.sqrt(ww)
    return Trial(margin, ww, xx, largest_xx=xx * 10.0**log_excess, t=k + 1 + quiet, k=k)


def trials(
    log_xx: float = 3.0, log_ww: float = 3.0, cosine: float = 1.0
) -> st.SearchStrategy[Trial]:
    """Strategy for trials with w not 0; the arguments limit ``|log10(x.x)|``, ... from above."""
    return st.builds(
        _seen,
        log_xx=st.floats(-log_xx, log_xx),
        log_ww=st.floats(-log_ww, log_ww),
        cosine=st.floats(-cosine, cosine),
        log_excess=st.floats(0.0, 1.0),
        k=st.integers(0, 10**6),
        quiet=st.integers(0, 10**6),
    )


class After(NamedTuple):
    """The new w' after a step: its margin y w'.x, w'.w' and w'.w."""

    margin: float
    ww: float
    along: float


def after(rule, seen: Trial) -> After:
    """Follow the scalars through a step and the projection after it."""
    shrink, step = rule.step(seen)
    margin = shrink * seen.margin + step * seen.xx
    along = shrink * seen.ww + step * seen.margin
    ww = shrink * along + step * margin
    scale = rule.project(ww)
    return After(scale * margin, scale**2 * ww, scale * along)
