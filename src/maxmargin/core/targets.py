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

    def is_shown(self, c):
        return True


class OneVsRest(NamedTuple):
    """One problem per class, in which that class is positive, and spare ones without such rows."""

    labels: np.ndarray
    classes: int
    spare: int = 0

    def problems(self):
        return self.classes + self.spare

    def sign(self, i, c):
        return 1.0 if self.labels[i] == c else -1.0

    def is_shown(self, c):
        """Is it the problem of a class that can be predicted?"""
        return c < self.classes

    def class_of(self, i):
        return self.labels[i]


bridge("problems", "sign", "is_shown", "class_of")
