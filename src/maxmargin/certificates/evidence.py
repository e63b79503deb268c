"""The sums behind bounds, which can be added up over machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from maxmargin.certificates.bounds import Hull, hull_bounds
from maxmargin.spaces.euclid import Euclid
from maxmargin.spaces.pnorm import new_pnorm
from maxmargin.spaces.problem_scalars import ALL_COEFFICIENTS, SCALARS, Scalars


class Evidence(NamedTuple):
    """The sums behind the bound of one problem.

    Attributes
    ----------
    p : exponent of the norm of rows
    intercept : hyperplanes may have one
    private : the private coordinate of each row, for a soft margin
    split : the bound must equalise the masses of the classes
    vectors : the sums of all rows and of the positive ones, without the intercept's coordinate
    masses : the sums of coefficients of positive and negative rows
    hidden : the sums of squares in private coordinates for both
    updates : the number of roundings of the sums
    radius : the largest norm of a row
    """

    p: float
    intercept: bool
    private: float
    split: bool
    vectors: np.ndarray
    masses: tuple[float, float]
    hidden: tuple[float, float]
    updates: int
    radius: float

    def bound(self) -> float:
        """The bound that follows from these sums."""
        (size,), none = self.vectors.shape[1:], np.zeros((0, self.vectors.shape[1] + 1))
        both, positive = np.pad(self.vectors, ((0, 0), (0, 1)))[:, None]
        record = np.zeros(1, SCALARS).view(np.recarray)
        record.scale, record.bound, record.certifiable = 1.0, np.inf, ALL_COEFFICIENTS
        record.updates = self.updates
        record.positive, record.negative = self.masses
        record.hidden_positive, record.hidden_negative = self.hidden
        geometry = Euclid(2.0, size) if self.p == 2.0 else new_pnorm(self.p, 1, size + 1)
        share = positive if self.split else none
        mark = np.zeros_like(share)
        hull = Hull(
            geometry, size, self.split, both, mark, share, mark, Scalars(record), self.radius
        )
        return float(hull_bounds(hull)[0])


def mixture_length(sums: np.ndarray, masses: np.ndarray, hidden: np.ndarray, split: bool) -> float:
    """The plain or split bound without rounding; infinite if nothing is proved.

    Arrays have one entry for positive and one for negative rows.
    """
    if split:
        if min(masses) <= 0.0:
            return np.inf
        mean = sums[0] / masses[0] - sums[1] / masses[1]
        return 0.5 * float(np.sqrt(mean @ mean + (hidden / masses**2).sum()))
    if masses.sum() <= 0.0:
        return np.inf
    total = sums[0] - sums[1]
    return float(np.sqrt(total @ total + hidden.sum()) / masses.sum())


def evidence_of(hull: Hull, features: int, intercept: bool, private: float) -> list[Evidence]:
    """The sums behind the bounds of each problem; [] if they cannot be added up over machines.

    They cannot if vectors are not kept, or if private coordinates, which belong to rows of one
    machine, cannot be summed as squares. Rows have at most ``features`` features.
    """
    p, width = float(hull.geometry.p), hull.width
    recorded = hull.weights.shape[1] > width + 1
    if (hull.split and hull.share.shape[0] == 0) or (recorded and p != 2.0):
        return []
    found = []
    for c, record in enumerate(hull.scalars.table):
        size = abs(float(record.scale)) if record.certifiable == ALL_COEFFICIENTS else 0.0
        share = hull.share[c] if hull.split else hull.weights[c]
        both = np.stack([hull.weights[c], share])
        own, rest = (both[1, width + 1 :] ** 2).sum(), ((both[0] - both[1])[width + 1 :] ** 2).sum()
        found.append(
            Evidence(
                p=p,
                intercept=intercept,
                private=private,
                split=hull.split,
                vectors=size * both[:, :features],
                masses=(size * record.positive, size * record.negative),
                hidden=(
                    size**2 * (record.hidden_positive + own),
                    size**2 * (record.hidden_negative + rest),
                ),
                updates=int(record.updates),
                radius=hull.radius,
            )
        )
    return found


def added(parts: Sequence[Evidence]) -> Evidence:
    """The evidence of several disjoint sets of rows together, all split or none."""
    return parts[0]._replace(
        vectors=np.sum([part.vectors for part in parts], axis=0),
        masses=tuple(np.sum([part.masses for part in parts], axis=0).tolist()),
        hidden=tuple(np.sum([part.hidden for part in parts], axis=0).tolist()),
        updates=sum(part.updates + 2 for part in parts),
        radius=max(part.radius for part in parts),
    )


def added_by_kind(parts: Iterable[Evidence | None]) -> list[Evidence]:
    """The sums of all known parts, separately for split and other evidence."""
    known = [part for part in parts if part is not None]
    if len({(part.p, part.intercept, part.private) for part in known}) > 1:
        raise ValueError(
            "Certificates in different norms, with and without intercept, or with different soft "
            "margins cannot be merged."
        )
    if len({part.vectors.shape for part in known}) > 1:
        raise ValueError("Certificates for different numbers of features cannot be merged.")
    groups = [[one for one in known if one.split == split] for split in (False, True)]
    return [added(group) for group in groups if group]
