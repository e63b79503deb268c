"""Data that keep count of their rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from maxmargin.streams import START, Block, Position, Source, Survey


class Counted(Source):
    """Another source, with a count.

    Attributes
    ----------
    rows : int
        That were seen so far.
    rows_read : int
        The same, where each counts as often as it was read.
    left_out : int
        Of these, rows of weight 0.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.name, self.total, self.repeatable = source.name, source.total, source.repeatable
        self.rows = self.rows_read = self.left_out = 0

    def survey(self) -> Survey:
        return self._source.survey()

    def glance(self) -> Survey:
        return self._source.glance()

    def identity(self) -> str:
        return self._source.identity()

    def schema(self) -> dict[str, Any]:
        return self._source.schema()

    def begin(self) -> None:
        self._source.begin()

    def reach(self, block: Block) -> None:
        self._source.reach(block)

    def end_pass(self) -> None:
        self._source.end_pass()

    def restore(self, schema: dict[str, Any]) -> None:
        self._source.restore(schema)

    def blocks(self, start: Position = START) -> Iterator[Block]:
        for block in self._source.blocks(start):
            self.rows = max(self.rows, block.end.row)
            self.rows_read += block.X.shape[0]
            if block.weight is not None:
                self.left_out += int((block.weight == 0.0).sum())
            yield block
        self.skipped = self._source.skipped
