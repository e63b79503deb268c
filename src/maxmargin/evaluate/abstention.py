"""Which rows does a learner answer, and how often is it right then?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin._extras import plotting
from maxmargin.algorithms.conformalclassifier import ConformalClassifier
from maxmargin.evaluate.progressive_run import Progress, StreamLearner, progressive

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COVERAGES = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)


class AbstentionDisplay:
    """The accuracy on the rows that a learner answers, and the share of these rows.

    A row is answered if its prediction set has exactly one class. A higher coverage means larger
    sets, so fewer answers, which are right more often.

    Make it with `from_estimator`, or from results of `progressive` with several coverages.

    Parameters
    ----------
    coverages : array of shape (n_points,)
    answered : array of shape (n_points,)
        The shares of rows that were answered.
    accuracies : array of shape (n_points,)
        The shares of answered rows whose class was right.
    accuracy : float
        Of all rows.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import PassiveAggressive
    >>> from maxmargin.evaluate import AbstentionDisplay
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(3000, 2))
    >>> y = X[:, 0] + random.logistic(size=3000) > 0.0
    >>> clf = PassiveAggressive(C=0.01)
    >>> display = AbstentionDisplay.from_estimator(clf, X, y, coverages=[0.8, 0.95])
    >>> bool(display.answered[0] > display.answered[1])
    True
    >>> bool(display.accuracies[0] < display.accuracies[1])
    True
    """

    ax_: Any
    figure_: Figure

    def __init__(
        self,
        coverages: Sequence[float],
        answered: Sequence[float],
        accuracies: Sequence[float],
        accuracy: float,
    ) -> None:
        self.coverages, self.answered = np.asarray(coverages), np.asarray(answered)
        self.accuracies, self.accuracy = np.asarray(accuracies), float(accuracy)

    @classmethod
    def from_estimator(
        cls,
        estimator: StreamLearner,
        X: Any,
        y: Any = None,
        *,
        coverages: Sequence[float] = COVERAGES,
        ax: Any = None,
        **options: Any,
    ) -> AbstentionDisplay:
        """Let copies of an online learner predict each row before they learn from it.

        Parameters
        ----------
        estimator : online learner
            Copies go on from what it knows, one for each coverage.
        X, y : the stream, as `progressive` takes it
            It is read once.
        coverages : list of float
        ax : matplotlib axes, default=None
        **options
            As `progressive` takes them.

        Returns
        -------
        AbstentionDisplay
        """
        learners = [ConformalClassifier(estimator, coverage=each) for each in coverages]
        return cls.from_results(progressive(learners, X, y, **options), coverages, ax=ax)

    @classmethod
    def from_results(
        cls, results: Sequence[Progress], coverages: Sequence[float], *, ax: Any = None
    ) -> AbstentionDisplay:
        """Draw the results of `progressive` for `ConformalClassifier` of these coverages."""
        answered = [each.answered for each in results]
        accuracies = [each.answered_accuracy for each in results]
        return cls(coverages, answered, accuracies, results[0].accuracy).plot(ax)

    def plot(self, ax: Any = None) -> AbstentionDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None

        Returns
        -------
        self
        """
        if ax is None:
            _, ax = plotting("matplotlib.pyplot").subplots(figsize=(6, 4), layout="constrained")
        ax.plot(self.answered, self.accuracies, marker="o")
        for coverage, x, y in zip(self.coverages, self.answered, self.accuracies, strict=True):
            ax.annotate(f"{coverage:g}", (x, y), textcoords="offset points", xytext=(4, 4))
        ax.axhline(self.accuracy, color="gray", linestyle=":", label="all rows answered")
        ax.set(xlabel="share of rows answered", ylabel="accuracy on these")
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self
