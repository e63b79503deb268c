"""A picture of a path over lambda, made as scikit-learn's displays are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from maxmargin._extras import plotting
from maxmargin.algorithms.maxmargin import MaxMargin
from maxmargin.evaluate.last_step import last_step_of_copy
from maxmargin.models.regularization_path import RegularizationPath

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class PathDisplay:
    """Leave-one-out error and loss against lambda, the `soft_margin` of `MaxMargin`.

    Make it with `from_estimator`, or with `from_path` from what `MaxMargin.path` returns. A dotted
    line marks the lambda with the smallest loss, which ``soft_margin="auto"`` takes.

    Parameters
    ----------
    path : RegularizationPath

    Attributes
    ----------
    ax_ : matplotlib axes, or an array of two
    figure_ : matplotlib figure
    lines_ : list of the lines of error and loss, or of error

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import MaxMargin
    >>> from maxmargin.evaluate import PathDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = PathDisplay.from_estimator(MaxMargin(), X, y)
    >>> display.path.soft_margin
    1.0
    """

    ax_: Any
    figure_: Figure
    lines_: list[Any]

    def __init__(self, path: RegularizationPath) -> None:
        self.path = path

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        lambdas: Any = None,
        ax: Any = None,
    ) -> PathDisplay:
        """Follow the path of a copy of the learner, and draw it.

        Parameters
        ----------
        estimator : MaxMargin, or a pipeline that ends with one
            The steps before it are fitted to all of ``X``.
        X, y, sample_weight, lambdas
            As `MaxMargin.path` takes them.
        ax
            As in `plot`.

        Returns
        -------
        PathDisplay
        """
        learner, X = last_step_of_copy(estimator, X, y)
        if not isinstance(learner, MaxMargin):
            raise TypeError(f"PathDisplay needs MaxMargin, got {type(learner).__name__}.")
        path = clone(learner).path(X, y, sample_weight, lambdas=lambdas)
        return cls(path).plot(ax)

    @classmethod
    def from_path(cls, path: RegularizationPath, *, ax: Any = None) -> PathDisplay:
        """Draw what `MaxMargin.path` has returned, or the attribute `path_`.

        Parameters
        ----------
        path : RegularizationPath
        ax
            As in `plot`.

        Returns
        -------
        PathDisplay
        """
        return cls(path).plot(ax)

    def plot(self, ax: Any = None) -> PathDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, or a pair of them, default=None
            A pair (the default) has errors above and losses below; one has the errors alone.

        Returns
        -------
        self
        """
        if ax is None:
            pyplot = plotting("matplotlib.pyplot")
            _, ax = pyplot.subplots(2, 1, sharex=True, figsize=(7, 5.5), layout="constrained")
        pair, path = np.ravel(ax), self.path
        if pair.size not in (1, 2):
            raise ValueError(f"ax must be axes or a pair of them, got {pair.size}.")
        how = "leave-one-out" if path.method == "leave-one-out" else "cross-validated"
        shown = [(100.0 * path.loo_error, f"{how} error, %"), (path.loo_loss, f"{how} loss")]
        self.lines_ = []
        for axes, (values, label) in zip(pair, shown, strict=False):
            self.lines_ += axes.plot(path.lambdas, values, marker="o", markersize=4)
            axes.axvline(path.soft_margin, color="0.4", linestyle=":")
            axes.set(xscale="log", ylabel=label)
            axes.grid(alpha=0.3)
        pair[0].set_title(
            f"soft_margin={path.soft_margin:.3g}: {100.0 * path.loo_error[path.best]:.3g} % wrong"
        )
        pair[-1].set_xlabel("soft_margin (lambda)")
        self.ax_, self.figure_ = (pair if pair.size == 2 else pair[0]), pair[0].figure
        return self
