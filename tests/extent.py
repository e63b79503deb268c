"""How much of the suite runs.

`make test` tries what is the same for all learners on one learner of each kind, and draws the same
random examples each time. `make test-all` sets MAXMARGIN_TESTS=all: every learner, new examples.
"""

import os
from typing import TypeVar

T = TypeVar("T")

EVERYTHING = os.environ.get("MAXMARGIN_TESTS") == "all"


def everything_or(few: T, everything: T) -> T:
    """The parameters of a test about something that the learners have in common."""
    return everything if EVERYTHING else few
