"""No bit of any learner changes unless it is meant to; see `golden.learners`."""

from golden.learners import differences, golden


def test_every_learner_is_what_it_was():
    assert differences(golden()) == []
