"""How good is a linear classifier, at least? Margins reached, and bounds on the best possible."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Certificate:
    """A margin reached, and a proved upper bound on the best possible one.

    Both are geometric margins in the user's own space, ``min_i y_i (w.x_i + b) / |w|``: the
    distance from the hyperplane to the nearest example (negative if an example is on the wrong
    side). With more than two classes each class is separated from the rest and has a certificate of
    its own; the numbers outside are those of the class with the smallest ratio.

    Parameters
    ----------
    margin : float
        The margin reached on the training data; NaN where it is not known (after `partial_fit`,
        which does not see the data of earlier calls).
    bound : float
        No hyperplane has a larger margin on the training data; infinite if nothing is proved.
    classes : tuple of Certificate
        One per class if there are more than two, else empty.

    Examples
    --------
    >>> print(Certificate(margin=0.98, bound=1.0))
    margin 0.98, certified to be at least 98.00 % of the best possible (at most 1)
    >>> Certificate(margin=0.98, bound=1.0).ratio
    0.98
    """

    margin: float
    bound: float
    classes: tuple[Certificate, ...] = ()

    @property
    def ratio(self) -> float:
        """The guarantee: the margin reached is at least this fraction of the best possible one.

        0 if the data are not separated or nothing is proved, NaN if the margin is not known.
        """
        if math.isnan(self.margin):
            return math.nan
        if self.margin <= 0.0 or self.bound <= 0.0 or math.isinf(self.bound):
            return 0.0
        return self.margin / self.bound

    def __str__(self) -> str:
        at_most = f"the best possible margin is at most {self.bound:.6g}"
        if math.isinf(self.bound):
            at_most = "nothing is proved about the best possible one"
        if math.isnan(self.margin):
            return f"margin not known; {at_most}"
        if self.margin <= 0.0:
            return f"margin {self.margin:.6g}, the data are not separated; {at_most}"
        if math.isinf(self.bound):
            return f"margin {self.margin:.6g}; {at_most}"
        return (
            f"margin {self.margin:.6g}, certified to be at least {100 * self.ratio:.2f} % "
            f"of the best possible (at most {self.bound:.6g})"
        )

    @classmethod
    def weakest(cls, margins: np.ndarray, bounds: np.ndarray) -> Certificate:
        """Join the certificates of several problems, given one margin and one bound for each."""
        each = tuple(cls(float(m), float(b)) for m, b in zip(margins, bounds, strict=True))
        if len(each) == 1:
            return each[0]
        worst = min(each, key=lambda one: tuple(np.nan_to_num([one.ratio, one.margin, one.bound])))
        return cls(worst.margin, worst.bound, each)


def hull_mixture(
    coefs: np.ndarray, own: np.ndarray, intercept: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of rows whose sum is as long as the best margin at least, for each problem.

    ``own`` says which rows are positive ones. Only coefficients with the sign of their rows count;
    with an intercept both classes get mass 1/2, without one all rows together mass 1. The second
    array says where there are such coefficients; elsewhere the first one is 0.
    """
    positive = np.where(own, np.maximum(coefs, 0.0), 0.0)
    negative = np.where(own, 0.0, np.maximum(-coefs, 0.0))
    masses = positive.sum(axis=1), negative.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        if intercept:
            proved = np.minimum(*masses) > 0.0
            mixture = 0.5 * (positive / masses[0][:, None] - negative / masses[1][:, None])
        else:
            proved = masses[0] + masses[1] > 0.0
            mixture = (positive - negative) / (masses[0] + masses[1])[:, None]
    mixture[~proved] = 0.0
    return mixture, proved


def geometric_margins(
    lowest: np.ndarray, weights: np.ndarray, width: int, p: float = 2.0
) -> np.ndarray:
    """Divide the lowest outputs by the dual norms of the weights, all but the intercept's."""
    norms = np.linalg.norm(np.delete(weights, width, axis=1), ord=p / (p - 1.0), axis=1)
    with np.errstate(invalid="ignore"):  # of weights that diverged
        return np.divide(lowest, norms, out=np.zeros_like(lowest), where=norms > 0.0)
