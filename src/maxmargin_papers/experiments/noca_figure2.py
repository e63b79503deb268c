"""Figure 2 of Chi, He and Zhang: accuracy on SensIT Vehicle against the number of rows seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin_papers.experiments.noca_table3 import measure
from maxmargin_papers.experiments.other_learners import LEARNERS, cells, noca_experiment
from maxmargin_papers.reproduction.experiment import Answer, Claim, Results
from maxmargin_papers.reproduction.figures import COLOURS, Panel
from maxmargin_papers.reproduction.significance import all_hold, less

WHERE = "section 5, text on Figure 2"


def always_best(results: Results) -> Answer:
    ours, *rivals = (np.array(results.values("accuracies", learner=name)) for name in LEARNERS)
    lead = ours.mean(axis=0) - np.max([each.mean(axis=0) for each in rivals], axis=0)
    worst = int(lead.argmin())
    rows = results.values("seen", learner="NOCApm")[0][worst]
    said = f"best at {np.sum(lead > 0)} of {lead.size} looks; least lead {lead[worst]:+.1f} points"
    better = all_hold(
        less(theirs[:, look].tolist(), ours[:, look].tolist())
        for theirs in rivals
        for look in range(lead.size)
    )
    return better, f"{said}, after {rows} rows"


def panels(results: Results) -> list[Panel]:
    def draw(axes: Any) -> None:
        for name, colour in zip(LEARNERS, COLOURS, strict=False):
            seen = results.values("seen", learner=name)[0]
            axes.plot(
                np.array(seen) / 1000.0,
                results.curve("accuracies", learner=name),
                color=colour,
                label=name,
            )

    what = "generated data in place of SensIT Vehicle" if results.stand_in else "SensIT Vehicle"
    caption = f"Accuracy so far against the number of rows seen, {what}: means over the orders."
    settings = {"xlabel": "thousands of rows", "ylabel": "right predictions, %"}
    return [Panel(caption, draw, settings, {"loc": "lower right"})]


EXPERIMENT = noca_experiment(
    name="noca-figure2",
    title="Accuracy on SensIT Vehicle against the number of rows seen",
    place="Figure 2",
    claim="NOCApm is the most accurate from the beginning, and stays so.",
    cells=cells,
    measure=measure,
    compared=[
        Claim(
            "NOCApm",
            "smoothly obtains the best accuracies as the number of examples grows",
            always_best,
            WHERE,
        )
    ],
    panels=panels,
    cells_of="noca-table3",
    choices=("The runs are those of Table 3.",),
)
