"""One pass of the Perceptron over a dense array, against scikit-learn and against the memory."""

from __future__ import annotations

import numba
import numpy as np

from benchmarks.data import DENSE_ROWS, dense_data
from benchmarks.harness import Contender, Floor, Key, Report, Scale, Spread, Values, race, ratios
from benchmarks.passes import (
    BARE,
    HOW,
    OURS,
    THEIRS,
    WEIGHTED,
    bare_pass,
    comparisons,
    contenders,
    steadily,
)

NAME = "dense-pass"
QUESTION = "How fast is a pass over dense rows that lie in memory?"

READ = "compiled sum (read bandwidth)"
IN_ORDER, SHUFFLED = "float64, in order", "float64, shuffled"
IN_ORDER_32, SHUFFLED_32 = "float32, in order", "float32, shuffled"


# By index: Numba does not turn a loop over the elements themselves into vector instructions.
@numba.njit(fastmath=True)
def total(flat):  # type: ignore[no-untyped-def]
    """As fast as one thread can read."""
    result = flat.dtype.type(0)
    for i in range(flat.size):
        result += flat[i]
    return result


def run(scale: Scale) -> Report:
    X, y = dense_data(scale.rows(DENSE_ROWS))
    X32 = X.astype(np.float32)
    weights = np.random.default_rng(0).uniform(0.5, 3.0, y.size)
    values = race(
        [
            Contender(Key(IN_ORDER, READ), steadily(lambda: total(X.ravel()))),
            *contenders(IN_ORDER, X, y, shuffle=False),
            Contender(Key(IN_ORDER, WEIGHTED), bare_pass(X, y, False, weights)),
            *contenders(SHUFFLED, X, y, shuffle=True),
            Contender(Key(SHUFFLED, WEIGHTED), bare_pass(X, y, True, weights)),
            Contender(Key(IN_ORDER_32, READ), steadily(lambda: total(X32.ravel()))),
            *contenders(IN_ORDER_32, X32, y, shuffle=False),
            *contenders(SHUFFLED_32, X32, y, shuffle=True),
        ],
        scale.rounds,
    )

    def floor(what: str, asked: float, above: Key, below: Key) -> Floor:
        return Floor(what, ">=", asked, ratios(values, above, below))

    def ceiling(what: str, asked: float, case: str) -> Floor:
        return Floor(what, "<=", asked, ratios(values, Key(case, WEIGHTED), Key(case, BARE)))

    floors = [
        floor("bare pass / read bandwidth", 0.85, Key(IN_ORDER, READ), Key(IN_ORDER, BARE)),
        floor("pass of fit / read bandwidth", 0.85, Key(IN_ORDER, READ), Key(IN_ORDER, OURS)),
        floor("speed-up, in order", 1.8, Key(IN_ORDER, THEIRS), Key(IN_ORDER, OURS)),
        floor("speed-up, shuffled", 2.2, Key(SHUFFLED, THEIRS), Key(SHUFFLED, OURS)),
        floor("float32 / float64, bare pass", 1.5, Key(IN_ORDER, BARE), Key(IN_ORDER_32, BARE)),
        floor("float32 / float64, pass of fit", 1.5, Key(IN_ORDER, OURS), Key(IN_ORDER_32, OURS)),
        ceiling("weighted / unweighted pass, in order", 1.05, IN_ORDER),
        ceiling("weighted / unweighted pass, shuffled", 1.05, SHUFFLED),
    ]
    data = f"{X.shape[0]:,} x {X.shape[1]}, {X.nbytes / 2**20:,.0f} MiB as float64"
    shares = {
        Key(case, f"{name}, % of the speed of reading"): share_of_reading(values, case, name)
        for case in (IN_ORDER, IN_ORDER_32)
        for name in (BARE, OURS)
    }
    pairs = [*comparisons(IN_ORDER, "dense rows")]
    for case in (SHUFFLED, IN_ORDER_32, SHUFFLED_32):
        pairs += comparisons(case)
    return Report(NAME, data, "s", values, floors, how=HOW, comparisons=pairs, quality=shares)


def share_of_reading(values: Values, case: str, name: str) -> float:
    return 100.0 * Spread.of(ratios(values, Key(case, READ), Key(case, name))).median
