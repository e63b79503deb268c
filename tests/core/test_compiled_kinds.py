"""Compiled loops learn what Python learns from the same source, to the bit, in every space."""

import math

import pytest
from common.kinds import KINDS
from golden.learners import learned_arrays
from interpreted import interpreted_loops
from problems import overlapping, three_classes

# `NOCA` has a loop of its own (tests/algorithms/test_noca.py), and a bisection learns in fits only.
LEARNERS = {name: cls for name, cls in KINDS.items() if name not in ("clusters", "bisection")}


@pytest.mark.compiled
@pytest.mark.parametrize("kind", LEARNERS)
def test_compiled_loops_learn_what_python_learns(kind):
    X, y = three_classes(n=40) if "joint" in kind else overlapping(n=40)

    def learned():
        learner = LEARNERS[kind](random_state=0)
        learner.partial_fit(X, y, classes=sorted(set(y)))
        return learned_arrays(learner), learner.decision_function(X).tobytes()

    compiled = learned()
    with interpreted_loops(most_trials=math.inf) as trials:
        assert learned() == compiled
    assert trials.total() >= 40
