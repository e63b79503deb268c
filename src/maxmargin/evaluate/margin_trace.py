"""Margin and bound on the way of a fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import ClassifierMixin, clone

from maxmargin.certificates import Certificate, geometric_margins

# A run is measured each time the trials have grown by this factor.
GROWTH = 1.2
# Pictures of runs reach up to this multiple of the best possible margin.
HEADROOM = 2.5


class Moment(NamedTuple):
    """How far a run had come."""

    updates: int
    margin: float
    bound: float


def replay(clf: ClassifierMixin, X: Any, y: Any) -> Iterator[Moment]:
    """The run of a fit without shuffling once more, in pieces that grow; or its end alone.

    ``clf`` is the fitted learner, one-vs-rest if there are more than two classes: of these, the
    margin and the bound of the weakest are given.
    """
    if not hasattr(clf, "partial_fit"):
        yield _moment(clf, X, y, clf.certificate_)
        return
    rows = X.shape[0]
    again, done, end = clone(clf), 0, clf.n_iter_ * X.shape[0]
    for trials in _growing(end):
        while done < trials:
            start = done % rows
            piece = slice(start, min(start + trials - done, rows))
            again.partial_fit(X[piece], y[piece], classes=clf.classes_)
            done += piece.stop - piece.start
        # A fit, which sees all rows, may prove more than its pieces can.
        yield _moment(again, X, y, (clf if done == end else again).certificate_)


def _growing(end: int) -> Iterator[int]:
    """1, 2, 3, ... and then in steps that grow like the numbers, up to ``end``."""
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
    """The distance from each hyperplane to the nearest row, negative on the wrong side."""
    lowest = _signed_outputs(clf, X, y).min(axis=0)
    weights = np.column_stack([clf.coef_, clf.intercept_])
    return geometric_margins(lowest, weights, clf.coef_.shape[1], float(getattr(clf, "p", 2.0)))


def _signed_outputs(clf: ClassifierMixin, X: Any, y: Any) -> np.ndarray:
    """The outputs of all rows and problems, positive on the right side."""
    outputs = clf.decision_function(X).reshape(len(y), -1)
    positive = clf.classes_[1:] if outputs.shape[1] == 1 else clf.classes_
    return np.where(np.asarray(y)[:, np.newaxis] == positive, outputs, -outputs)


def end_of(clf: ClassifierMixin, X: Any, y: Any) -> tuple[Moment, np.ndarray]:
    """What a fit has certified, and the margin of each row, of the weakest problem.

    With a soft margin a certificate is about rows with a coordinate of their own, by which each row
    has an output of at least 1: there the margins of rows are their outputs, without that
    coordinate, times the certified margin. So rows below it are those that need slack.
    """
    proved = clf.certificate_
    each = proved.classes or (proved,)
    shown = [(one.margin, one.bound) for one in each].index((proved.margin, proved.bound))
    if getattr(clf, "soft_margin", 0.0) > 0.0:
        scale = proved.margin
    else:
        scale = 1.0 / max(np.linalg.norm(clf.coef_[shown]), np.finfo(float).tiny)
    moment = Moment(getattr(clf, "n_updates_", 0), proved.margin, proved.bound)
    return moment, scale * _signed_outputs(clf, X, y)[:, shown]


def draw_run(
    axes: Any,
    moments: Sequence[Moment],
    ceiling: float,
    margin: dict[str, Any],
    bound: dict[str, Any],
) -> list[Any]:
    """The two lines of a run, with these styles, and what is between them.

    Bounds above the ``ceiling``, which is out of sight, are drawn there: some are infinite.
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
