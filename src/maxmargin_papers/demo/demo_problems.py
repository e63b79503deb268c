"""The data of the demo: made on the spot, or embedded in scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from maxmargin.datasets import make_r_of_k, make_separable

PASSES = 200


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows to learn from, rows to test on, and what to do with them.

    Attributes
    ----------
    name, about : str
        A title, and a sentence or two for the page.
    X, y, X_test, y_test : ndarray
        In the order in which every pass presents them.
    soft_margin : float
        The lambda of all learners; 0 for rows that can be separated.
    picture : {"run", "plane", "none"}
        What to draw: margin and bound during the run, the boundary in the plane, or nothing.
    passes : int
        Passes of each online learner, at most.
    """

    name: str
    about: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    soft_margin: float = 0.0
    picture: str = "none"
    passes: int = PASSES

    @property
    def radius(self) -> float:
        """The largest norm of a row."""
        return float(np.linalg.norm(self.X, axis=1).max())

    @property
    def size(self) -> str:
        rows, features = self.X.shape
        return f"{rows} rows, {features} features, {np.unique(self.y).size} classes"

    @property
    def slug(self) -> str:
        """The name as an anchor of the page."""
        return self.name.lower().replace(" ", "-")

    @property
    def kind(self) -> str:
        """Which margin is meant."""
        return f"soft margin, λ = {self.soft_margin:g}" if self.soft_margin else "hard margin"


def all_problems() -> list[Problem]:
    """The five data sets of the demo, real ones first."""
    return [digits(), breast_cancer(), r_of_k(), cloud(), plane()]


def breast_cancer(**more: Any) -> Problem:
    about = (
        "Benign or malignant, by 30 standardised measurements of cell nuclei. Hyperplanes separate "
        "the training rows by a hair's breadth, if at all, so margins are soft."
    )
    X, X_test, y, y_test = _split(*load_breast_cancer(return_X_y=True))
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    soft = as_long_as_a_row(X)
    return Problem("Breast cancer", about, X, y, X_test, y_test, soft_margin=soft, **more)


def digits(**more: Any) -> Problem:
    about = (
        "Handwritten digits of 8 x 8 pixels, scaled to between 0 and 1: ten problems, one digit "
        "against the rest, with soft margins. A line is about the digit for which that learner "
        "proves least, so margins of two lines may be those of different digits."
    )
    X, X_test, y, y_test = _split(*load_digits(return_X_y=True))
    X, X_test = X / 16.0, X_test / 16.0
    soft = as_long_as_a_row(X)
    return Problem("Digits", about, X, y, X_test, y_test, soft_margin=soft, **more)


def as_long_as_a_row(X: np.ndarray) -> float:
    """The mean squared norm of a row, to two digits: a lambda that knows no labels."""
    return float(f"{np.square(X).sum(axis=1).mean():.2g}")


def r_of_k(rows: int = 1000, **more: Any) -> Problem:
    X, y = make_r_of_k(2 * rows, 100, k=16, r=1, random_state=0)
    about = (
        "A row is positive if at least one of 16 relevant features, out of 100, is +1. The "
        "hyperplane that says so has a large bias, which learners with an intercept must find."
    )
    return _halves("r-of-k", about, X, y, rows, picture="run", **more)


def cloud(rows: int = 2000, **more: Any) -> Problem:
    X, y = make_separable(rows + 1000, 10, gap=0.75, random_state=0)
    about = (
        "Uniform points of a cube, on two sides of a random hyperplane, none nearer to it than "
        "0.75."
    )
    return _halves("Separable cloud", about, X, y, rows, picture="run", **more)


def plane(rows: int = 80, **more: Any) -> Problem:
    X, y = make_separable(rows + 1000, 2, gap=1.0, random_state=0)
    about = "The same in two dimensions, to look at."
    return _halves("Plane", about, X, y, rows, picture="plane", **more)


def _halves(name: str, about: str, X: np.ndarray, y: np.ndarray, rows: int, **more: Any) -> Problem:
    """Learn from the first ``rows``, test on the others."""
    return Problem(name, about, X[:rows], y[:rows], X[rows:], y[rows:], **more)


def _split(X: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    return train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
