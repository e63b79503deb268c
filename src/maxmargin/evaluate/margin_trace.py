"""Margin and bound during a fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import ClassifierMixin, clone

from maxmargin.certificates import Certificate, geometric_margins

# A run is measured whenever the number of trials has grown by this factor.
GROWTH = 1.2
# Plots of runs show up to this multiple of the best possible margin.
HEADROOM = 2.5


class Moment(NamedTuple):
    """Margin and bound after a number of updates."""

    updates: int
    margin: float
    bound: float


def replay(clf: ClassifierMixin, X: Any, y: Any) -> Iterator[Moment]:
    """Repeat a fit without shuffling in growing steps; only its end if it has no `partial_fit`.

    With several classes, one-vs-rest, yields margin and bound of the weakest one.
    """
    if not hasattr(clf, "partial_fit"):
        yield _moment(clf, X, y, clf.certificate_)
        return
    rows = X.shape[0]
    copy, done, end = clone(clf), 0, clf.n_iter_ * X.shape[0]
    for trials in _growing(end):
        while done < trials:
            start = done % rows
            part = slice(start, min(start + trials - done, rows))
            copy.partial_fit(X[part], y[part], classes=clf.classes_)
            done += part.stop - part.start
        # The fit, which sees all rows at once, may prove a better bound.
        yield _moment(copy, X, y, (clf if done == end else copy).certificate_)


def _growing(end: int) -> Iterator[int]:
    """1, 2, 3, ..., then a geometric sequence, up to ``end``."""
    number = 1
    while number < end:
        yield number
        number = math.ceil(GROWTH * number)
    yield end


def _moment(clf: ClassifierMixin, X: Any, y: Any, proved: Certificate) -> Moment:
    bounds = np.array([each.bound for each in proved.classes or (proved,)])
    weakest = Certificate.weakest(margins_of(clf, X, y), bounds)
    return Moment(clf.n_updates_, weakest.margin, weakest.bound)


def margins_of(clf: ClassifierMixin, X: Any, y: Any) -> np.ndarray:
    """The geometric margin of each hyperplane."""
    outputs = clf.decision_function(X).reshape(len(y), -1)
    positive = clf.classes_[1:] if outputs.shape[1] == 1 else clf.classes_
    lowest = np.where(np.asarray(y)[:, np.newaxis] == positive, outputs, -outputs).min(axis=0)
    weights = np.column_stack([clf.coef_, clf.intercept_])
    return geometric_margins(lowest, weights, clf.coef_.shape[1], float(getattr(clf, "p", 2.0)))


def draw_run(
    axes: Any,
    moments: Sequence[Moment],
    ceiling: float,
    margin: dict[str, Any],
    bound: dict[str, Any],
) -> list[Any]:
    """Draw margin and bound with these styles, and fill the area between them.

    Bounds, which may be infinite, are clipped at ``ceiling``, above the visible range.
    """
    updates, margins, bounds = np.array(moments).T
    bounds = np.minimum(bounds, ceiling)
    between = np.maximum(margins, 0.0), bounds
    axes.fill_between(updates, *between, color=bound["color"], alpha=0.12, linewidth=0)
    lines = []
    for values, style in ((bounds, bound), (margins, margin)):
        lines += axes.plot(updates, values, **style)
        end = {"color": style["color"], "markersize": 3.5, "clip_on": False}
        axes.plot(updates[-1], values[-1], "o", **end)
    return lines
