"""Loops that Python interprets: compiling all of them would take most of the time of the suite.

A loop joins a rule, a space, rows and targets. Rules see scalars alone, and no part depends on the
class of another: so it is enough to compile each part once. `make test` compiles the rules of
`REFERENCES` with everything, and other rules with dense rows of two classes in the spaces that only
they use. Python runs the first trials of a test in other combinations, which gives the same bits
(`core/test_loop.py`). `make test-all` compiles all of them.
"""

from collections import Counter
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from extent import EVERYTHING

from maxmargin.core.joint_loop import learn_jointly
from maxmargin.core.loop import learn
from maxmargin.core.numba_backend import Compiled
from maxmargin.core.rows import SparseRows
from maxmargin.core.targets import Binary

INTERPRETED = (learn, learn_jointly)
REFERENCES = {"PerceptronRule", "ExpertRules"}
# Spaces with a reference among their rules.
SHARED = {"SlotSpace", "SharedSlotSpace", "JointSpace"}
# Of a rule in a test; for more of them compiling is faster.
MOST_TRIALS = 4000


def is_rare(rows, targets, rule, space):
    """Is every part of the loop in another one that is compiled?"""
    if type(rule).__name__ in REFERENCES:
        return False
    if any(is_single(array) for part in (rows, space) for array in arrays_of(part)):
        return False  # the interpreter rounds single precision at other places
    is_plain = type(targets) is Binary and not isinstance(rows, SparseRows)
    return not is_plain or type(space).__name__ in SHARED or has_gram(space)


def has_gram(space):
    return type(getattr(space, "geometry", None)).__name__ == "Gram"


def arrays_of(part):
    for field in part:
        if isinstance(field, tuple):
            yield from arrays_of(field)
        elif isinstance(field, np.ndarray):
            yield field


def is_single(array):
    return array.dtype == np.float32


@contextmanager
def interpreted_loops():
    """While it lasts, rare loops are interpreted. For tests that do not count calls or lines."""
    compiled, entry = Compiled.__call__, Compiled.entry
    trials: Counter[type] = Counter()

    def is_interpreted(loop, args):
        if loop not in INTERPRETED:
            return False
        rows, targets, order, start, rule, space, *_ = args
        trials[type(rule)] += (order.size - start) * targets.problems()
        return trials[type(rule)] <= MOST_TRIALS and is_rare(rows, targets, rule, space)

    def call(loop, *args):
        if not is_interpreted(loop, args):
            return compiled(loop, *args)
        with np.errstate(all="ignore"):  # as machine code does
            return loop.plain(*args)

    def entry_or_call(loop, *args):
        return partial(call, loop) if is_interpreted(loop, args) else entry(loop, *args)

    with pytest.MonkeyPatch.context() as patch:
        if not EVERYTHING:
            patch.setattr(Compiled, "__call__", call)
            patch.setattr(Compiled, "entry", entry_or_call)
        yield
