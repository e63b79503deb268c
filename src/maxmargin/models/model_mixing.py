"""The mean of models that went on from one model, each from rows of its own.

With shares ``a_k`` that add up to 1 the mean of ``w_k = sum_i c_ki y_i x_i`` has the coefficients
``sum_k a_k c_ki``, none of them negative if no ``c_ki`` is. So vectors and masses behind a bound
are means as well. Squares in private coordinates, which only their sums are known of, are at most
the mean of the squares, for squares are convex. A bound that was proved from some of the rows holds
for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from maxmargin.core.numba_backend import Compiled
from maxmargin.models.base import Model
from maxmargin.models.joint_model import JointModel
from maxmargin.models.linear_model import DiagonalModel, LinearModel, PairModel

# By what power of the scale they are multiplied.
MASSES = {"positive": 1, "negative": 1, "hidden_positive": 2, "hidden_negative": 2}


@Compiled
def fold_all(space):  # type: ignore[no-untyped-def]
    """Let all that follows the weights of a `LinearSpace` follow from them anew."""
    for c in range(space.problems()):
        space.fold_lines(c, c, c + 1, 1.0)


@Compiled
def fold_together(space):  # type: ignore[no-untyped-def]
    """The same for classes that are learned together."""
    space.fold_lines(0, 0, space.weights.shape[0], 1.0)


@singledispatch
def mixture(model: Model, parts: Sequence[Any], shares: np.ndarray, before: Any = None) -> Any:
    """The mean of models that went on from ``before``, ``model`` the first of them."""
    raise ValueError(
        "There is no mean of models whose weights are those of rows, or of several learners."
    )


@mixture.register(PairModel)
def _of_pairs(model: PairModel, parts: Any, shares: np.ndarray, before: Any = None) -> Any:
    raise ValueError(
        "There is no mean of models with a free intercept: each rests on a pair of rows of margin "
        "1, and a mean has none."
    )


@mixture.register(DiagonalModel)
def _of_columns(model: DiagonalModel, parts: Any, shares: np.ndarray, before: Any = None) -> Any:
    raise ValueError(
        "There is no mean of models that measure each column by the rows they have seen: each of "
        "them has other scales and variances."
    )


@mixture.register(LinearModel)
def _of_vectors(model: LinearModel, parts: Any, shares: np.ndarray, before: Any = None) -> Any:
    mean = model.twin()
    mix(mean, parts, shares, before)
    # Bound the margin by what is known, and begin a snapshot: see `certificates.bounds`.
    mean.linear.scalars.table.next_mark = 0
    mean.maintain(mean.space)
    return mean


@mixture.register(JointModel)
def _of_classes(model: JointModel, parts: Any, shares: np.ndarray, before: Any = None) -> Any:
    mean: Any = model.twin()
    mix(mean, parts, shares, before)
    # The bound rests on the sums since the last snapshot, too: the next one waits for a step.
    table = mean.linear.scalars.table
    table.next_mark[0] = table.updates[0] + 1
    return mean


def mix(model: Any, parts: Sequence[Any], shares: np.ndarray, before: Any) -> None:
    """Make a linear model, a twin of one of the parts, their mean; counts go on from ``before``."""
    linear, spaces = model.linear, [part.linear for part in parts]
    tables = [space.scalars.table for space in spaces]
    scales = [_scales(part) for part in parts]
    means = [part.weights() for part in parts] if model.spec.average else []
    amounts = [share * each for share, each in zip(shares, scales, strict=True)]

    def mean(arrays: list[np.ndarray]) -> np.ndarray:
        if arrays[0].shape[0] == 0:
            return arrays[0]
        pairs = zip(amounts, arrays, strict=True)
        return np.sum([by[: len(array), None] * array for by, array in pairs], axis=0)

    linear.weights[:] = mean([space.weights for space in spaces])
    witness = linear.witness
    for name in {"share", "mark", "mark_share"} & set(witness._fields):
        getattr(witness, name)[:] = mean([getattr(space.witness, name) for space in spaces])
    table = linear.scalars.table
    for name, power in MASSES.items():
        for each in (name, f"mark_{name}"):
            scaled = [
                share * by**power * old[each]
                for share, by, old in zip(shares, scales, tables, strict=True)
            ]
            table[each] = np.sum(scaled, axis=0)
    begun = 0 if before is None else before.linear.scalars.table.updates
    table.updates = begun + np.sum([old.updates - begun for old in tables], axis=0)
    table.bound = np.min([old.bound for old in tables], axis=0)
    table.certifiable = np.min([old.certifiable for old in tables], axis=0)
    table.scale = 1.0
    _count(model, parts, before)
    if means:
        trials = model.trials()
        pairs = zip(shares, means, strict=True)
        witness.average[:] = -trials * np.sum([share * each for share, each in pairs], axis=0)
        witness.past.scales, witness.past.trial = 0.0, trials
    (fold_together if model.is_joint else fold_all)(linear)


def _scales(part: Any) -> np.ndarray:
    """Of each line of weights."""
    scales = part.linear.scalars.table.scale
    return np.full_like(scales, scales[0]) if part.is_joint else scales.copy()


def _count(model: Any, parts: Sequence[Any], before: Any) -> None:
    for name in ("trials", "mistakes"):
        begun = 0 if before is None else before.tally[name][0]
        model.tally[name] = begun + sum(int(part.tally[name][0] - begun) for part in parts)
    model.tally.largest_xx = max(float(part.tally.largest_xx[0]) for part in parts)


def adopted(
    model: LinearModel, coefficients: np.ndarray, intercepts: np.ndarray, *, trials: int
) -> LinearModel:
    """A model like ``model``, which has learned nothing, with these weights after so many trials.

    Nothing is known of the rows behind them: a bound counts only what is learned from here on.
    """
    if not (np.isfinite(coefficients).all() and np.isfinite(intercepts).all()):
        raise ValueError("The weights are not all numbers.")
    model = model.twin()
    linear, offset = model.linear, model.tail.offset
    linear.weights[:, : linear.width] = coefficients
    if offset > 0.0:
        linear.weights[:, linear.width] = np.asarray(intercepts) / offset
    elif np.any(intercepts):
        raise ValueError("There are intercepts, but no coordinate for them.")
    model.tally.trials = trials
    fold_all(linear)
    return model.continued()
