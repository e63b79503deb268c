"""Whatever happens to a checkpoint, nobody goes on from a wrong one unawares."""

from fuzzing.checkpointfiles import fuzz_checkpoints


def test_changed_checkpoints():
    outcomes = fuzz_checkpoints(300, seed=0)
    assert outcomes["refused"] > 150
    assert outcomes["taken"] > 10
