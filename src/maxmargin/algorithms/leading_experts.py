"""Which expert leads when, as an array and as a plot."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin._extras import plotting
from maxmargin.experts.mixture import ExpertMixture
from maxmargin.experts.votes import Votes


class LeadingExperts(abc.ABC):
    """A learner with weights of experts, which shows the one of the largest weight over time."""

    @abc.abstractmethod
    def _record(self) -> Votes | ExpertMixture:
        """The weights of the experts, and the leaders so far."""

    @abc.abstractmethod
    def _names_of_experts(self) -> Sequence[str]:
        """What the experts are called in plots."""

    @property
    def leaders_(self) -> np.ndarray:
        return leaders_of(self._record())

    def plot_leaders(self, axes: Any = None) -> Any:
        """Draw which expert leads when.

        Parameters
        ----------
        axes : matplotlib axes, default=None
            Where to draw; new ones by default.

        Returns
        -------
        The axes.
        """
        return draw_leaders(self.leaders_, self._names_of_experts(), axes)


def leaders_of(record: Votes | ExpertMixture) -> np.ndarray:
    """Numbers of trials, and the expert of the largest weight after each."""
    leaders = record.leaders[: record.clock.written[0]]
    trials = record.clock.stride[0] * np.arange(1, leaders.size + 1)
    return np.column_stack([trials, leaders])


def draw_leaders(looks: np.ndarray, names: Sequence[str], axes: Any = None) -> Any:
    """Draw which expert leads when, given `leaders_of` and the names of all; the axes."""
    if axes is None:
        figure = plotting("matplotlib.figure").Figure(figsize=(9, 4.5), layout="constrained")
        axes = figure.subplots()
    trials, leaders = looks.T
    shown, places = np.unique(leaders, return_inverse=True)
    axes.plot(trials, places, drawstyle="steps-pre", linewidth=1.0, color="0.7", zorder=1)
    axes.scatter(trials, places, s=6, c=places, cmap="viridis", zorder=2)
    axes.set_yticks(range(shown.size), [names[e] for e in shown], fontsize="small")
    axes.set_xlabel("trials")
    axes.set_title("The expert of the largest weight")
    return axes
