"""The hyper-parameters of a trainer, and batches of rows."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

# The parameter `class_weight`.
ClassWeight = dict[Hashable, float] | str | None


@dataclass(frozen=True)
class Options:
    """The hyper-parameters that training reads, documented in `estimator.parameters`, and:

    name : of the learner, for messages
    settles : after a pass without an update there is never another one
    takes_several : rows can have several labels, with the linear kernel
    several_in_kernels : rows can have several labels with other kernels, too
    incremental : the learner has `partial_fit`
    unset : names of unset parameters that help with inseparable rows
    """

    name: str
    fit_intercept: bool = True
    intercept_scaling: float | str = 1.0
    soft_margin: Any = 0.0
    kernel: Any = "linear"
    gamma: float | str = "scale"
    device: str = "cpu"
    average: bool = False
    budget: int | None = None
    multiclass: str = "ovr"
    max_iter: int = 1
    n_iter_no_change: int | None = None
    tol: float | None = None
    shuffle: bool = True
    random_state: Any = None
    class_weight: ClassWeight = None
    verbose: int = 0
    settles: bool = False
    takes_several: bool = True
    several_in_kernels: bool = False
    incremental: bool = True
    unset: tuple[str, ...] = ()

    @property
    def averages_kernels(self) -> bool:
        """True for averaged kernel coefficients, whose outputs no compiled loop computes."""
        return self.average and self.kernel != "linear"


# The options that are attributes of estimators with the same name.
SHARED = tuple(
    each.name for each in fields(Options) if each.name not in ("name", "incremental", "unset")
)


class Batch(NamedTuple):
    """Rows to learn from, as passed by users.

    Attributes
    ----------
    classes : all possible labels, for the first batch
    order : the order in which rows are learned; an entry ``-1 - i`` only scores row i
    grow : accept new columns and labels
    traced : record the outputs of each row before it is learned
    """

    X: ArrayLike
    y: ArrayLike
    classes: ArrayLike | None = None
    weight: ArrayLike | None = None
    order: np.ndarray | None = None
    grow: bool = False
    traced: bool = False
