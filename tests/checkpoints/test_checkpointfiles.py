"""Whatever happens to a checkpoint, nobody goes on from a wrong one unawares."""

from campaigns.checkpointfiles import fuzz_checkpoints
from extent import EVERYTHING


def test_changed_checkpoints():
    times = 300 if EVERYTHING else 120
    outcomes = fuzz_checkpoints(times, seed=0)
    assert outcomes["refused"] > times // 2
    assert outcomes["taken"] > times // 30
