"""Checkpoints that something has changed: they are refused, or a run goes on from them."""

import contextlib
import tempfile
import warnings
from pathlib import Path

import numpy as np
from campaigns.modelfiles import MUTATIONS
from problems import separable
from streamed import Breaking, svmlight_text

from maxmargin import AMIRA, Forgetron, streams
from maxmargin.persistence import ModelFileError

LEARNERS = (AMIRA(), Forgetron(budget=5, gamma=0.5))


def fuzz_checkpoints(count: int, seed: int = 0) -> dict[str, int]:
    """Change checkpoints ``count`` times; AssertionError if a run does what it must not."""
    random = np.random.default_rng(seed)
    outcomes = {"refused": 0, "taken": 0}
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data, file = Path(name) / "rows.svm", Path(name) / "checkpoint"
        data.write_text(svmlight_text(*separable(12, 3, gap=0.2)))
        whole = []
        for learner in LEARNERS:
            with contextlib.suppress(OSError):
                learner.fit_stream(Breaking(_source(data), 2), checkpoint=file, every=1)
            whole.append(file.read_bytes())
            file.unlink()
        for _ in range(count):
            which = random.integers(len(LEARNERS))
            mutation = MUTATIONS[random.integers(len(MUTATIONS))]
            changed = mutation(whole[which], random)
            file.write_bytes(changed)
            for other in Path(name).glob("checkpoint.*"):
                other.unlink()
            taken = _goes_on(LEARNERS[which], data, file)
            outcomes["taken" if taken else "refused"] += 1
    return outcomes


def _source(data: Path) -> streams.Source:
    return streams.open(data, block_size=50)


def _goes_on(learner, data: Path, file: Path) -> bool:
    try:
        learner.fit_stream(_source(data), checkpoint=file, every=1)
    except ModelFileError:
        return False
    except ValueError:  # another learner, other parameters, another source, no rows
        return False
    except BaseException as problem:
        raise AssertionError(f"going on raised {problem!r}") from problem
    return True
