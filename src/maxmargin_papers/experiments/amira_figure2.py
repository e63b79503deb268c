"""Figure 2 of Zhao and Huang: how large are the margins that learners reach?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin import AMIRA, Pegasos, Perceptron
from maxmargin_papers.experiments.separable_cube import (
    CHOICES,
    MOST_PASSES,
    measure_learners,
    of_cube,
    printed,
)
from maxmargin_papers.reproduction.experiment import (
    Answer,
    Cell,
    Claim,
    DataHome,
    Results,
    Scale,
    in_runs,
)
from maxmargin_papers.reproduction.figures import COLOURS, Panel
from maxmargin_papers.reproduction.significance import less

WHERE = "section 4.1, text on Figure 2"
PRINTED = {"Perceptron": "0.1", "AMIRA(1)": "0.1", "AMIRA(0.9)": "0.4", "AMIRA(0.1)": "0.95"}
PEGASOS = "Pegasos(0.0001)"


def cells(scale: Scale) -> Sequence[Cell]:
    return [{"seed": seed} for seed in range({"full": 900, "quick": 10, "tiny": 2}[scale])]


def measure(cell: Cell, tiny: bool, data_home: DataHome) -> dict[str, float]:
    learners = {
        "Perceptron": Perceptron(max_iter=MOST_PASSES),
        PEGASOS: Pegasos(lambda_=1e-4, max_iter=20),
        "AMIRA(1)": AMIRA(epsilon=1.0, max_iter=MOST_PASSES),
        "AMIRA(0.9)": AMIRA(epsilon=0.9, max_iter=MOST_PASSES),
        "AMIRA(0.1)": AMIRA(epsilon=0.1, max_iter=MOST_PASSES),
    }
    return measure_learners(learners, int(cell["seed"]), tiny, endless=PEGASOS)


def no_large_margin(results: Results) -> Answer:
    pegasos, amira = (results.values(f"{name} share") for name in (PEGASOS, "AMIRA(0.9)"))
    said = f"{np.mean(pegasos):.2f} against AMIRA(0.9)’s {np.mean(amira):.2f}"
    return less(pegasos, amira), f"{said}, {in_runs(len(amira))}"


def panels(results: Results) -> list[Panel]:
    def draw(axes: Any) -> None:
        edges = np.linspace(0.0, 1.0, 51)
        for name, colour in zip((*PRINTED, PEGASOS), COLOURS, strict=False):
            shares = np.clip(results.values(f"{name} share"), 0.0, 1.0)
            counts = np.histogram(shares, edges)[0] / len(shares)
            axes.stairs(counts, edges, color=colour, label=name, linewidth=1.4)

    settings = {"xlabel": "margin, of the best one", "ylabel": "part of the runs", "ylim": (0, 1)}
    legend = {"loc": "upper center"}
    return [Panel("How often which margin is reached.", draw, settings, legend)]


EXPERIMENT = of_cube(
    name="amira-figure2",
    title="The distribution of margins of AMIRA, Perceptron and Pegasos",
    place="Figure 2",
    claim="Perceptron and MIRA stay near 0.1 of the best margin; AMIRA reaches about 0.4 with ε = "
    "0.9, and about 0.95 with ε = 0.1.",
    runs=500,
    cells=cells,
    measure=measure,
    compared=[
        *(printed(name, text, WHERE) for name, text in PRINTED.items()),
        Claim(
            PEGASOS, "Pegasos does not give a large margin", no_large_margin, WHERE, kind="fitted"
        ),
    ],
    panels=panels,
    choices=(
        *CHOICES,
        "Pegasos makes 20 passes: it never stops by itself.",
        "A full run makes 900 runs instead of 500, as many as a verdict takes.",
    ),
    differences=(
        "AMIRA(0.1) reaches 0.97 to 0.98 of the best margin with every gap that we tried, from "
        "0.005 to 0.25, where about 0.95 is printed. Plain passes in a fixed order, in place of "
        "our schedule, gave 0.97 to 0.99 on four other data sets. With a free bias it reached "
        "0.96 on ten other data sets, but AMIRA(0.9) then only 0.25, and AMIRA(0.4) 0.77, where "
        "about 0.4 and 0.9 are printed: we found no reading that gives all of these numbers.",
        "Margins of runs that do not separate the data (Pegasos) are drawn at 0.",
    ),
)
