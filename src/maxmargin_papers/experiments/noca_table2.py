"""Table 2 of Chi, He and Zhang: NOCApm and other learners on Adult."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from maxmargin.datasets import load_adult, make_separable
from maxmargin_papers.experiments.other_learners import (
    CHOICES,
    CLAIMS,
    LEARNERS,
    READINGS,
    Setting,
    cells,
    compared,
    measure_on,
    noca_experiment,
)
from maxmargin_papers.reproduction.experiment import Cell, DataHome

TABLE = {  # accuracy in % and size, each with its deviation, and seconds
    "NOCApm": "80.78 0.41 58.2 4.30 11.40",
    "Forgetron": "76.25 0.23 2000 0 42.78",
    "Projectron++": "79.88 0.13 740.2 5.89 35.09",
}
SETTING = Setting(epsilon=0.39, components=58, sigma=np.sqrt(2.0), budget=2000)


def measure(cell: Cell, tiny: bool, data_home: DataHome) -> dict[str, Any]:
    train, test = (
        (make_separable(200, 3, random_state=part) for part in range(2))
        if tiny
        else (load(part, data_home) for part in ("train", "test"))
    )
    return measure_on(train, test, SETTING, cell)


def load(part: str, data_home: DataHome) -> tuple[np.ndarray, np.ndarray]:
    return load_adult(part, encoding="integer", drop_missing=True, scale=True, data_home=data_home)


EXPERIMENT = noca_experiment(
    name="noca-table2",
    title="NOCApm, Forgetron and Projectron++ on Adult",
    place="Table 2",
    claim="NOCApm obtains the best accuracy, with fewer components and in less time.",
    measure=measure,
    cells=partial(cells, learners=(*LEARNERS, *READINGS)),
    compared=(*compared(TABLE, "Table 2", test=True, readings=READINGS), *CLAIMS),
    choices=(
        "Rows with unknown values are left out, which gives the printed 30 162 and 15 060. The 14 "
        "features are as they are, categories replaced by integers, and scaled to [0, 1]; the "
        "binary coding of LIBSVM has 123 features and fits none of the printed sizes.",
        *CHOICES,
    ),
    differences=(
        "Projectron++ stores 740 rows in the paper; no threshold, kernel or coding that we tried "
        "gives that number together with the printed accuracy.",
        "NOCApm as printed comes out far below its printed accuracy: with mean squares for "
        "variances, with the nearest component of any class, and with both. The last two are "
        "below what predicting the larger class for every row would give.",
    ),
)
