"""NOCApm and other learners, each in one pass over a data set: what the paper's tables compare."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import ClassifierMixin, clone

from maxmargin import NOCA, Forgetron, Projectron
from maxmargin_papers.experiments.printed_noca import PrintedNOCA
from maxmargin_papers.reproduction.experiment import (
    BY_CHANCE,
    Answer,
    Cell,
    Claim,
    Experiment,
    NoVerdict,
    Printed,
    Results,
    Scale,
    Tolerance,
    measured,
)
from maxmargin_papers.reproduction.significance import all_hold, less

PAPER = "Chi, He and Zhang, “Nonlinear online classification algorithm with probability margin”"
ORDERS = 5
LOOKS = 100
"""How often a learner is looked at in its pass."""

NO_SIZE = NoVerdict("NOCApm’s size follows our limit, which is the printed size")
NO_TIMES = NoVerdict("seconds of MATLAB on another machine")
NO_TEST = NoVerdict(
    "the other reading of “accuracy”; printed deviations between orders are too small for it"
)
CHOICES = (
    "Accuracy is that of predictions made before each row is learned, in one pass. The paper does "
    "not say so, but the Forgetron of Table 1 stores one row for each mistake, and 1 − 167.4 / "
    "10 000 is its printed accuracy, 98.33 %.",
    "NOCApm as printed adds a component for every margin error, so it would have more components "
    "than mistakes; the printed sizes are far smaller. Here the number of components is limited to "
    "the printed size. When it is reached, a row joins the nearest component of its class.",
    "A new component is ε/2 wide, and never becomes narrower than 0.7 of that; the paper does not "
    "say. Both were chosen for Adult.",
    "Variances are about the mean, where the paper prints mean squares, and a row joins the "
    "nearest component of its class, where the paper prints that of any.",
    "The kernel is exp(−‖x − x′‖² / σ²), which fits the printed numbers better than the same with "
    "2σ². Projectron++ stores a mistake whose squared distance is above 0.1, as in its authors’ "
    "library, without a limit on their number; the paper prints neither the threshold nor a limit.",
)


class Setting(NamedTuple):
    """The printed parameters for one data set.

    Attributes
    ----------
    epsilon : float
        Of NOCApm; its other parameters are the defaults.
    components : int
        Components of NOCApm at most.
    sigma : float
        Width of the kernel of the others.
    budget : int
        Rows that the Forgetron stores at most, for each class if there are more than two.
    """

    epsilon: float
    components: int
    sigma: float
    budget: int

    def learner(self, name: str) -> Any:
        if name.startswith("NOCApm"):
            kind = partial(PrintedNOCA, reading=READINGS[name]) if name in READINGS else NOCA
            return kind(epsilon=self.epsilon, max_components=self.components)
        gamma = self.sigma**-2
        if name == "Forgetron":
            return Forgetron(budget=self.budget, kernel="rbf", gamma=gamma)
        return Projectron(kernel="rbf", gamma=gamma)


LEARNERS = ("NOCApm", "Forgetron", "Projectron++")
READINGS = {
    "NOCApm, variances as printed": "variances",
    "NOCApm, nearest of any class": "nearest",
    "NOCApm, both as printed": "variances and nearest",
}
"""What the paper prints, where `NOCA` is different."""


def cells(scale: Scale, learners: Sequence[str] = LEARNERS) -> Sequence[Cell]:
    orders = {"full": ORDERS, "quick": 1, "tiny": 2}[scale]
    return [{"learner": name, "order": order} for order in range(orders) for name in learners]


def one_pass(clf: ClassifierMixin, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Learn all rows once, in their order; accuracy on the way, size, seconds of processor time."""
    classes = np.unique(y)
    clone(clf).partial_fit(X[:50], y[:50], classes=classes)  # compile
    seconds, seen, accuracies = 0.0, [], []
    for rows in np.array_split(np.arange(y.size), LOOKS):
        began = time.process_time()
        clf.partial_fit(X[rows], y[rows], classes=classes)
        seconds += time.process_time() - began
        seen.append(int(rows[-1]) + 1)
        accuracies.append(100.0 * (1.0 - clf.n_mistakes_ / seen[-1]))
    size = len(clf.components_ if isinstance(clf, NOCA) else clf.support_)
    numbers = {"accuracy": accuracies[-1], "size": size, "seconds": seconds}
    return {"seen": seen, "accuracies": accuracies, **numbers}


def measure_on(train: Any, test: Any, setting: Setting, cell: Cell) -> dict[str, Any]:
    """One pass over the rows, in the cell's order, and the accuracy on others in the end."""
    (X, y), clf = train, setting.learner(str(cell["learner"]))
    rows = np.random.default_rng(int(cell["order"])).permutation(y.size)
    return {**one_pass(clf, X[rows], y[rows]), "test": 100.0 * clf.score(*test)}


# ------------------------------------------------------------------------------ what is compared
def compared(
    table: Mapping[str, str], where: str, *, test: bool, readings: Collection[str] = ()
) -> list[Printed]:
    """The lines of a table that gives accuracy, size and seconds of each learner.

    Accuracies and sizes have their deviations between orders behind them.
    """
    lines = []
    for name in (*table, *readings):
        accuracy, swing, size, spread, seconds = table.get(name, table["NOCApm"]).split()
        limited: Tolerance | NoVerdict = NO_SIZE if name.startswith("NOCApm") else BY_CHANCE
        columns: list[tuple[str, str, str, str, Tolerance | NoVerdict]] = [
            ("accuracy", "accuracy, %", accuracy, swing, BY_CHANCE),
            ("size", "size", size, spread, limited),
            ("seconds", "seconds", seconds, "", NO_TIMES),
        ]
        if test:
            columns.append(("test", "accuracy on test rows, %", accuracy, swing, NO_TEST))
        for number, column, printed, deviation, rule in columns:
            ours = measured(number, learner=name)
            lines.append(
                Printed(
                    name, column, printed, ours, rule, where, deviation=deviation, kind="fitted"
                )
            )
        if not name.startswith("NOCApm"):
            ratio = float(seconds) / float(table["NOCApm"].split()[-1])
            what = "time / NOCApm’s"
            lines.append(Printed(name, what, f"{ratio:.1f}", ratios(name), NO_TIMES, where))
    return lines


def ratios(name: str) -> Any:
    def values(results: Results) -> list[float]:
        theirs, ours = (results.values("seconds", learner=each) for each in (name, "NOCApm"))
        return [one / other for one, other in zip(theirs, ours, strict=False)]

    return values


def noca_has(
    more: bool, number: str, unit: str, text: str, where: str = "section 4.2", note: str = ""
) -> Claim:
    """The claim that NOCApm has more than each rival, or less."""

    def holds(results: Results) -> Answer:
        values = {name: results.values(number, learner=name) for name in LEARNERS}
        ours = values["NOCApm"]
        said = ", ".join(f"{name} {unit.format(np.mean(each))}" for name, each in values.items())
        pairs = [(values[name], ours) if more else (ours, values[name]) for name in LEARNERS[1:]]
        return all_hold(less(*pair) for pair in pairs), said

    return Claim("NOCApm", text, holds, where, note, kind="fitted")


CLAIMS = (
    noca_has(True, "accuracy", "{:.2f} %", "obtains the best accuracy"),
    noca_has(False, "seconds", "{:.2g} s", "takes far less time"),
    noca_has(
        False,
        "size",
        "{:.0f}",
        "saves significantly on space: it has the fewest components",
        "section 5",
        "Its size follows our limit, which is the printed size.",
    ),
)


noca_experiment = partial(Experiment, paper=PAPER, runs=ORDERS)
"""An experiment of this paper."""
