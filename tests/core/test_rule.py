"""Rules: what is not defined has a meaning that changes nothing."""

from typing import NamedTuple

from maxmargin.core.rule import Trial, rule


@rule
class Modest(NamedTuple):
    rate: float

    def active(self, seen):
        return seen.margin <= 0.0

    def step(self, seen):
        return 1.0, self.rate


@rule
class Complete(NamedTuple):
    def active(self, seen):
        return True

    def needs_norm(self):
        return True

    def step(self, seen):
        return 0.5, 1.0

    def rest(self, seen):
        return 0.25

    def project(self, norm2):
        return 0.125


SEEN = Trial(margin=1.0, ww=1.0, xx=1.0, largest_xx=1.0, t=1, k=0)


def test_undefined_methods_change_nothing():
    modest = Modest(1.0)
    assert not modest.needs_norm()
    assert modest.rest(SEEN) == modest.project(4.0) == 1.0


def test_defined_methods_are_kept():
    complete = Complete()
    assert complete.needs_norm()
    assert complete.rest(SEEN) == 0.25
    assert complete.project(4.0) == 0.125
