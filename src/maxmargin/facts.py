"""What there is to know about a learner, for the table of all."""

from __future__ import annotations

from typing import NamedTuple


class Facts(NamedTuple):
    """What there is to know about a learner at a glance.

    Attributes
    ----------
    guarantee : what is reached on separable data
    updates : how many updates that takes at most
    drift : is it made for moving targets?
    paper : where it comes from
    cost : of an update, where d is the number of a row's entries
    kernel : is there a kernel version?
    certificate : does a fit come with a certificate?
    """

    guarantee: str
    updates: str
    drift: bool
    paper: str
    cost: str = "d"
    kernel: bool = True
    certificate: bool = True
