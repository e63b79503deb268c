"""Loops that Python interprets until it pays to compile them.

A loop joins a rule, a space, rows and targets, and takes seconds to compile. The tests use some 200
combinations, most of them for a few hundred trials, which Python runs in less time and with the
same bits (`core/test_loop.py` and other tests with the mark `compiled` compare them). So `make
test` does what an adaptive compiler does: Python runs the first trials of a combination, and once
they would have taken about as long as compiling, machine code runs the rest. `make test-all`
compiles everything at once.
"""

from collections import Counter
from contextlib import contextmanager, nullcontext
from functools import partial

import numpy as np
import pytest
from extent import EVERYTHING

from maxmargin.core.joint_loop import learn_jointly
from maxmargin.core.loop import learn
from maxmargin.core.numba_backend import Compiled
from maxmargin.experts.expert_loop import learn_rows
from maxmargin.experts.expert_table import ExpertTable

INTERPRETED = (learn, learn_jointly, learn_rows)
# Of one combination of classes, in this process.
MOST_TRIALS = 8000
all_trials: Counter[str] = Counter()


def combination(*parts):
    """The classes that a loop is made of, with all that they contain."""
    return " ".join(name for part in parts for name in classes_of(part))


def classes_of(part):
    yield type(part).__name__
    for field in part:
        if isinstance(field, tuple):
            yield from classes_of(field)


def is_single(part):
    """Does it contain arrays in single precision, which Python rounds at other places?"""
    return any(
        is_single(field)
        if isinstance(field, tuple)
        else isinstance(field, np.ndarray) and field.dtype == np.float32
        for field in part
    )


def trials_of(rows, targets, order, start, rule, space, *rest):
    """How many trials a call makes; for Python, eight experts are one trial."""
    experts = rule.numbers.size if isinstance(rule, ExpertTable) else 1
    return (order.size - start) * targets.problems() * max(experts // 8, 1)


@contextmanager
def interpreted_loops(most_trials=MOST_TRIALS, trials=None):
    """While it lasts, Python runs the first trials of each combination. Yields their counts."""
    compiled, entry = Compiled.__call__, Compiled.entry
    trials = Counter() if trials is None else trials

    def is_interpreted(loop, args):
        if loop not in INTERPRETED:
            return False
        rows, targets, _, _, rule, space, *_ = args
        if is_single(rows) or is_single(space):
            return False
        name = combination(rows, targets, rule, space)
        trials[name] += trials_of(*args)
        return trials[name] <= most_trials

    def call(loop, *args):
        if not is_interpreted(loop, args):
            return compiled(loop, *args)
        with np.errstate(all="ignore"):  # as machine code does
            return loop.plain(*args)

    def entry_or_call(loop, *args):
        return partial(call, loop) if is_interpreted(loop, args) else entry(loop, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compiled, "__call__", call)
        patch.setattr(Compiled, "entry", entry_or_call)
        yield trials


def economical_loops():
    """For tests that count neither calls nor lines of code."""
    return nullcontext() if EVERYTHING else interpreted_loops(trials=all_trials)
