"""Rows with several labels, or none: ``y`` is an array of 0 and 1, with a column for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import type_of_target

from maxmargin.training.state import State
from maxmargin.training.types import Matrix

if TYPE_CHECKING:
    from maxmargin.training.protocol import Trainer


def is_indicator(y: Matrix) -> bool:
    """Is it of two dimensions, and of 0 and 1?"""
    y = np.asarray(y) if isinstance(y, list | tuple) else y
    if getattr(y, "ndim", 1) != 2 or type_of_target(y, "y") != "multilabel-indicator":
        return False
    values = y.data if sparse.issparse(y) else np.asarray(y)
    return bool(((values == 0) | (values == 1)).all())


def indicator(y: Matrix) -> np.ndarray:
    """The labels as compiled loops take them, a byte each."""
    return np.ascontiguousarray(y.toarray() if sparse.issparse(y) else y).astype(np.int8)


def numbers_of_labels(y: np.ndarray) -> np.ndarray:
    """The numbers of the labels, none of which all rows have, or none."""
    same = np.flatnonzero((y == y[0]).all(axis=0))
    if same.size:
        raise ValueError(f"All rows have the same value of label {same[0]}: leave it out.")
    return np.arange(y.shape[1])


def with_as_many_labels(y: np.ndarray, labels: int) -> np.ndarray:
    if y.shape[1] != labels:
        raise ValueError(f"y has {y.shape[1]} labels a row, but {labels} are expected.")
    return y


def needs(trainer: Trainer) -> str:
    """What would have to be otherwise for rows to have several labels, if anything."""
    options, spec = trainer.options, trainer.spec
    needed = {
        "another learner": options.takes_several,
        "kernel='linear'": options.kernel == "linear",
        "budget=None": spec.budget is None,
        "multiclass='ovr'": spec.multiclass == "ovr",
        "class_weight=None": options.class_weight is None,
    }
    return next((need for need, is_met in needed.items() if not is_met), "")


def check_number_of_labels(
    trainer: Trainer, y: np.ndarray, state: State | None = None, grow: bool = False
) -> None:
    """Raise if rows have several labels and the learner, or its state, has one; or the reverse.

    ``grow`` says that new labels may come, which has no meaning with several labels a row.
    """
    multilabel = y.ndim == 2
    if state is not None and state.multilabel != multilabel:
        how_many = "several labels" if state.multilabel else "one label"
        raise ValueError(f"y must have {how_many} a row, as before.")
    if multilabel and (what := "grow=False" if grow else needs(trainer)):
        raise ValueError(
            f"y has several labels a row: {trainer.options.name} needs {what} for that (or "
            "sklearn.multiclass.OneVsRestClassifier around it)."
        )
