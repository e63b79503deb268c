"""NOCApm as printed, where the library's `NOCA` is different, and the theorems about it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from maxmargin import NOCA
from maxmargin._validation import Interval, StrOptions
from maxmargin.spaces.gaussian_mixture import Mixture

# Densities beyond the exponential of this are infinite.
LARGEST_LOG = 700.0


class OfAnyClass(Mixture):
    """Components of which the nearest is asked for, whatever its class."""

    __slots__ = ()

    def nearest(self, own):  # type: ignore[no-untyped-def]
        best = -1
        for k in range(self.state[0].components):
            if best < 0 or self.distances[k] < self.distances[best]:
                best = k
        return best


class MeanSquares(Mixture):
    """Components whose variances follow the squares of rows, not those of gaps to the mean."""

    __slots__ = ()

    def join_in(self, k, least):  # type: ignore[no-untyped-def]
        size = self.sizes[k]
        for j in range(self.row.size):
            x = self.row[j]
            self.means[k, j] = (size * self.means[k, j] + x) / (size + 1.0)
            variance = (size * self.variances[k, j] + x * x) / (size + 1.0)
            self.variances[k, j] = max(least, variance)
        self.sizes[k] = size + 1
        self.state[0].rows += 1
        self.set_level(k)


class MeanSquaresOfAnyClass(MeanSquares):
    """Both."""

    __slots__ = ()
    nearest = OfAnyClass.nearest


class Densities(Mixture):
    """Components of equal weight, and margins between the densities of classes themselves."""

    __slots__ = ()

    def weigh(self):  # type: ignore[no-untyped-def]
        for c in range(self.outputs.size):
            self.outputs[c] = -math.inf
        for k in range(self.state[0].components):
            square, distance = 0.0, 0.0
            for j in range(self.row.size):
                gap = self.row[j] - self.means[k, j]
                distance += gap * gap
                square += gap * gap / self.variances[k, j]
            self.distances[k] = distance
            self.logs[k] = self.levels[k] - 0.5 * square
            c = self.owners[k]
            top = max(self.outputs[c], self.logs[k])
            below = math.exp(self.outputs[c] - top) + math.exp(self.logs[k] - top)
            self.outputs[c] = top + math.log(below)

    def lead(self, own):  # type: ignore[no-untyped-def]
        rival = -math.inf
        for c in range(self.outputs.size):
            if c != own:
                rival = max(rival, self.outputs[c])
        gap = self.outputs[own] - rival if self.outputs[own] != rival else 0.0
        if gap == 0.0:
            return 0.0
        top = max(self.outputs[own], rival) + math.log(-math.expm1(-abs(gap)))
        size = math.exp(min(LARGEST_LOG, top))
        return size if gap > 0.0 else -size


READINGS: dict[str, type[Mixture]] = {
    "variances": MeanSquares,
    "nearest": OfAnyClass,
    "variances and nearest": MeanSquaresOfAnyClass,
    "densities": Densities,
}


@dataclass(eq=False, repr=False, kw_only=True)
class PrintedNOCA(NOCA):
    """`NOCA` with a part of the method as printed, for streams of rows.

    Parameters
    ----------
    reading : {"variances", "nearest", "variances and nearest", "densities"}
        What is as printed: variances are mean squares of the features, and depend on the origin;
        rows join the nearest component of any class, which keeps its label, so a class whose first
        row comes after `rho_min` or `max_components` is reached has none; margins are differences
        of the densities of components of equal weight, and depend on the scale of the data. The
        theorems are about the last.
    **parameters
        Of `NOCA`; with densities `rho` can be any number from 0.
    """

    reading: str = "variances and nearest"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NOCA._parameter_constraints,
        "rho": [Interval(Real, 0, None, closed="left")],
        "reading": [StrOptions(set(READINGS))],
    }

    @property
    def _components(self) -> type[Mixture]:  # type: ignore[override]
        return READINGS[self.reading]


def max_margin_errors(
    norm: float,
    margin: float,
    losses: float = 0.0,
    *,
    width: float,
    features: int,
    rho: float = 0.1,
    tau: float = 0.9,
) -> float:
    """Theorem 2, (13): bound on margin errors, as long as nothing else changes a component.

    ``(B**2 + 2 L + 2 rho / (1 - tau)) / (2 rho' - X**2)``, where ``X**2 = (2 pi
    width**2)**(-features / 2)`` is the density of a new component at its mean; infinite unless ``2
    rho'`` is above it.

    Parameters
    ----------
    norm, margin : float
        The length B of any function g of the space whose kernel is the density of a new component,
        ``K(x, x') = N(x; x', width**2)``, and any margin rho'.
    losses : float
        The sum L of its hinge losses ``max(0, rho' - y g(x))``.
    width, features, rho, tau
        The learner's, which reads densities and has room for all components.
    """
    return _errors(_peak(width, features), rho, tau, margin, norm**2 + 2.0 * losses)


def max_margin_errors_reestimated(
    norm: float,
    margin: float,
    losses: float = 0.0,
    *,
    quiet: int,
    components: int,
    width: float,
    features: int,
    floor: float,
    rho: float = 0.1,
    tau: float = 0.9,
) -> float:
    """Theorem 3, corrected: bound on margin errors when other rows change components.

    `max_margin_errors` with ``2 Q (sqrt(2) B W + K W**2 + W**2)`` added to the numerator, after
    ``quiet`` Q rows without a margin error and with at most ``components`` K. No component is
    longer than W, ``W**2 = (2 pi width**2 (2 floor**2 - 1))**(-features / 2)``, so ``floor`` must
    be above ``sqrt(1/2)``. Each quiet row costs more than one margin error: the bound says little
    unless they are few. Proof, and what is wrong with the printed one, in ``docs/theory.md``.
    """
    kept = 2.0 * min(floor, 1.0) ** 2 - 1.0
    if kept <= 0.0:
        return math.inf
    longest = _peak(width * math.sqrt(kept), features)
    moved = norm * math.sqrt(2.0 * longest) + (components + 1) * longest
    known = norm**2 + 2.0 * losses + 2.0 * quiet * moved
    return _errors(_peak(width, features), rho, tau, margin, known)


def _peak(width: float, features: int) -> float:
    """The density of a component at its mean."""
    return (2.0 * math.pi * width**2) ** (-0.5 * features)


def _errors(peak: float, rho: float, tau: float, margin: float, known: float) -> float:
    rest = 2.0 * margin - peak
    return (known + 2.0 * rho / (1.0 - tau)) / rest if rest > 0.0 else math.inf
