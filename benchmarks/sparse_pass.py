"""One pass of the Perceptron over a CSR matrix, against scikit-learn."""

from __future__ import annotations

from benchmarks.data import SPARSE_ROWS, sparse_data
from benchmarks.harness import Floor, Key, Report, Scale, race, ratios
from benchmarks.passes import HOW, OUR_FIT, OURS, THEIR_FIT, THEIRS, comparisons, contenders

NAME = "sparse-pass"
QUESTION = "How fast is a pass over sparse rows that lie in memory?"

IN_ORDER, SHUFFLED = "in order", "shuffled"


def run(scale: Scale) -> Report:
    X, y = sparse_data(scale.rows(SPARSE_ROWS))
    values = race(
        [*contenders(IN_ORDER, X, y, shuffle=False), *contenders(SHUFFLED, X, y, shuffle=True)],
        scale.rounds,
    )
    floors = [
        Floor(f"speed-up, {case}", ">=", 1.25, ratios(values, Key(case, THEIRS), Key(case, OURS)))
        for case in (IN_ORDER, SHUFFLED)
    ]
    floors += [
        Floor(
            f"whole fit, {case}",
            ">=",
            least,
            ratios(values, Key(case, THEIR_FIT), Key(case, OUR_FIT)),
        )
        for case, least in ((IN_ORDER, 1.2), (SHUFFLED, 1.15))
    ]
    data = (
        f"CSR {X.shape[0]:,} x {X.shape[1]:,}, {X.nnz / X.shape[0]:.0f} entries a row, "
        f"{X.data.dtype} and {X.indices.dtype}"
    )
    pairs = [*comparisons(IN_ORDER, "sparse rows"), *comparisons(SHUFFLED)]
    return Report(NAME, data, "s", values, floors, how=HOW, comparisons=pairs)
