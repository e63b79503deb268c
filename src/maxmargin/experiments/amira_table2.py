"""Table 2 of Zhao and Huang: USPS digits with a Gaussian kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from maxmargin import ALMA, Pegasos
from maxmargin.datasets import load_usps
from maxmargin.experiments.digits import (
    BEST,
    after,
    data_of,
    errors_by_pass,
    panel,
    table_lines,
    usual_learner,
)
from maxmargin.experiments.experiment import (
    Cell,
    DataHome,
    Experiment,
    Printed,
    Results,
    Scale,
    Tolerance,
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
    data = data_of(load_usps, tiny, data_home)
    if cell["learner"] == SVM:
        X, y, X_test, y_test = data
        clf = OneVsRestClassifier(SVC(C=100.0, gamma=1.0 / (2.0 * 3.58**2))).fit(X, y)
        return {"errors": [100.0 * np.mean(clf.predict(X_test) != y_test)]}
    return errors_by_pass(learner(str(cell["learner"])), data, PASSES, int(cell["seed"]))


def learner(name: str) -> Any:
    settings: dict[str, Any] = {"kernel": "rbf", "gamma": GAMMA, "fit_intercept": False}
    if name == "ALMA":
        return ALMA(alpha=0.9, B=1.0 / 0.9, **settings)
    if name == "Pegasos":
        return Pegasos(lambda_=3e-5, **settings)
    return usual_learner(name, **settings)


def panels(results: Results) -> list[Panel]:
    family = [name for name in TABLE if "MIRA" in name]
    others = [name for name in TABLE if "MIRA" not in name]
    caption = "The MIRA family: test errors, means over the runs."
    return [
        panel(caption, results, family, ncols=2),
        panel("The others.", results, others, ncols=2),
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
    compared=(
        *table_lines(TABLE, (1, 3, BEST), PASSES, ERRORS, "Table 2"),
        Printed(SVM, "error %", "4.70", after(1, SVM), ERRORS, "Table 2, last line"),
    ),
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
