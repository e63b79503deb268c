"""The signs of class codes: one problem for two classes, one per class for more.

Targets of weighted rows have types of their own, so that loops without weights are compiled without
them.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.numba_backend import Compiled, bridge, with_methods_of


class Binary(NamedTuple):
    """One problem; class 1 is positive."""

    labels: np.ndarray

    def problems(self):
        return 1  # a constant, so that the compiler drops the loop over problems

    def sign(self, i, c):
        return 1.0 if self.labels[i] == 1 else -1.0

    def is_shown(self, c):
        return True

    def weight_of(self, i):
        """The sample weight of row ``i``."""
        return 1.0

    def is_mistake(self, own, rival, least):
        """True if a row is misclassified.

        ``own`` is the output of its class, ``rival`` the highest of other visible problems, and
        ``least`` the least margin of all problems.
        """
        return own <= (rival if rival > -np.inf else 0.0)  # one positive row: 0


@with_methods_of(Binary)
class OneVsRest(NamedTuple):
    """One problem per class, in which that class is positive, and ``unseen`` ones without rows."""

    labels: np.ndarray
    classes: int
    unseen: int = 0

    def problems(self):
        return self.classes + self.unseen

    def sign(self, i, c):
        return 1.0 if self.labels[i] == c else -1.0

    def is_shown(self, c):
        """True if the class of this problem can be predicted."""
        return c < self.classes

    def class_of(self, i):
        return self.labels[i]


class Multilabel(NamedTuple):
    """One problem per label, of which a row can have any: an array of 0 and 1."""

    labels: np.ndarray

    def problems(self):
        return self.labels.shape[1]

    def sign(self, i, c):
        return 1.0 if self.labels[i, c] == 1 else -1.0

    def is_shown(self, c):
        return True

    def weight_of(self, i):
        return 1.0

    def is_mistake(self, own, rival, least):
        return least <= 0.0


# By the class of targets of rows that all count once.
WEIGHTED: dict[type, Any] = {}


class Weighted:
    """The methods of weighted targets that differ."""

    sample_weight: np.ndarray

    def weight_of(self, i):
        return self.sample_weight[i]


def with_weights(kind: Any) -> Any:
    """The type of these targets with a last field for sample weights."""
    name, fields = f"Weighted{kind.__name__}", (*kind._fields, "sample_weight")
    made = namedtuple(name, fields, module=kind.__module__)  # type: ignore[misc]
    WEIGHTED[kind] = with_methods_of(kind)(with_methods_of(Weighted)(made))
    return WEIGHTED[kind]


WeightedBinary = with_weights(Binary)
WeightedOneVsRest = with_weights(OneVsRest)
WeightedMultilabel = with_weights(Multilabel)


def weighted(targets: Any, sample_weight: np.ndarray) -> Any:
    """The same targets for rows with these weights."""
    return WEIGHTED[type(targets)](*targets, sample_weight)


def weights_in(targets: Any) -> np.ndarray | None:
    """The sample weights, if there are any."""
    return getattr(targets, "sample_weight", None)


bridge("problems", "sign", "is_shown", "class_of", "weight_of", "is_mistake")


@Compiled
def balance(labels, order, totals, sample_weight):  # type: ignore[no-untyped-def]
    """Balance the classes, by the totals up to each row.

    ``totals`` are the weights of each class so far, and of all classes. The weights of the rows in
    ``order`` are multiplied by ``n / (C n_c)``, with totals that include the row, and C classes so
    far. Entries ``-1 - i`` are ignored.
    """
    classes, seen = totals.size - 1, 0
    for c in range(classes):
        seen += totals[c] > 0.0
    for i in order:
        if i >= 0:
            c = labels[i]
            seen += totals[c] == 0.0
            totals[c] += sample_weight[i]
            totals[classes] += sample_weight[i]
            sample_weight[i] *= totals[classes] / (seen * totals[c])


def of_rows(targets: Any, rows: np.ndarray) -> Any:
    """The targets of some rows, by their numbers."""
    here = {"labels": targets.labels[rows]}
    if (sample_weight := weights_in(targets)) is not None:
        here["sample_weight"] = sample_weight[rows]
    for array in here.values():
        array.flags.writeable = False
    return targets._replace(**here)
