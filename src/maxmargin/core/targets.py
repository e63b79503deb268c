"""How class numbers become signs: one problem for two classes, one per class for more."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.core.bridge import bridge


class Binary(NamedTuple):
    """One problem; class 1 is positive."""

    labels: np.ndarray

    def problems(self):
        return 1  # a constant, so that the compiler drops the loop over problems

    def sign(self, i, c):
        return 1.0 if self.labels[i] == 1 else -1.0


class OneVsRest(NamedTuple):
    """One problem per class, in which that class is positive."""

    labels: np.ndarray
    classes: int

    def problems(self):
        return self.classes

    def sign(self, i, c):
        return 1.0 if self.labels[i] == c else -1.0

    def class_of(self, i):
        return self.labels[i]


bridge("problems", "sign", "class_of")
