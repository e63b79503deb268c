"""The hyper-parameters that a trainer reads, and batches of rows to learn from."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.training.pauses import Pauses

# The parameter `class_weight`.
ClassWeight = dict[Hashable, float] | str | None


@dataclass(frozen=True)
class Options:
    """The hyper-parameters of a learner that training reads; its rule and its model have others.

    They mean what they mean for learners (see `estimator.parameters`), and:

    name : of the learner, for messages
    settles : does a pass without an update mean that there will never be one again?
    takes_several : can rows have several labels?
    several_in_kernels : can they also with other kernels than the linear one?
    incremental : does it learn from some rows at a time?
    unset : parameters that help where rows cannot be separated, and that are not set
    """

    name: str
    fit_intercept: bool = True
    intercept_scaling: float | str = 1.0
    soft_margin: Any = 0.0
    kernel: Any = "linear"
    gamma: float | str = "scale"
    device: str = "cpu"
    average: bool = False
    max_iter: int = 1
    n_iter_no_change: int | None = None
    tol: float | None = None
    shuffle: bool = True
    random_state: Any = None
    class_weight: ClassWeight = None
    n_jobs: int | None = None
    verbose: int = 0
    calibration: str | None = None
    coverage: float | None = None
    settles: bool = False
    takes_several: bool = True
    several_in_kernels: bool = False
    incremental: bool = True
    unset: tuple[str, ...] = ()

    @property
    def averages_kernels(self) -> bool:
        """Does it predict by averaged coefficients of a kernel, whose outputs no loop computes?"""
        return self.average and self.kernel != "linear"

    @property
    def follows_scores(self) -> bool:
        """Is there something that follows the scores of rows before they are learned?"""
        return self.calibration is not None or self.coverage is not None


# Those that an estimator has as attributes of the same name, if it has them.
SHARED = tuple(
    each.name for each in fields(Options) if each.name not in ("name", "incremental", "unset")
)


class Batch(NamedTuple):
    """Rows to learn from, as users give them.

    Attributes
    ----------
    X, y : rows and labels
    classes : all labels that can occur, for the first batch
    weight : how often each row counts; once by default
    order : in which rows are learned, by default as they come; a row i that stands there as
        ``-1 - i`` is only looked at
    grow : may there be new columns and labels?
    traced : write down the outputs of each row before it is learned?
    sets : an array of shape (places, 2) to write down the prediction sets in, with `coverage`: was
        the label outside, and how many classes were inside?
    pauses : what looks at the model on the way, see `Pauses`
    """

    X: ArrayLike
    y: ArrayLike
    classes: ArrayLike | None = None
    weight: ArrayLike | None = None
    order: np.ndarray | None = None
    grow: bool = False
    traced: bool = False
    sets: np.ndarray | None = None
    pauses: Pauses | None = None
