"""Certificates: margins attained, and proved bounds on the best possible ones."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from maxmargin.certificates.directed_rounding import percent_down, text_down, text_up
from maxmargin.certificates.evidence import Evidence, added_by_kind


@dataclass(frozen=True)
class Certificate:
    """The margin attained, and a proved upper bound on the best possible one.

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
    evidence : Evidence, default=None
        The sums of rows that the bound rests on, for `merge`; kept by linear learners.

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
    evidence: Evidence | None = field(default=None, repr=False, compare=False)

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
        bound, margin = text_up(self.bound), text_down(self.margin)
        at_most = f"the best possible margin is at most {bound}"
        if math.isinf(self.bound):
            at_most = "nothing is proved about the best possible one"
        if math.isnan(self.margin):
            return f"margin not known; {at_most}"
        if self.margin <= 0.0:
            return f"margin {margin}, the data are not separated; {at_most}"
        if math.isinf(self.bound):
            return f"margin {margin}; {at_most}"
        return (
            f"margin {margin}, certified to be at least {percent_down(self.margin, self.bound)} % "
            f"of the best possible (at most {bound})"
        )

    @classmethod
    def weakest(
        cls, margins: np.ndarray, bounds: np.ndarray, evidence: Iterable[Evidence | None] = ()
    ) -> Certificate:
        """Join the certificates of several problems, given one margin and one bound for each."""
        behind = list(evidence) or [None] * len(margins)
        each = tuple(
            cls(float(margin), float(bound), evidence=sums)
            for margin, bound, sums in zip(margins, bounds, behind, strict=True)
        )
        return each[0] if len(each) == 1 else cls._of(each)

    @classmethod
    def _of(cls, each: tuple[Certificate, ...]) -> Certificate:
        worst = min(each, key=lambda one: tuple(np.nan_to_num([one.ratio, one.margin, one.bound])))
        return cls(worst.margin, worst.bound, each)

    @classmethod
    def merge(cls, parts: Iterable[Certificate]) -> Certificate:
        """The certificate of one classifier on all rows together, which were measured in parts.

        Parameters
        ----------
        parts : iterable of Certificate
            One for each set of rows (the shards of a cluster, say), no row in two of them. The
            margins must be those of one classifier; the bounds may come from any learner there.

        Returns
        -------
        Certificate
            The least margin, and the smallest bound: that of any part, for more rows allow no
            larger margin, or the one from the added sums of rows and masses of all parts. Of soft
            margins, where what each row lacks adds up, the margin is not known.

        Examples
        --------
        >>> print(Certificate.merge([Certificate(0.5, 1.0), Certificate(0.4, 0.8)]))
        margin 0.4, certified to be at least 50.00 % of the best possible (at most 0.8)
        """
        parts = list(parts)
        if not parts:
            raise ValueError("merge needs at least one certificate.")
        if len({len(part.classes) for part in parts}) > 1:
            raise ValueError("The certificates are not about the same number of classes.")
        if parts[0].classes:
            classes = zip(*(part.classes for part in parts), strict=True)
            return cls._of(tuple(map(cls.merge, classes)))
        margin = float(np.min([part.margin for part in parts]))  # NaN if one is not known
        if len(parts) > 1 and any(part.evidence and part.evidence.private for part in parts):
            margin = math.nan
        totals = added_by_kind(part.evidence for part in parts)
        bound = min([part.bound for part in parts] + [total.bound() for total in totals])
        return cls(margin, bound, evidence=totals[0] if len(totals) == 1 else None)


def geometric_margins(
    lowest: np.ndarray, weights: np.ndarray, width: int, p: float = 2.0
) -> np.ndarray:
    """Divide the lowest outputs by the dual norms of the weights, all but the intercept's."""
    features, q = np.delete(weights, width, axis=1), p / (p - 1.0)
    with np.errstate(invalid="ignore"):  # of weights that diverged
        if q > 2.0:  # large powers are those of numbers up to 1
            largest = np.abs(features).max(axis=1, initial=np.finfo(np.float64).tiny)
            norms = largest * np.linalg.norm(features / largest[:, None], ord=q, axis=1)
        else:
            norms = np.linalg.norm(features, ord=q, axis=1)
        return np.divide(lowest, norms, out=np.zeros_like(lowest), where=norms > 0.0)
