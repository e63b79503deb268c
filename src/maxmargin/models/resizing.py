"""Weights for more features, more problems, or all new rows, or none of it, which know the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.models.base import aligned_zeros
from maxmargin.spaces.certificate_vectors import Witness
from maxmargin.spaces.joint_space import JointWitness
from maxmargin.spaces.linear_space import LinearSpace
from maxmargin.spaces.pair_space import FOREIGN, POSITIVE, PairSpace
from maxmargin.spaces.pnorm import PNorm, new_pnorm
from maxmargin.spaces.problem_scalars import Scalars

# More are not copied for less than as many numbers to learn from.
MOST_COPIED_WEIGHTS = 2**16


# --------------------------------------------------------------------- more features, more problems
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
            for name in ("units", "sums", "lows", "sum_errors", "gains", "evaluations")
        }
        larger = new_pnorm(geometry.p, len(which), width + 1)
        geometry = larger._replace(powers=grown(geometry.powers), **kept)
    else:
        geometry = geometry._replace(width=width)
    if isinstance(witness, Witness):
        witness = witness._replace(
            share=grown(witness.share),
            mark=grown(witness.mark),
            mark_share=grown(witness.mark_share),
            average=grown(witness.average),
        )
    else:
        witness = witness._replace(average=grown(witness.average), mark=grown(witness.mark))
    if witness.past.size:
        witness = witness._replace(past=witness.past[which].copy().view(np.recarray))
    scalars = Scalars(space.scalars.table[which].copy().view(np.recarray))
    return type(space)(geometry, width, grown(space.weights), scalars, witness)


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
        room=members[-1:],
    )


# --------------------------------------------------------------------------- rows that are all new
def without_private_coordinates(space: LinearSpace) -> LinearSpace:
    """The same weights, with what was private summed up."""
    private, kept = space.weights[:, space.width + 1 :], slice(0, space.width + 1)
    table = space.scalars.table.copy()
    table.hidden_positive += (np.maximum(private, 0.0) ** 2).sum(axis=1)
    table.hidden_negative += (np.minimum(private, 0.0) ** 2).sum(axis=1)
    # A sum of squares cannot be split at the last snapshot any more: take a new one.
    for name in ("positive", "negative", "hidden_positive", "hidden_negative"):
        table[f"mark_{name}"] = table[name]

    def cut(array: np.ndarray) -> np.ndarray:
        return array[:, kept].copy()  # also of a single line, for each vector moves by itself

    witness = space.witness._replace(
        share=cut(space.witness.share),
        mark=cut(space.weights[: space.witness.mark.shape[0]]),
        mark_share=cut(space.witness.share),
        average=cut(space.witness.average),
        past=space.witness.past.copy(),
    )
    return space._replace(weights=cut(space.weights), scalars=Scalars(table), witness=witness)


def without_private_members(space: PairSpace, linear: LinearSpace) -> PairSpace:
    """The same pairs over ``linear``, from which the private coordinates have been removed.

    After a warm start a row may find in its coordinate what a row of the other class has left
    there. Steps along it lessen that, and so the sum of all squares, which then says nothing about
    the steps.
    """
    private, numbers = space.private.copy(), space.numbers.copy()
    for c, side in np.argwhere(space.numbers >= 0):
        left = space.linear.weights[c, space.linear.width + 1 + space.numbers[c, side]]
        private[c, side] = left
        if left < 0.0 if side == POSITIVE else left > 0.0:
            numbers[c, side] = FOREIGN
    members = space.members[:, : linear.width + 1].copy()
    return PairSpace(
        linear=linear,
        bias=space.bias.copy(),
        members=members,
        numbers=numbers,
        squares=space.squares.copy(),
        private=private,
        room=members[-1:],
    )


def without_private_blocks(space: LinearSpace) -> LinearSpace:
    """The same for classes that are learnt together."""
    kept = slice(0, space.width + 1)
    table = space.scalars.table.copy()
    table.hidden_positive[0] += (space.weights[:, space.width + 1 :] ** 2).sum()
    table.mark_positive[0], table.mark_negative[0] = table.positive[0], table.negative[0]
    table.mark_hidden_positive[0] = table.hidden_positive[0]
    weights, average = space.weights[:, kept].copy(), space.witness.average[:, kept].copy()
    witness = JointWitness(average, space.witness.past.copy(), weights.copy())
    return space._replace(weights=weights, scalars=Scalars(table), witness=witness)


# ------------------------------------------------------------------------------ the same once more
def copied(part: Any, made: dict[int, Any]) -> Any:
    """A part of a model with arrays of its own; what was one part is one afterwards."""
    if id(part) not in made:
        if isinstance(part, np.ndarray):
            made[id(part)] = part.copy()
        elif isinstance(part, tuple):
            made[id(part)] = tuple.__new__(type(part), [copied(each, made) for each in part])
        else:
            return part
    return made[id(part)]


def streaming(model: Any, rows: int, alone: bool) -> Any:
    """What is to learn from so many rows of a stream: the model, or a twin, if that can be had."""
    if model.p != 2.0 and model.tail.private > 0.0:
        raise ValueError(
            f"partial_fit cannot keep a soft margin with p={model.p}; use fit, or p=2."
        )
    if model.private_coordinates():
        model = model._without_private_coordinates()
    else:
        is_small = model.linear.weights.size <= max(MOST_COPIED_WEIGHTS, rows * model.width())
        beside = (rows > 1 and is_small) or model.knows_numbers()
        model = model.twin() if beside and not alone else model
    model.begin_rows()
    return model
