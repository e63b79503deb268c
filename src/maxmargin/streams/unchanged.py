"""Rows of files that stay as they are while they are read, or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from typing import Any

from maxmargin.streams.files import LocalFile, Stored
from maxmargin.streams.source import (
    START,
    Block,
    ChangedError,
    DelegatingSource,
    Position,
    Source,
    Survey,
)

# Of a folder with more files, so many are looked at after each block, in turns.
AT_ONCE = 64


class UnchangedSource(DelegatingSource):
    """Another source, and the files that it reads: a change of one of them is an error.

    All files are looked at before and after each pass. A look at a local file costs next to
    nothing, so there is one after each block was read, too: a block that is given away comes from
    the files as they were opened.

    Parameters
    ----------
    make : gives the source, which may read something to know its columns
    files : sequence of Stored
    """

    def __init__(self, make: Callable[[], Source], files: Sequence[Stored]) -> None:
        self._files = files
        self._local = [file for file in files if isinstance(file, LocalFile)]
        self._in_turns = cycle(self._local)
        with self._watched():
            super().__init__(make())
        self.plan: Any = getattr(self._source, "plan", None)

    def survey(self) -> Survey:
        with self._watched():
            return super().survey()

    def glance(self) -> Survey:
        with self._watched():
            return super().glance()

    def schema(self) -> dict[str, Any]:
        with self._watched():
            return super().schema()

    def restore(self, schema: dict[str, Any]) -> None:
        with self._watched():
            super().restore(schema)

    def blocks(self, start: Position = START) -> Iterator[Block]:
        with self._watched():
            _check(self._files)
            for block in self._source.blocks(start):
                _check(islice(self._in_turns, min(len(self._local), AT_ONCE)))
                self.skipped = self._source.skipped
                yield block
            self.skipped = self._source.skipped
            _check(self._files)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Errors that come of a change say so."""
        try:
            yield
        except ChangedError:
            raise
        except Exception as error:
            try:
                _check(self._files)
            except ChangedError as change:
                raise change from error
            except Exception:
                pass  # a server that does not answer
            raise
        _check(self._local)


def _check(files: Iterable[Stored]) -> None:
    for file in files:
        file.check_unchanged()
