"""Which learners take rows with several labels, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maxmargin.training.state import State

if TYPE_CHECKING:
    from maxmargin.training.protocol import Trainer


def needs(trainer: Trainer) -> str:
    """What would have to be otherwise for rows to have several labels, if anything."""
    options, spec = trainer.options, trainer.spec
    needed = {
        "another learner": options.takes_several,
        "kernel='linear'": options.kernel == "linear" or options.several_in_kernels,
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
