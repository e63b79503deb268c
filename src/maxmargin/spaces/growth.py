"""Spaces for more features, and for more problems, that know what smaller ones knew."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxmargin.spaces.joint import JointWitness
from maxmargin.spaces.linear import LinearSpace, aligned_zeros
from maxmargin.spaces.pair import PairSpace
from maxmargin.spaces.pnorm import PNorm, new_pnorm
from maxmargin.spaces.witness import Witness


def with_width(vectors: np.ndarray, before: int, width: int) -> np.ndarray:
    """Weight-like vectors for ``width`` features in place of ``before``.

    New features have weight 0, and only such may go; the last coordinate is the intercept's.
    """
    wider = aligned_zeros(vectors.shape[0], width + 1)
    both = min(before, width)
    wider[:, :both] = vectors[:, :both]
    wider[:, width] = vectors[:, before]
    return wider


def grown_linear(space: LinearSpace, width: int, which: Sequence[int]) -> LinearSpace:
    """The space for ``width`` features in which problem c continues problem ``which[c]``."""

    def grown(vectors: np.ndarray) -> np.ndarray:
        if vectors.shape[0] == 0:
            return np.zeros((0, width + 1))
        return with_width(vectors[which], space.width, width)

    geometry, witness = space.geometry, space.witness
    if isinstance(geometry, PNorm):
        kept = {
            name: getattr(geometry, name)[which].copy()
            for name in ("sums", "lows", "slops", "gains", "evaluations")
        }
        larger = new_pnorm(geometry.p, len(which), width + 1)
        geometry = larger._replace(powers=grown(geometry.powers), **kept)
    else:
        geometry = geometry._replace(width=width)
    if isinstance(witness, Witness):
        witness = Witness(
            share=grown(witness.share),
            mark=grown(witness.mark),
            mark_share=grown(witness.mark_share),
            average=grown(witness.average),
            split=witness.split,
        )
    else:
        witness = JointWitness(*(grown(each) for each in witness))
    scalars = space.scalars[which].copy().view(np.recarray)
    return LinearSpace(geometry, width, grown(space.weights), scalars, witness)


def grown_pair(space: PairSpace, linear: LinearSpace, which: Sequence[int]) -> PairSpace:
    """The same for pairs, over the linear space that has grown already."""
    lines = [2 * c + side for c in which for side in (0, 1)]
    members = with_width(space.members[[*lines, -1]], space.linear.width, linear.width)
    return PairSpace(
        linear=linear,
        bias=space.bias[which].copy(),
        members=members,
        numbers=space.numbers[which].copy(),
        squares=space.squares[which].copy(),
        private=space.private[which].copy(),
    )
