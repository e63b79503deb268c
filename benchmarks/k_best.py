"""What the k-best step costs: the smallest step that mends k violated constraints."""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Contender, Floor, Key, Report, Scale, race, seconds
from maxmargin.core.bridge import Compiled
from maxmargin.core.rivals import new_rivals

NAME = "k-best"

LIMITS = {10: 2e-6, 1000: 100e-6}
CASE = "one update"


@Compiled
def many_updates(rivals, outputs, count):  # type: ignore[no-untyped-def]
    """As in the loop: outputs, heap, all rivals in turn, steps."""
    total = 0.0
    for n in range(outputs.shape[0]):
        for c in range(count):
            rivals.outputs[c] = outputs[n, c]
        size, taken = rivals.heapify(0), 0
        while size > 0:
            rival = rivals.heap[0]
            rivals.taken[taken] = rival
            rivals.gaps[taken] = 1.0 - rivals.outputs[0] + rivals.outputs[rival]
            taken += 1
            size = rivals.pop(size)
        total += rivals.solve(taken, 1.0)
    return total


def run(scale: Scale) -> Report:
    contenders = []
    for k in LIMITS:
        outputs = np.random.default_rng(0).normal(size=(scale.rows(200_000 // k), k + 1))
        outputs[:, 0] -= 5.0  # all rivals come too close
        room = new_rivals(k + 1)
        contenders.append(
            Contender(
                Key(CASE, f"k = {k}"),
                lambda r=room, o=outputs, k=k: seconds(lambda: many_updates(r, o, k + 1)) / len(o),
            )
        )
    values = race(contenders, scale.rounds)
    floors = [
        Floor(f"seconds for k = {k}", "<=", limit, values[Key(CASE, f"k = {k}")])
        for k, limit in LIMITS.items()
    ]
    return Report(NAME, "random outputs", "s", values, floors)
