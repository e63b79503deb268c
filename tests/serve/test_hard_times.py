"""A few of the kills and full disks that the campaigns have more of."""

import sys

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from campaigns.full_disks import fill_disks
from campaigns.kills import kill_servers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and signals as Linux has")


def test_nothing_is_lost_by_kills(tmp_path):
    outcome = kill_servers(2, 0, tmp_path)
    assert not outcome.troubles
    assert outcome.counts["kills"] == 2
    assert outcome.counts["identical"] == 1


def test_nothing_is_lost_on_a_disk_that_fills_up(tmp_path):
    outcome = fill_disks(1, 0, tmp_path, ("limit",))
    assert not outcome.troubles
    assert outcome.counts["times nothing more was taken"] == outcome.counts["times full"] == 2
