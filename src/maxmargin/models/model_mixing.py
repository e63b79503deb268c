"""The mean of models that continued one model, each with its own rows.

With shares ``a_k`` that sum to 1, the mean of ``w_k = sum_i c_ki y_i x_i`` has the coefficients
``sum_k a_k c_ki``, which are not negative if no ``c_ki`` is. So the vectors and masses behind a
bound are means as well. Of private coordinates only sums of squares are known; squares are convex,
so those of the mean are at most the mean of the squares. A bound proved from some of the rows holds
for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from maxmargin.core.numba_backend import Compiled
from maxmargin.models.base import OnlineModel
from maxmargin.models.linear_model import DiagonalModel, JointModel, LinearModel, PairModel
from maxmargin.spaces.linear_space import LinearSpace

# Masses and sums of squares, by the power of the scale that multiplies them.
MASSES = {"positive": 1, "negative": 1, "hidden_positive": 2, "hidden_negative": 2}


@Compiled
def fold_all(space):  # type: ignore[no-untyped-def]
    """Recompute all that depends on the weights of a `LinearSpace`."""
    for c in range(space.problems()):
        space.fold_lines(c, c, c + 1, 1.0)


@Compiled
def fold_together(space):  # type: ignore[no-untyped-def]
    """`fold_all` for classes that are learned jointly."""
    space.fold_lines(0, 0, space.weights.shape[0], 1.0)


@singledispatch
def mixture(
    model: OnlineModel, parts: Sequence[Any], shares: np.ndarray, before: Any = None
) -> Any:
    """The mean of ``parts``, which continued ``before``; ``model`` is the first of them."""
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
    mean = model.copy()
    mix(mean, parts, shares, before)
    # Compute the bound, and take a snapshot: see `certificates.bounds`.
    mean.linear.scalars.table.next_mark = 0
    mean.maintain(mean.space)
    return mean


@mixture.register(JointModel)
def _of_classes(model: JointModel, parts: Any, shares: np.ndarray, before: Any = None) -> Any:
    mean: Any = model.copy()
    mix(mean, parts, shares, before)
    # The bound also uses the sums since the last snapshot, so the next one waits for a step.
    table = mean.linear.scalars.table
    table.next_mark[0] = table.updates[0] + 1
    return mean


def mix(model: Any, parts: Sequence[Any], shares: np.ndarray, before: Any) -> None:
    """Turn a linear model, a copy of one of the parts, into their mean; see `mixture`."""
    scales = [_scales(part) for part in parts]
    means = [part.weights() for part in parts] if model.spec.average else []
    _mix_vectors(
        model.linear, parts, [by * share for by, share in zip(scales, shares, strict=True)]
    )
    _mix_scalars(model.linear.scalars.table, parts, shares, scales, before)
    for name in ("trials", "mistakes"):
        start = 0 if before is None else before.tally[name][0]
        model.tally[name] = start + sum(int(part.tally[name][0] - start) for part in parts)
    model.tally.largest_xx = max(float(part.tally.largest_xx[0]) for part in parts)
    if means:
        witness, trials = model.linear.witness, model.trials()
        pairs = zip(shares, means, strict=True)
        witness.average[:] = -trials * np.sum([share * each for share, each in pairs], axis=0)
        witness.past.scales, witness.past.trial = 0.0, trials
    (fold_together if model.is_joint else fold_all)(model.linear)


def _scales(part: Any) -> np.ndarray:
    """The scale of each line of weights."""
    scales = part.linear.scalars.table.scale
    return np.full_like(scales, scales[0]) if part.is_joint else scales.copy()


def _mix_vectors(linear: LinearSpace, parts: Sequence[Any], amounts: list[np.ndarray]) -> None:
    def mean(arrays: list[np.ndarray]) -> np.ndarray:
        if arrays[0].shape[0] == 0:
            return arrays[0]
        pairs = zip(amounts, arrays, strict=True)
        return np.sum([by[: len(array), None] * array for by, array in pairs], axis=0)

    linear.weights[:] = mean([part.linear.weights for part in parts])
    for name in {"share", "mark", "mark_share"} & set(linear.witness._fields):
        vectors = mean([getattr(part.linear.witness, name) for part in parts])
        getattr(linear.witness, name)[:] = vectors


def _mix_scalars(
    table: Any, parts: Sequence[Any], shares: np.ndarray, scales: list[np.ndarray], before: Any
) -> None:
    tables = [part.linear.scalars.table for part in parts]
    for name, power in MASSES.items():
        for each in (name, f"mark_{name}"):
            given = zip(shares, scales, tables, strict=True)
            scaled = [share * by**power * old[each] for share, by, old in given]
            table[each] = np.sum(scaled, axis=0)
    start = 0 if before is None else before.linear.scalars.table.updates
    table.updates = start + np.sum([old.updates - start for old in tables], axis=0)
    table.bound = np.min([old.bound for old in tables], axis=0)
    table.certifiable = np.min([old.certifiable for old in tables], axis=0)
    table.scale = 1.0


def adopted(
    model: LinearModel, coefficients: np.ndarray, intercepts: np.ndarray, *, trials: int
) -> LinearModel:
    """A copy of an untrained model with these weights, as if after so many trials.

    Their rows are unknown, so bounds use only what is learned later.
    """
    if not (np.isfinite(coefficients).all() and np.isfinite(intercepts).all()):
        raise ValueError("The weights are not all numbers.")
    model = model.copy()
    linear, offset = model.linear, model.tail.offset
    linear.weights[:, : linear.width] = coefficients
    if offset > 0.0:
        linear.weights[:, linear.width] = np.asarray(intercepts) / offset
    elif np.any(intercepts):
        raise ValueError("There are intercepts, but no coordinate for them.")
    model.tally.trials = trials
    fold_all(linear)
    return model.continued()
