"""Table 2 of Zhao and Huang: USPS digits with a Gaussian kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import compress
from typing import Any

import numpy as np
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from maxmargin import ALMA, AMIRA, ROMMA, Pegasos, Perceptron
from maxmargin.datasets import load_usps
from maxmargin.experiments.digits import (
    COUNTS,
    OTHER_LEARNER,
    Data,
    draw_errors,
    errors_by_pass,
    small_digits,
)
from maxmargin.experiments.experiment import (
    Cell,
    DataHome,
    Experiment,
    Printed,
    Results,
    Scale,
    Tolerance,
    at,
    measured,
)
from maxmargin.experiments.figures import Panel
from maxmargin.experiments.separable import PAPER

TABLE = {  # errors after passes 1 and 3, best of five passes, updates after five
    "Perceptron": "7.40 6.18 6.16 1726",
    "Avg. Perceptron": "6.80 5.97 5.93 1726",
    "ROMMA": "7.06 6.15 6.15 1703",
    "Aggr. ROMMA": "7.17 6.11 6.11 1714",
    "ALMA": "4.72 4.54 4.53 13682",
    "Pegasos": "6.18 4.69 4.51 30473",
    "bin MIRA": "7.32 6.21 6.21 1716",
    "bin AMIRA(0.9)": "4.62 4.51 4.51 11928",
    "bin AMIRA(0.5)": "5.02 5.00 5.00 27201",
    "k-best MIRA": "7.19 6.15 6.15 667",
    "k-best AMIRA(0.85)": "4.56 4.60 4.56 2585",
    "k-best AMIRA(0.5)": "4.92 4.91 4.87 4084",
}
SVM = "SVM"
PASSES = 5
GAMMA = 1.0 / (2.0 * 3.5**2)
QUICK = ("Perceptron", "bin AMIRA(0.9)", "k-best AMIRA(0.85)")

ERRORS = Tolerance(
    0.3, "six of the 2007 test digits; orders of the rows move an error by 0.1 to 0.25"
)


def cells(scale: Scale) -> list[Cell]:
    names, runs = (QUICK, 2) if scale == "quick" else (tuple(TABLE), 10)
    found: list[Cell] = [
        {"learner": name, "seed": seed}
        for seed in range(1 if scale == "tiny" else runs)
        for name in names
    ]
    return found if scale == "quick" else [*found, {"learner": SVM, "seed": 0}]


def measure(cell: Cell, tiny: bool, data_home: DataHome) -> dict[str, Any]:
    data = small_digits() if tiny else load(data_home)
    if cell["learner"] == SVM:
        X, y, X_test, y_test = data
        clf = OneVsRestClassifier(SVC(C=100.0, gamma=1.0 / (2.0 * 3.58**2))).fit(X, y)
        return {"errors": [100.0 * np.mean(clf.predict(X_test) != y_test)]}
    return errors_by_pass(learner(str(cell["learner"])), data, PASSES, int(cell["seed"]))


def load(data_home: DataHome) -> Data:
    return (*load_usps(data_home=data_home), *load_usps("test", data_home=data_home))


def learner(name: str) -> Any:
    shared: dict[str, Any] = {"kernel": "rbf", "gamma": GAMMA, "fit_intercept": False}
    if "MIRA" in name:
        epsilon = 1.0 if name.endswith(" MIRA") else float(name.partition("(")[2][:-1])
        multiclass = "ovr" if name.startswith("bin") else "k-best"
        return AMIRA(epsilon=epsilon, multiclass=multiclass, **shared)
    return {
        "Perceptron": Perceptron(**shared),
        "Avg. Perceptron": Perceptron(average=True, **shared),
        "ROMMA": ROMMA(delta=1.0, **shared),
        "Aggr. ROMMA": ROMMA(delta=0.0, **shared),
        "ALMA": ALMA(alpha=0.9, B=1.0 / 0.9, **shared),
        "Pegasos": Pegasos(lambda_=3e-5, **shared),
    }[name]


def best_pass(name: str) -> Any:
    """The errors after the pass with the lowest mean."""

    def values(results: Results) -> Sequence[float]:
        curve = results.curve("errors", learner=name)
        return at("errors", int(np.argmin(curve)), learner=name)(results)

    return values


def compared() -> Iterator[Printed]:
    for name, line in TABLE.items():
        errors: Any = OTHER_LEARNER if name == "Aggr. ROMMA" else ERRORS
        counts: Any = OTHER_LEARNER if name == "Aggr. ROMMA" else COUNTS
        first, third, best, updates = line.split()
        for column, text, ours, tolerance in (
            ("error %, 1 pass", first, at("errors", 0, learner=name), errors),
            ("error %, 3 passes", third, at("errors", 2, learner=name), errors),
            ("error %, best of 5", best, best_pass(name), errors),
            ("updates in 5 passes", updates, measured("updates", learner=name), counts),
        ):
            yield Printed(name, column, text, ours, tolerance, "Table 2")
    yield Printed(
        SVM, "error %", "4.70", at("errors", 0, learner=SVM), ERRORS, "Table 2, last line"
    )


def panels(results: Results) -> list[Panel]:
    settings = {"xlabel": "passes", "ylabel": "test error, %"}
    groups = {
        "The MIRA family: test errors, means over the runs.": ["MIRA" in name for name in TABLE],
        "The others.": ["MIRA" not in name for name in TABLE],
    }
    return [
        Panel(
            caption,
            partial(draw_errors, results=results, names=list(compress(TABLE, chosen))),
            settings,
            {"ncols": 2},
        )
        for caption, chosen in groups.items()
    ]


EXPERIMENT = Experiment(
    name="amira-table2",
    title="USPS digits with a Gaussian kernel",
    paper=PAPER,
    place="Table 2",
    claim="Binary AMIRA(0.9) has the lowest error after three passes, and k-best AMIRA(0.85) after "
    "one, with a fraction of the updates.",
    runs=10,
    cells=cells,
    measure=measure,
    compared=tuple(compared()),
    panels=panels,
    choices=(
        "The text of the table has lost its column of names. They follow from the sentences on it "
        "and from the order of lines in Table 3; the ε of the lines with most updates is 0.5, as "
        "their errors and updates say.",
        "Updates are summed over the ten classifiers. Pixels are as distributed, from −1 to 1.",
        "ALMA’s and Pegasos’ parameters are lost: ALMA has α = 0.9 and B = 1/α, Pegasos the λ with "
        "the printed number of updates, 3·10⁻⁵.",
        "SVM is one-vs-rest LIBSVM with C = 100 and σ = 3.58.",
    ),
    differences=(
        "k-best AMIRA makes 15 to 18 % fewer updates than printed. Another exact solver of the "
        "same programme makes as many as ours; the paper’s iterative one may have stopped early.",
        "Aggressive ROMMA corrects every margin below 1 and makes a hundred times the printed "
        "number of updates; the printed errors and updates are those of a learner that corrects "
        "mistakes.",
        "After one pass the Perceptron’s last hypothesis still swings: ten orders of the rows give "
        "6.6 to 7.5 %.",
        "Pegasos with the λ of the printed number of updates is better than printed after one pass "
        "and does not improve any more. A smaller λ comes nearer to the printed errors and makes a "
        "third of the updates or fewer; the paper’s steps must have been others.",
        "The SVM’s number is quoted from another paper. Read as exp(−d²/(4σ²)), its kernel gives "
        "4.78 %.",
    ),
)
