"""A few of the kills, power cuts and full disks that the campaigns have more of."""

import shutil
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


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_nothing_is_lost_by_power_cuts(tmp_path):
    outcome = kill_servers(2, 0, tmp_path, power_cuts=1.0)
    assert not outcome.troubles
    assert outcome.counts["power cuts"] == 2


def test_nothing_is_lost_on_a_disk_that_fills_up(tmp_path):
    outcome = fill_disks(1, 0, tmp_path, ("limit",))
    assert not outcome.troubles
    assert outcome.counts["times nothing more was taken"] == outcome.counts["times full"] == 2
