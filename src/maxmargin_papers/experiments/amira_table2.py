"""Table 2 of Zhao and Huang: USPS digits with a Gaussian kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from maxmargin import ALMA, Pegasos
from maxmargin.datasets import load_usps
from maxmargin_papers.experiments.digit_learners import (
    BEST,
    after,
    data_of,
    errors_by_pass,
    lowest,
    panel,
    table_lines,
    usual_learner,
)
from maxmargin_papers.experiments.separable_cube import PAPER
from maxmargin_papers.reproduction.experiment import (
    Answer,
    Cell,
    Claim,
    DataHome,
    Experiment,
    NotComparable,
    Printed,
    Results,
    Scale,
)
from maxmargin_papers.reproduction.figures import Panel
from maxmargin_papers.reproduction.significance import all_hold, less

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
    "1-best MIRA": "7.19 6.15 6.15 667",
    "1-best AMIRA(0.85)": "4.56 4.60 4.56 2585",
    "1-best AMIRA(0.5)": "4.92 4.91 4.87 4084",
}
K_BEST = {f"k-best{name[6:]}": line for name, line in TABLE.items() if name.startswith("1-best")}
"""The same lines under the name that the paper gives them."""
LEARNERS = (*TABLE, *K_BEST)
FITTED = (
    *("ALMA", "Pegasos", "bin AMIRA(0.5)", "k-best AMIRA(0.5)"),
    *(f"1-best{name[6:]}" for name in K_BEST),
)
"""Their parameters are lost, or 1-best was taken for k-best because its updates fit."""
SVM = "SVM"
PASSES = 5
GAMMA = 1.0 / (2.0 * 3.5**2)
OF_1_BEST = "The printed number is that of 1-best, and the paper’s label is wrong."
SWINGING = ("Perceptron", "Avg. Perceptron", "ROMMA", "bin MIRA", "1-best MIRA")
"""They correct mistakes only, and after one pass ten orders of the rows do not suffice for them."""
RUNS, MANY = 10, 40
QUICK = ("Perceptron", "bin AMIRA(0.9)", "1-best AMIRA(0.85)")

QUOTED = NotComparable(
    "quoted from another paper, with another kernel and another coding of the digits"
)


def cells(scale: Scale) -> list[Cell]:
    names = QUICK if scale == "quick" else LEARNERS
    most = {"full": MANY, "quick": 3, "tiny": 1}[scale]
    found: list[Cell] = [
        {"learner": name, "seed": seed}
        for seed in range(most)
        for name in names
        if seed < RUNS or name in SWINGING
    ]
    return found if scale == "quick" else [*found, {"learner": SVM, "seed": 0}]


def measure(cell: Cell, tiny: bool, data_home: DataHome) -> dict[str, Any]:
    data = data_of(load_usps, tiny, data_home)
    if cell["learner"] == SVM:
        X, y, X_test, y_test = data
        clf = OneVsRestClassifier(SVC(C=100.0, gamma=1.0 / (2.0 * 3.58**2))).fit(X, y)
        return {"errors": [100.0 * np.mean(clf.predict(X_test) != y_test)]}
    # A RandomState draws a new order for each pass; a number would draw the same one.
    orders = np.random.RandomState(int(cell["seed"]))
    return errors_by_pass(learner(str(cell["learner"])), data, PASSES, orders)


def learner(name: str) -> Any:
    settings: dict[str, Any] = {"kernel": "rbf", "gamma": GAMMA, "fit_intercept": False}
    if name == "ALMA":
        return ALMA(alpha=0.9, B=1.0 / 0.9, **settings)
    if name == "Pegasos":
        return Pegasos(lambda_=4.5e-6, project=True, **settings)
    return usual_learner(name, **settings)


def fewer_updates(results: Results) -> Answer:
    """One joint learner of several classes against ten of two, for each pair of like ones."""
    pairs = [("k-best MIRA", "bin MIRA"), ("k-best AMIRA(0.85)", "bin AMIRA(0.9)")]
    updates = [[results.values("updates", learner=each) for each in pair] for pair in pairs]
    said = "; ".join(f"{np.mean(one):.0f} against {np.mean(ten):.0f}" for one, ten in updates)
    return all_hold(less(one, ten) for one, ten in updates), f"updates: {said}"


def rivals_of(name: str) -> list[str]:
    """All others of the paper's learners that are known for what they are."""
    left_out = (name, "Aggr. ROMMA")
    return [each for each in LEARNERS if each not in left_out and not each.startswith("1-best")]


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
        *table_lines(TABLE, (1, 3, BEST), PASSES, "Table 2", fitted=FITTED),
        *table_lines(
            K_BEST,
            (1, 3, BEST),
            PASSES,
            "Table 2",
            fitted=FITTED,
            notes={f"{name}, updates in {PASSES} passes": OF_1_BEST for name in K_BEST},
        ),
        Printed(SVM, "error %", "4.70", after(1, SVM), QUOTED, "Table 2, last line"),
        lowest(
            "k-best AMIRA(0.85)",
            rivals_of("k-best AMIRA(0.85)"),
            (1,),
            "k-best AMIRA(0.85) has the lowest error after one pass",
            "section 4.2",
        ),
        lowest(
            "bin AMIRA(0.9)",
            rivals_of("bin AMIRA(0.9)"),
            (3,),
            "binary AMIRA(0.9) has the lowest error after three passes",
            "section 4.2",
        ),
        Claim(
            "k-best AMIRA",
            "k-best AMIRA needs significantly fewer updates than one-vs-rest",
            fewer_updates,
            "section 4.2",
        ),
    ),
    panels=panels,
    choices=(
        "The text of the table has lost its column of names. They follow from the sentences on it "
        "and from the order of lines in Table 3; the ε of the lines with most updates is 0.5, as "
        "their errors and updates say.",
        "Updates are summed over the ten classifiers. Pixels are as distributed, from −1 to 1.",
        "ALMA’s and Pegasos’ parameters are lost: ALMA has α = 0.9 and B = 1/α, Pegasos projects, "
        "with the λ that gives about the printed numbers, 4.5·10⁻⁶.",
        "The numbers of the lines “k-best” are compared with k-best, and again with 1-best, "
        "Algorithm 2, which counts as fitted since it was taken for its updates. Sentences on "
        "k-best are tested with k-best.",
        "The rows are shuffled for each pass: section 4.2 says “at each training iteration”.",
        "In a full run learners that correct mistakes only make 40 runs: after one pass their last "
        "hypothesis still swings, the Perceptron’s from 6.4 to 9.0 % in 55 orders.",
        "SVM is one-vs-rest LIBSVM with C = 100 and σ = 3.58.",
    ),
    differences=(
        "k-best AMIRA and MIRA make 6 to 18 % fewer updates than printed, and 1-best as many as "
        "printed. An independent program for both agrees: 615 to 626, 2096 to 2139 and 3451 to "
        "3472 updates of k-best, 676 to 681, 2588 to 2607 and 4083 to 4087 of 1-best. So the "
        "paper’s label is wrong: its lines “k-best” were measured with 1-best. Errors do not tell "
        "the two apart.",
        "Aggressive ROMMA corrects every margin below 1 and makes a hundred times the printed "
        "number of updates; the printed errors and updates are those of a learner that corrects "
        "mistakes.",
        "The SVM’s number is quoted from another paper. With exp(−d²/(2σ²)) argmax is decided by "
        "the intercepts of the ten machines; read as exp(−d²/(4σ²)), its kernel gives 4.78 %.",
    ),
)
