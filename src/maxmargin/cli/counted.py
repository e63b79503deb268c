"""Data that keep count of their rows."""

from __future__ import annotations

from collections.abc import Iterator

from maxmargin.streams import Block, Source
from maxmargin.streams.source import DelegatingSource


class Counted(DelegatingSource):
    """Another source, with a count."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.rows = 0  # that were seen so far
        self.rows_read = 0  # the same, where each counts as often as it was read
        self.left_out = 0  # of these, rows of weight 0

    def uncounted(self) -> Iterator[Block]:
        """The rows, which are not counted."""
        return self._source.blocks()

    def blocks(self, start: int = 0) -> Iterator[Block]:
        for block in self._source.blocks(start):
            self.rows = max(self.rows, block.end)
            self.rows_read += block.X.shape[0]
            if block.weight is not None:
                self.left_out += int((block.weight == 0.0).sum())
            yield block
