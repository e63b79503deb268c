"""Rows as files, and runs that break off, for the tests of streams and checkpoints."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import separable
from sklearn.base import clone

import maxmargin
from maxmargin import streams

ROWS, PASSES = 40, 2
BLOCK_SIZE = 900  # eight or nine rows of text


def noisy():
    """Rows that cannot be separated, so that there is something to learn in each pass."""
    X, y = separable(ROWS, 5, gap=0.2)
    y[::10] *= -1
    return X, y


def svmlight_text(X: Any, y: Any) -> str:
    """The rows as svmlight text that reads back to the bit."""
    lines = []
    for row, label in zip(np.asarray(X).tolist(), np.asarray(y).tolist(), strict=True):
        entries = (f"{place}:{value!r}" for place, value in enumerate(row, 1) if value)
        lines.append(" ".join([repr(label), *entries]) + "\n")
    return "".join(lines)


def saved_bytes(learner: Any, folder: Path) -> bytes:
    """All that a learner knows."""
    path = folder / "saved.mm"
    maxmargin.save(learner, path)
    return path.read_bytes()


class Breaking(streams.Source):
    """A source that raises ``error`` instead of giving the block after the next ``left`` ones."""

    def __init__(
        self, source: streams.Source, left: int, error: BaseException | None = None
    ) -> None:
        self.source, self.left, self.error = source, left, error or OSError("the cable is out")
        self.name, self.total, self.repeatable = source.name, source.total, source.repeatable

    def survey(self) -> streams.Survey:
        return self.source.survey()

    def glance(self) -> streams.Survey:
        return self.source.glance()

    def identity(self) -> str:
        return self.source.identity()

    def schema(self) -> dict[str, Any]:
        return self.source.schema()

    def restore(self, schema: dict[str, Any]) -> None:
        self.source.restore(schema)

    def blocks(self, start: int = 0) -> Any:
        for block in self.source.blocks(start):
            if self.left == 0:
                raise self.error
            self.left -= 1
            yield block


def opened(data):
    return streams.open(data, block_size=BLOCK_SIZE)


def stopped(learner, source, after, checkpoint, error=None, passes=PASSES):
    """Begin, and stop after so many blocks."""
    error = error or OSError("the cable is out")
    with pytest.raises(type(error)):
        clone(learner).fit_stream(
            Breaking(source, after, error), checkpoint=checkpoint, every=1, passes=passes
        )


def resumed(learner, source, checkpoint, passes=PASSES):
    return clone(learner).fit_stream(source, checkpoint=checkpoint, every=1, passes=passes)
