"""No bit of any learner changes unless it is meant to; see `golden.learners`."""

from extent import EVERYTHING
from golden.learners import differences, golden


def test_every_learner_is_what_it_was():
    """In spaces and with options of all kinds one learner each, or all by `make test-all`."""
    assert differences(golden(wide=EVERYTHING), wide=EVERYTHING) == []
