"""svmlight and LIBSVM text, parsed exactly and in parallel."""

from __future__ import annotations

import codecs
import hashlib
import math
from collections.abc import Generator, Iterator
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.streams.background import ahead, map_ahead
from maxmargin.streams.files import Files, as_damage, text_of
from maxmargin.streams.source import (
    BLOCK_SIZE,
    OTHERWISE,
    Block,
    Source,
    StreamError,
    Surprise,
    Survey,
    after,
    check_block_size,
    sorted_labels,
)
from maxmargin.streams.text.svmlight_lines import COLUMN_ZERO, COUNTS, TROUBLES, count, parse

# Lines are parsed as a whole; a small compressed file may have an endless one.
LONGEST_LINE = 2**26


class Chunk(NamedTuple):
    """Complete lines, and the number of bytes read from the disk."""

    text: bytes
    done: int


class Lines(NamedTuple):
    """A parsed chunk; for ``counts`` see `text.svmlight_lines.parse`."""

    chunk: Chunk
    labels: np.ndarray
    weights: np.ndarray | None
    values: np.ndarray
    columns: np.ndarray
    starts: np.ndarray
    lost: np.ndarray  # indices of invalid rows
    counts: np.recarray
    before: int = 0  # lines before the chunk


class SvmlightSource(Source):
    """Rows of svmlight text, as CSR matrices.

    A line ``label:weight column:value ...`` gives its row a weight. By default columns are numbered
    from 0 if there is a column 0, otherwise from 1. More columns than ``n_features`` are an error;
    there are at least ``least_width``.
    """

    format = "svmlight"

    def __init__(
        self,
        file: Any,
        *,
        zero_based: bool | str = "auto",
        n_features: int | None = None,
        least_width: int = 0,
        on_error: str = "raise",
        block_size: int = BLOCK_SIZE,
    ) -> None:
        if zero_based not in (True, False, "auto"):
            raise ValueError(f"zero_based must be True, False or 'auto', got {zero_based!r}.")
        if on_error not in ("raise", "skip"):
            raise ValueError(f"on_error must be 'raise' or 'skip', got {on_error!r}.")
        check_block_size(block_size)
        self._file = file
        self._on_error = on_error
        self._block_size = block_size
        self._known_base = None if zero_based == "auto" else bool(zero_based)
        self._zero_based = self._known_base
        self._width = n_features or least_width
        self._given_width = n_features
        self._guessed = False
        self._given = False
        self._survey: Survey | None = None
        self.repeatable = isinstance(file, Files)
        self.name = file.name if isinstance(file, Files) else file.source
        self.total = file.size if isinstance(file, Files) else None
        # Of a pipe: what the survey has read, and the rest.
        self._begun: tuple[list[Chunk], Generator[Chunk, None, None]] | None = None

    def survey(self) -> Survey:
        if self._survey is None:
            if not self.repeatable:
                return self.glance()
            self._zero_based, self._guessed = self._known_base, False
            self._survey = self._look_at(self._chunks())
        return self._survey

    def glance(self) -> Survey:
        # If errors are skipped, a surprise would go unnoticed.
        sure = self._known_base is not None or self._on_error == "raise"
        if self._survey is not None or (self.repeatable and not sure):
            return self.survey()
        if self._begun is not None:
            return self._look_at(chunk for chunk in self._begun[0])._replace(rows=None)
        chunks = self._chunks()
        first = [next(chunks, Chunk(b"", 0))]
        if self.repeatable:
            chunks.close()
        else:
            self._begun = first, chunks
        self._guessed = True
        return self._look_at(chunk for chunk in first)._replace(rows=None)

    def _look_at(self, chunks: Generator[Chunk, None, None]) -> Survey:
        labels, rows, first, last = set(), 0, 1, -1
        shift = 1 if self._zero_based is False else 0
        for lines in self._checked(chunks, shift):
            counts = lines.counts[0]
            labels.update(np.unique(lines.labels).tolist())
            rows += int(counts.rows)
            first, last = min(first, int(counts.first_column)), max(last, int(counts.last_column))
        if self._zero_based is None:
            self._zero_based = first == 0
        width = last + 1 if self._zero_based else last
        if self._given_width is not None and width > self._given_width:
            raise self._too_wide(self.name, last)
        self._width = max(width, self._width, 1)
        classes = sorted_labels(np.array(sorted(labels)))
        return Survey(classes, self._width, rows)

    def blocks(self, start: int = 0) -> Iterator[Block]:
        if not self.repeatable and self._given:
            raise StreamError(f"{self.name} can be read only once.")
        if self._zero_based is None:
            self.survey()
        self._given = True
        return after(self._all_blocks(), start)

    def _all_blocks(self) -> Iterator[Block]:
        row, self.skipped = 0, 0
        shift, lost = 0 if self._zero_based else 1, list[int]()
        for lines in self._checked(self._chunks(), shift):
            counts = lines.counts[0]
            lost += (row + self.skipped + lines.lost).tolist()
            row += int(counts.rows)
            self.skipped += int(counts.skipped)
            if counts.rows:
                yield self._block(lines, row, shift)._replace(lost=lost)
                lost = []

    def _checked(self, chunks: Generator[Chunk, None, None], shift: int) -> Iterator[Lines]:
        """Parsed chunks, without errors unless such lines are skipped."""

        def parse(chunk: Chunk) -> Lines:
            return self._parse(chunk, shift)

        # What has come from a pipe is learned before more is waited for.
        in_order = map_ahead if isinstance(self._file, Files) else map
        before = 0
        for lines in in_order(parse, ahead(chunks)):
            lines = lines._replace(before=before)
            before += int(lines.counts.lines[0])
            self._check(lines)
            yield lines

    def _block(self, lines: Lines, end: int, shift: int) -> Block:
        width = max(self._width, int(lines.counts.last_column[0]) + 1 - shift)
        if self._given_width is not None and width > self._given_width:
            where = f"{self.name}, before line {lines.before + int(lines.counts.lines[0]) + 1}"
            raise self._too_wide(where, width - 1 + shift)
        self._width = width  # never decreases
        shape = (lines.labels.size, width)
        X = sparse.csr_matrix((lines.values, lines.columns, lines.starts), shape=shape, copy=False)
        X.has_sorted_indices = X.has_canonical_format = True
        return Block(X, lines.labels, end, lines.chunk.done, lines.weights)

    def _too_wide(self, where: str, column: int) -> StreamError:
        given = f"n_features={self._given_width}"
        return StreamError(f"{where}: there is a column {column}, more than {given}.")

    def _chunks(self) -> Generator[Chunk, None, None]:
        if self._begun is not None:
            yield from chain(*self._begun)
        elif isinstance(self._file, Files):
            with self._file.open() as file, as_damage(self.name):
                yield from self._whole_lines(text_of(file), file)
        else:
            with as_damage(self.name):
                yield from self._whole_lines(self._file, None)

    def _whole_lines(self, text: BinaryIO, stored: Any) -> Generator[Chunk, None, None]:
        """Chunks of about a block; ``stored`` is the file on the disk."""
        held, size, done = b"", max(self._block_size, len(codecs.BOM_UTF8)), 0
        while piece := text.read(size):
            is_first, is_last = done == 0, len(piece) < size
            done = done + len(piece) if stored is None else stored.tell()
            if is_first and piece.startswith(codecs.BOM_UTF8):
                piece = b"   " + piece[len(codecs.BOM_UTF8) :]
            cut = len(piece) if is_last else piece.rfind(b"\n") + 1
            chunk = b"".join((held, memoryview(piece)[:cut]))
            if cut:
                yield Chunk(chunk, done)
                held = piece[cut:]
                continue
            held = chunk + piece
            if len(held) > max(LONGEST_LINE, size):
                raise StreamError(f"{self.name}: a line is longer than {LONGEST_LINE:,} bytes.")
        if held:
            yield Chunk(held, done)

    def _parse(self, chunk: Chunk, shift: int) -> Lines:
        if not chunk.text.endswith(b"\n"):  # the last line
            chunk = chunk._replace(text=chunk.text + b"\n")
        text = np.frombuffer(chunk.text, np.uint8)
        counts = np.zeros(1, COUNTS).view(np.recarray)
        rows, entries = count(text)
        labels, weights = np.empty(rows), np.empty(rows)
        values, columns = np.empty(entries), np.empty(entries, np.int32)
        starts, slow = np.empty(rows + 1, np.int32), np.empty((rows + entries, 3), np.int32)
        lost, go_on = np.empty(rows, np.int64), self._on_error == "skip"
        parse(text, shift, go_on, labels, weights, values, columns, starts, slow, lost, counts)
        infinite = []
        for begin, end, entry in slow[: counts.slow[0]].tolist():
            number = float(chunk.text[begin:end])
            if math.isinf(number):
                infinite.append((begin, end))
            elif entry >= 0:
                values[entry] = number
            elif -1 - entry < labels.size:
                labels[-1 - entry] = number
            else:
                weights[-1 - entry - labels.size] = number
        if infinite:  # by so little that only Python noticed: parse again with an obvious overflow
            changed = bytearray(chunk.text)
            for begin, end in infinite:
                changed[begin:end] = b"1e999".rjust(end - begin, b"0")
            return self._parse(chunk._replace(text=bytes(changed)), shift)._replace(chunk=chunk)
        rows, entries = int(counts.rows[0]), int(counts.entries[0])
        return Lines(
            chunk,
            labels[:rows],
            weights[:rows] if counts.weighted[0] else None,
            values[:entries],
            columns[:entries],
            starts[: rows + 1],
            lost[: int(counts.skipped[0])],
            counts,
        )

    def _check(self, lines: Lines) -> None:
        """Raise for an invalid line, unless such lines are skipped."""
        counts = lines.counts[0]
        if self._on_error == "skip" or not counts.skipped:
            return
        at, begin = int(counts.trouble_at), int(counts.line_at)
        rest = lines.chunk.text[at : at + 40].partition(b"\n")[0]
        found = "a space" if rest.strip() else "the end of the line"
        if rest.strip() and not rest[:1].isspace():
            found = repr(rest.split()[0].decode("utf-8", "replace"))
        is_zero = counts.trouble == COLUMN_ZERO
        line = lines.before + int(counts.trouble_line) + 1
        raise (Surprise if self._guessed and is_zero else StreamError)(
            f"{self.name}, line {line}, column {at - begin + 1}: {TROUBLES[counts.trouble]}"
            f"{' (use zero_based=True)' if is_zero else ''}; found {found}."
        )

    def identity(self) -> str:
        if isinstance(self._file, Files):
            return self._file.identity()
        self.survey()
        first = self._begun[0][0].text if self._begun else b""
        return hashlib.sha256(first).hexdigest()

    def schema(self) -> dict[str, Any]:
        if self._zero_based is None:
            self.survey()
        return {"format": "svmlight", "zero_based": self._zero_based, "least_width": self._width}

    def restore(self, schema: dict[str, Any]) -> None:
        zero_based, width = schema.get("zero_based"), schema.get("least_width")
        if type(zero_based) is not bool or type(width) is not int or not 0 < width < 2**31:
            raise StreamError(f"{self.name}: {schema} is not a schema of svmlight text.")
        if self._known_base not in (None, zero_based) or self._given_width not in (None, width):
            raise StreamError(OTHERWISE.format(name=self.name))
        self._zero_based, self._width, self._guessed = zero_based, width, True
