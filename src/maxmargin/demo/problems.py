"""The data of the demo: made on the spot, or embedded in scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from maxmargin.datasets import make_r_of_k, make_separable


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows to learn from, rows to test on, and what to do with them.

    Attributes
    ----------
    name, about : str
        A title, and a sentence or two for the page.
    X, y, X_test, y_test : ndarray
        In the order in which every pass presents them.
    max_iter : int
        Passes at most.
    ask : float
        The margin that `DirectionalPerceptron` asks for.
    picture : {"run", "plane", "none"}
        What to draw: margin and bound during the run, the boundary in the plane, or nothing.
    """

    name: str
    about: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    max_iter: int
    ask: float
    picture: str = "none"

    @property
    def radius(self) -> float:
        """The largest norm of a row."""
        return float(np.linalg.norm(self.X, axis=1).max())

    @property
    def size(self) -> str:
        rows, features = self.X.shape
        return f"{rows} rows, {features} features, {np.unique(self.y).size} classes"


def all_problems() -> list[Problem]:
    """The five data sets of the demo."""
    return [r_of_k(), cloud(), plane(), breast_cancer(), digits()]


def r_of_k(rows: int = 1000, max_iter: int = 1000) -> Problem:
    X, y = make_r_of_k(2 * rows, 100, k=16, r=1, random_state=0)
    about = (
        "A row is positive if at least one of 16 relevant features, out of 100, is +1. The "
        "hyperplane that says so has a large bias, which learners with an intercept must find."
    )
    return _halves("r-of-k", about, X, y, rows, max_iter=max_iter, ask=0.9, picture="run")


def cloud(rows: int = 2000, max_iter: int = 1000) -> Problem:
    X, y = make_separable(rows + 1000, 10, gap=0.75, random_state=0)
    about = (
        "Uniform points of a cube, on two sides of a random hyperplane, none nearer to it than "
        "0.75."
    )
    return _halves("Separable cloud", about, X, y, rows, max_iter=max_iter, ask=0.7, picture="run")


def plane(rows: int = 80, max_iter: int = 1000) -> Problem:
    X, y = make_separable(rows + 1000, 2, gap=1.0, random_state=0)
    about = "The same in two dimensions, to look at."
    return _halves("Plane", about, X, y, rows, max_iter=max_iter, ask=0.7, picture="plane")


def breast_cancer(max_iter: int = 100) -> Problem:
    about = (
        "Benign or malignant, by 30 standardised measurements of cell nuclei. The bounds prove "
        "that a hyperplane can separate the training rows by a hair's breadth, if at all."
    )
    X, X_test, y, y_test = _split(*load_breast_cancer(return_X_y=True))
    scaler = StandardScaler().fit(X)
    return Problem(
        "Breast cancer",
        about,
        scaler.transform(X),
        y,
        scaler.transform(X_test),
        y_test,
        max_iter=max_iter,
        ask=0.3,
    )


def digits(max_iter: int = 100) -> Problem:
    about = (
        "Handwritten digits of 8 x 8 pixels, scaled to between 0 and 1: ten problems, one digit "
        "against the rest. Margins are those of the weakest one."
    )
    X, X_test, y, y_test = _split(*load_digits(return_X_y=True))
    return Problem("Digits", about, X / 16.0, y, X_test / 16.0, y_test, max_iter=max_iter, ask=0.3)


def _halves(name: str, about: str, X: np.ndarray, y: np.ndarray, rows: int, **more: Any) -> Problem:
    """Learn from the first ``rows``, test on the others."""
    return Problem(name, about, X[:rows], y[:rows], X[rows:], y[rows:], **more)


def _split(X: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    return train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
