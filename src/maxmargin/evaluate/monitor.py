"""A callback that follows the certificate of a fit."""

from __future__ import annotations

from typing import Any, NamedTuple

from maxmargin.evaluate.displays import MarginDisplay
from maxmargin.evaluate.margin_trace import Moment


class Pass(NamedTuple):
    """What is certified after a full pass."""

    n_iter: int  # passes so far, by the rows presented; those that matter most come more often
    updates: int  # made so far
    margin: float  # reached on all rows
    bound: float  # the most that any hyperplane can reach

    @property
    def ratio(self) -> float:
        """The share of the best possible margin that is certain to be reached."""
        return self.margin / self.bound if self.margin > 0.0 else 0.0


class CertificateMonitor:
    """A callback that writes down the margin and its bound after each full pass of a fit.

    ``learner.set_callbacks(monitor)`` attaches it, which needs scikit-learn 1.9 or later. Looking
    at the margin takes about as long as a pass. It keeps what fits in its own process tell it.

    Attributes
    ----------
    runs : list of lists of Pass
        ``n_iter``, ``updates``, ``margin``, ``bound`` and ``ratio`` after each full pass, of each
        fit that has begun.
    passes : list of Pass
        Those of the last fit.

    Examples
    --------
    >>> from maxmargin import PUMMA
    >>> from maxmargin.datasets import make_separable
    >>> from maxmargin.evaluate import CertificateMonitor
    >>> X, y = make_separable(200, 5, gap=1.0, random_state=0)
    >>> monitor = CertificateMonitor()
    >>> clf = PUMMA(delta=0.1, random_state=0).set_callbacks(monitor).fit(X, y)
    >>> last = monitor.passes[-1]
    >>> last.margin == clf.certificate_.margin and last.ratio >= 0.9
    True
    """

    def __init__(self) -> None:
        self.runs: list[list[Pass]] = []
        self._names: list[str] = []
        self._open: dict[int, int] = {}  # runs, by the contexts of fits that are not over

    @property
    def passes(self) -> list[Pass]:
        if not self.runs:
            raise ValueError("No fit has been monitored: set_callbacks(monitor), and fit.")
        return self.runs[-1]

    def plot(self, ax: Any = None) -> MarginDisplay:
        """Draw margin and bound of the last fit, against the passes.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; new ones by default.
        """
        if not self.passes:
            raise ValueError("The last fit ended before its first pass did.")
        moments = [Moment(each.n_iter, each.margin, each.bound) for each in self.passes]
        display = MarginDisplay(moments, name=self._names[-1]).plot(ax)
        display.ax_.set_xlabel("passes")
        return display

    # ---------------------------------------------------------------------- what a fit calls
    def setup(self, estimator: Any, context: Any) -> None:
        """A fit begins."""
        self._open[id(context)] = len(self.runs)
        self._names.append(type(estimator).__name__)
        self.runs.append([])

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """A pass begins, or the whole fit."""

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> None:
        """A pass has ended, or the whole fit."""
        if fitted_estimator is None or (run := self._open.get(id(context.parent))) is None:
            return
        proved = fitted_estimator.certificate_
        counts = fitted_estimator.n_iter_, fitted_estimator.n_updates_
        self.runs[run].append(Pass(*counts, proved.margin, proved.bound))

    def teardown(self, estimator: Any, context: Any) -> None:
        """The fit is over, however it ended."""
        self._open.pop(id(context), None)
