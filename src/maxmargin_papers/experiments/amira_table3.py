"""Table 3 of Zhao and Huang: MNIST digits with a polynomial kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxmargin import Pegasos
from maxmargin.datasets import load_mnist
from maxmargin_papers.experiments.digit_learners import (
    data_of,
    errors_by_pass,
    lowest,
    panel,
    table_lines,
    usual_learner,
)
from maxmargin_papers.experiments.separable_cube import PAPER
from maxmargin_papers.reproduction.experiment import (
    Cell,
    DataHome,
    Experiment,
    Results,
    Scale,
)
from maxmargin_papers.reproduction.figures import Panel

TABLE = {  # errors after passes 1 to 4, updates after four
    "Perceptron": "2.87 2.26 2.12 2.26 12607",
    "Avg. Perceptron": "2.22 1.80 1.71 1.69 12607",
    "ROMMA": "2.53 1.82 1.76 1.68 10466",
    "Aggr. ROMMA": "2.45 1.89 1.71 1.70 10436",
    "Pegasos(500)": "2.33 1.92 1.85 1.82 118615",
    "bin MIRA": "2.65 2.02 1.77 1.69 11091",
    "bin AMIRA(0.9)": "2.27 1.79 1.64 1.59 12969",
}
PASSES = 4
KERNEL = {"kernel": "poly", "degree": 4, "gamma": 1.0 / 255.0**2, "coef0": 1.0}
RIDGE = 5e5
RUNS = {
    "Perceptron": 20,
    "Avg. Perceptron": 6,
    "ROMMA": 20,
    "Aggr. ROMMA": 2,  # the slowest learner, which gets no verdict
    "Pegasos(500)": 8,
    "bin MIRA": 24,
    "bin AMIRA(0.9)": 14,
}
"""As many as a verdict takes, where runs differ much."""


def cells(scale: Scale) -> Sequence[Cell]:
    if scale == "quick":
        return [{"learner": "bin AMIRA(0.9)", "seed": 0}]
    return [
        {"learner": name, "seed": seed}
        for seed in range(1 if scale == "tiny" else max(RUNS.values()))
        for name in TABLE
        if seed < RUNS[name]
    ]


def measure(cell: Cell, tiny: bool, data_home: DataHome) -> dict[str, Any]:
    data = data_of(load_mnist, tiny, data_home)
    return errors_by_pass(learner(str(cell["learner"])), data, PASSES, int(cell["seed"]))


def learner(name: str) -> Any:
    settings: dict[str, Any] = {**KERNEL, "soft_margin": RIDGE, "fit_intercept": False}
    if name == "Pegasos(500)":
        return Pegasos(lambda_=500.0, project=True, **settings)
    return usual_learner(name, **settings)


def panels(results: Results) -> list[Panel]:
    return [panel("Test errors, means over the runs.", results, list(TABLE))]


EXPERIMENT = Experiment(
    name="amira-table3",
    title="MNIST digits with a polynomial kernel",
    paper=PAPER,
    place="Table 3",
    claim="Binary AMIRA(0.9) has the lowest error from the second pass on, with about as many "
    "updates as Perceptron and ROMMA.",
    runs=5,
    cells=cells,
    measure=measure,
    compared=(
        *table_lines(
            TABLE,
            (1, 2, 3, 4),
            PASSES,
            "Table 3",
            notes={
                "Perceptron, error %, 4 passes": "The number of the second pass again, perhaps a "
                "misprint."
            },
        ),
        lowest(
            "bin AMIRA(0.9)",
            [name for name in TABLE if name not in ("bin AMIRA(0.9)", "Aggr. ROMMA")],
            (2, 3, 4),
            "binary AMIRA(0.9) has the lowest error from the second pass on",
            "section 4.3",
        ),
    ),
    panels=panels,
    choices=(
        "λ = 5·10⁵ on the diagonal belongs to training rows only: a test digit never gets it.",
        "Kernel values are computed from products in single precision.",
        "Updates are summed over the ten classifiers.",
        "The rows are shuffled once for each run, as section 4.3 says.",
        "Pegasos projects, as for Table 2.",
        "In a full run learners make up to 24 runs instead of five, as many as a verdict takes "
        "where runs differ much. Aggressive ROMMA, the slowest learner, which gets no verdict, "
        "makes two.",
    ),
    differences=(
        "Aggressive ROMMA, which corrects every margin below 1, is printed with as many updates as "
        "ROMMA, which corrects mistakes; on USPS ours makes a hundred times as many.",
        "The Perceptron’s printed error falls to 2.12 % and rises again to 2.26 % in the fourth "
        "pass. That is the number of the second pass, so it may be a misprint; that is not proved, "
        "and it counts as not reproduced.",
    ),
)
