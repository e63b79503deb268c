"""Which learner?"""

from __future__ import annotations

from typing import Any, NamedTuple

from matplotlib.figure import Figure

from maxmargin_papers.pages.svg import BOUND, INK, LINE, MARGIN, MUTED


class Branch(NamedTuple):
    """A question's answers: what one has, and what to take for it."""

    answer: str
    learner: str
    why: str


QUESTIONS = (
    (
        "Do the data fit in memory?",
        (
            Branch("yes", "MaxMargin", "exact, certified"),
            Branch("yes, curved boundary", 'MaxMargin(kernel="auto")', "exact, certified"),
        ),
    ),
    (
        "Rows arrive one by one, or do not fit in memory. Is the target fixed?",
        (
            Branch("yes, separable", "PUMMA", "any share of the best margin"),
            Branch("yes, with noise", "PassiveAggressive", "fast and robust"),
            Branch("it moves", "NORMA", "forgets old rows"),
            Branch("unknown", "AutoMargin", "nothing to tune"),
        ),
    ),
    (
        "The boundary is curved and memory bounded. Are probabilities needed?",
        (
            Branch("no", "Projectron", "few rows stored"),
            Branch("yes", "NOCA", "a mixture of Gaussians"),
        ),
    ),
)


def which_learner() -> Figure:
    """Three questions, eight answers."""
    lines = sum(1 + len(branches) for _, branches in QUESTIONS) + len(QUESTIONS) - 1
    figure = Figure(figsize=(7.2, 0.3 * lines + 0.2))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0.0, 10.0)
    axes.set_ylim(-lines + 0.3, 0.8)
    axes.set_axis_off()
    top = 0
    for question, branches in QUESTIONS:
        _draw_question(axes, question, branches, top)
        top -= len(branches) + 2
    return figure


def _draw_question(axes: Any, question: str, branches: tuple[Branch, ...], top: int) -> None:
    axes.text(0.1, top, question, color=INK, va="center", weight="bold")
    for number, branch in enumerate(branches, 1):
        y = top - number
        axes.plot([0.2, 0.2, 0.5], [top - 0.45, y, y], color=LINE, linewidth=1.2)
        axes.text(0.65, y, branch.answer, color=BOUND, va="center")
        axes.text(3.35, y, branch.learner, color=MARGIN, va="center", weight="bold")
        axes.text(6.75, y, branch.why, color=MUTED, va="center")
