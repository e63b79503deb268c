"""What the k-best step costs: the smallest step that mends k violated constraints."""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Contender, Floor, Key, Report, Scale, race, seconds
from maxmargin.algorithms.amira import AMIRARule
from maxmargin.core.joint_loop import new_rivals
from maxmargin.core.numba_backend import Compiled
from maxmargin.core.rule import Trial

NAME = "k-best"
QUESTION = "What does an update of several classes together cost?"

LIMITS = {10: 2e-6, 1000: 100e-6}
CASE = "one update"


@Compiled
def many_updates(rivals, outputs, count, rule, trial):  # type: ignore[no-untyped-def]
    """As in the loop: outputs, gaps, steps."""
    total = 0.0
    for n in range(outputs.shape[0]):
        for c in range(count):
            rivals.outputs[c] = outputs[n, c]
        rivals.find_gaps(0, rule, trial)
        total += rivals.solve(0, count, 1.0)[1]
    return total


def run(scale: Scale) -> Report:
    contenders, given = [], (AMIRARule(0.1), Trial(0.0, 1.0, 1.0, 1.0, 1, 0))
    for k in LIMITS:
        outputs = np.random.default_rng(0).normal(size=(scale.rows(200_000 // k), k + 1))
        outputs[:, 0] -= 5.0  # all rivals come too close
        room = new_rivals(k + 1)
        contenders.append(
            Contender(
                Key(CASE, f"k = {k}"),
                lambda r=room, o=outputs, k=k: (
                    seconds(lambda: many_updates(r, o, k + 1, *given)) / len(o)
                ),
            )
        )
    values = race(contenders, scale.rounds)
    floors = [
        Floor(f"seconds for k = {k}", "<=", limit, values[Key(CASE, f"k = {k}")])
        for k, limit in LIMITS.items()
    ]
    how = "Processor time of the smallest step that mends k violated constraints, all k of them."
    return Report(NAME, "random outputs", "s", values, floors, how=how)
