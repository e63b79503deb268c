"""How much of the suite runs.

`make test` tries what is the same for all learners on one learner of each kind, draws the same
random examples each time, and of tests with many parameters runs a sample that is always the same.
`make test-all` sets MAXMARGIN_TESTS=all: every learner, all parameters, new examples.
"""

import os
import zlib
from typing import TypeVar

T = TypeVar("T")

EVERYTHING = os.environ.get("MAXMARGIN_TESTS") == "all"

# Of a test with more parameters than this, about a quarter run.
FEW = 5


def everything_or(few: T, everything: T) -> T:
    """The parameters of a test about something that the learners have in common."""
    return everything if EVERYTHING else few


def is_in_sample(test: str, count: int) -> bool:
    """Does it run? ``test`` is the name of one of ``count`` tests that differ in parameters."""
    return count <= FEW or zlib.crc32(test.encode()) % 4 == 0
