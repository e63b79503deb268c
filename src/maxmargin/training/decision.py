"""What a fitted learner decides by, in plain records: for those who decide elsewhere."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from maxmargin.models.model_formulas import Formula
from maxmargin.training.calibration import Sigmoids


class Decision(NamedTuple):
    """How scores, probabilities and classes of rows come about.

    A learner gives its own by ``__decision__``.

    Attributes
    ----------
    formula : Formula
        Of outputs, one column for each problem.
    shown : slice
        The columns that are scores; of two classes only one, whose sign decides.
    classes : array of shape (n_classes,)
    multilabel : bool
        Can rows have several labels, or none? Then each score stands for itself.
    features : int
        Columns of rows.
    sigmoids : Sigmoids or None
        From scores to log-odds, where there are probabilities.
    by_density : bool
        Are outputs log-odds, or logarithms of densities, and scores the probabilities themselves?
    recipe : object or None
        What prepares rows before.
    """

    formula: Formula
    shown: slice
    classes: np.ndarray
    multilabel: bool
    features: int
    sigmoids: Sigmoids | None = None
    by_density: bool = False
    recipe: Any = None


def decision_of(learner: BaseEstimator) -> Decision:
    """That of a fitted learner of this library; a TypeError otherwise."""
    if not hasattr(learner, "__decision__"):
        raise TypeError(f"{type(learner).__name__} is not a learner of maxmargin.")
    return learner.__decision__()
