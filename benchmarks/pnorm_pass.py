"""What p-norms cost on sparse rows: per update, and in a pass without any."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.harness import Contender, Floor, Key, Report, Scale, race, ratios, seconds
from maxmargin import Perceptron
from maxmargin.models.spec import LinearSpec
from maxmargin.training.inputs import as_targets

NAME = "pnorm-pass"
QUESTION = "What do p-norms cost on sparse rows?"

ROWS, WIDTH, ENTRIES = 20_000, 50_000, 75
PLAIN = "p = 2"
UPDATES, LOOKS = "every row an update", "no updates"


def run(scale: Scale) -> Report:
    X, y = data(scale.rows(ROWS))
    rounded, exact = LinearSpec(p="log").exponent(WIDTH), 2.0 * np.log(WIDTH)
    norms = {
        PLAIN: 2.0,
        f"p = {rounded:g}, 2 ln n to the nearest quarter": rounded,
        f"p = {exact:.4f}, 2 ln n": exact,
    }
    values = race(
        [
            Contender(Key(case, name), one_pass(X, y, p, margin))
            for case, margin in ((UPDATES, np.inf), (LOOKS, -np.inf))
            for name, p in norms.items()
        ],
        scale.rounds,
    )
    _, quarters, anything = norms
    floors = []
    for name, asked in ((quarters, 4.5), (anything, 8.0)):
        for case, limit in ((UPDATES, asked), (LOOKS, 1.3)):
            floors.append(
                Floor(
                    f"{case}, {name} / {PLAIN}",
                    "<=",
                    limit,
                    ratios(values, Key(case, name), Key(case, PLAIN)),
                )
            )
    data_text = f"{X.shape[0]:,} x {WIDTH:,}, {ENTRIES} entries a row"
    how = "Processor time of the compiled loop of the Perceptron, from the same weights each time."
    return Report(NAME, data_text, "s", values, floors, how=how)


def data(rows: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    random = np.random.default_rng(0)
    # Entry j lies in the j-th of equal ranges of columns: sorted, and never twice the same.
    width = WIDTH // ENTRIES
    columns = np.arange(ENTRIES) * width + random.integers(0, width, (rows, ENTRIES))
    starts = np.arange(0, rows * ENTRIES + 1, ENTRIES, dtype=np.int32)
    values = random.standard_normal(columns.size)
    X = sparse.csr_matrix((values, columns.ravel().astype(np.int32), starts), (rows, WIDTH))
    return X, random.choice([-1, 1], rows)


def one_pass(X: Any, y: np.ndarray, p: float, margin: float) -> Callable[[], float]:
    """Seconds of the compiled loop over all rows, from the same weights each time."""
    trained = Perceptron(p=p, max_iter=1, shuffle=False).fit(X, y)
    rule = trained._rule(p)._replace(margin=margin)
    rows = trained._state.model.rows(X)
    targets = as_targets((y > 0).astype(np.int32), classes=2)
    order = np.arange(y.size, dtype=np.int32)

    def measure() -> float:
        model = copy.deepcopy(trained._state.model)
        return seconds(lambda: model.learn_from(rows, targets, order, rule))

    return measure
