"""Streams meet new columns and new classes."""

from __future__ import annotations

import numpy as np

from maxmargin.estimator.platt import copied_maps
from maxmargin.estimator.state import State


def grown(state: State, width: int, classes: np.ndarray) -> State:
    """The state for rows of ``width`` columns, and these classes."""
    model, before = state.model, state.classes
    if width == model.width() and classes.size == before.size:
        return state
    codes = np.searchsorted(classes, before)
    if classes.size == before.size:
        which = list(range(model.problems()))
    elif not state.spare:
        new = np.setdiff1d(classes, before).tolist()
        raise ValueError(
            f"y contains new classes, {new}: they can be learnt only if the first call of "
            "partial_fit was made with grow=True."
        )
    else:
        which = [before.size] * (classes.size + 1)
        for old, code in enumerate(codes):
            which[code] = old
    maps = state.calibration and copied_maps(state.calibration, width, which)
    totals = state.totals
    if totals is not None:
        totals = np.zeros(classes.size + 1)
        totals[np.append(codes, classes.size)] = state.totals
    model = model.streaming(1).grown(width, which, codes)
    return state._replace(model=model, classes=classes, totals=totals, calibration=maps)
