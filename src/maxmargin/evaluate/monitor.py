"""A callback that records the certificate during a fit."""

from __future__ import annotations

from typing import Any, NamedTuple

from maxmargin.evaluate.displays import MarginDisplay
from maxmargin.evaluate.margin_trace import Moment


class Pass(NamedTuple):
    """The certificate after a full pass."""

    n_iter: int  # rows presented so far, in multiples of all rows
    updates: int  # so far
    margin: float  # of all rows
    bound: float  # on the margin of any hyperplane

    @property
    def ratio(self) -> float:
        """The certified share of the best possible margin."""
        return self.margin / self.bound if self.margin > 0.0 else 0.0


class CertificateMonitor:
    """A callback that records the margin and its bound after each full pass of a fit.

    ``learner.set_callbacks(monitor)`` attaches it, which needs scikit-learn 1.9 or later. Measuring
    the margin takes about as long as a pass. Only fits in its own process are recorded.

    Attributes
    ----------
    runs : list of lists of Pass
        ``n_iter``, ``updates``, ``margin``, ``bound`` and ``ratio`` after each full pass, of each
        fit that has begun.
    passes : list of Pass
        The passes of the last fit.

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
        """Start a run."""
        self._open[id(context)] = len(self.runs)
        self._names.append(type(estimator).__name__)
        self.runs.append([])

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing to record."""

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> None:
        """Record the certificate after a pass."""
        if fitted_estimator is None or (run := self._open.get(id(context.parent))) is None:
            return
        proved = fitted_estimator.certificate_
        counts = fitted_estimator.n_iter_, fitted_estimator.n_updates_
        self.runs[run].append(Pass(*counts, proved.margin, proved.bound))

    def teardown(self, estimator: Any, context: Any) -> None:
        """End a run."""
        self._open.pop(id(context), None)
