"""A few of the kills, full disks, odd requests and folders that scripts beside it have more of."""

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("pyarrow")

from campaigns import shadow_parameters
from campaigns.flat_memory import growth, memory_over_events
from campaigns.full_disks import fill_disks
from campaigns.fuzzed_requests import fuzz
from campaigns.kills import kill_servers
from campaigns.slow_clients import KINDS as SLOW
from campaigns.slow_clients import besiege
from campaigns.tampered_folders import KINDS, tamper
from zygote import shared

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="limits, signals and memory as Linux has"
)


@pytest.mark.slow
def test_nothing_is_lost_by_kills(tmp_path):
    options = {"forked": True, "keep_log": False, "least": 20}
    outcome = kill_servers(2, 0, tmp_path, ("columns",), **options)
    assert not outcome.troubles
    assert outcome.counts["kills"] == 2
    assert outcome.counts["identical"] == 1
    assert outcome.counts["events"] >= 40  # 20 deeds before each kill, with an event or more each
    assert outcome.counts["answers"] > 0


def test_nothing_is_lost_on_a_disk_that_fills_up(tmp_path):
    outcome = fill_disks(1, 0, tmp_path, ("limit",), shared())
    assert not outcome.troubles
    assert outcome.counts["times nothing more was taken"] == outcome.counts["times full"] == 2


def test_odd_requests(tmp_path):
    found = fuzz(200, 0, tmp_path, zygote=shared())
    assert not found.troubles
    assert found.answers[200] > 15
    assert found.answers[400] > 15
    assert found.answers[422] > 1


def test_folders_that_somebody_has_changed(tmp_path):
    found = tamper(6 * len(KINDS), 0, tmp_path)
    assert not found.troubles
    assert found.counts["refused"] > 10
    assert found.counts["started, nothing lost"] > 10


def test_shadows_with_parameters_of_all_kinds(tmp_path):
    """In a process that compiles nothing: there are many loops, for few rows each."""
    command = [sys.executable, shadow_parameters.__file__, "16", "--seed", "3", "--size", "8"]
    plain = {**os.environ, "NUMBA_DISABLE_JIT": "1", "TMPDIR": str(tmp_path)}
    found = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "16 requests, 0 troubles" in found.stdout
    counts = {name: int(count) for count, name in re.findall(r"(\d+) (\w+)$", found.stdout, re.M)}
    assert counts["accepted"] > 3
    assert counts["refused"] > 3


def test_memory_is_flat(tmp_path):
    assert growth(memory_over_events(20_000, tmp_path, shared())) < 1000.0


def test_slow_clients(tmp_path):
    found = besiege(len(SLOW), 0, tmp_path, shared())
    assert not found.troubles
    assert set(found.ended.values()) == {1}
    assert found.good > 0
    assert found.answers[200] > 10
    assert found.answers[408] > 2
    assert found.answers[400] > 0
