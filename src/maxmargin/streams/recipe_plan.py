"""From the columns of a table to rows of features.

Values are encoded first, which depends on single rows and may happen ahead of learning; then each
row is prepared with the statistics of the rows so far.

The first features are fixed. Behind them, each value of a category and each bucket of the hash gets
a column when a row first has it, so that there are columns only for what has occurred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.streams.arrow import no_column
from maxmargin.streams.column_kinds import (
    LARGEST_NUMBER,
    Category,
    Column,
    Text,
    Values,
    copy_columns,
    hasher,
    trouble,
    values_of,
)
from maxmargin.streams.feature_rows import (
    NOWHERE,
    are_moderate,
    assemble,
    standardise,
)
from maxmargin.streams.infer_columns import ALWAYS_THE_SAME, Found, RecipeOptions
from maxmargin.streams.source import StreamError

# The fixed features of a category: missing values, and those without a column.
MISSING_PLACE, OTHER_PLACE, FIXED_PLACES = 0, 1, 2
HASHED = -1  # the owner of columns of hashed values, in place of the number of a category
LARGEST_WIDTH = 2**31 - 2
# Number of rows that are standardized together: they stay in the cache.
ROWS_AT_ONCE = 32


class OneHotColumn(NamedTuple):
    """A category with a feature for each value, one for missing and one for other values."""

    name: str
    places: dict[str, int]  # the feature of each value, and of the spellings of missing ones
    other: int  # the feature of all other values


class Preparation(NamedTuple):
    """``(x - center) / scale`` of numbers, indicators of missing numbers, and one-hot columns.

    The features are in this order; those of several categories alternate.
    """

    columns: Sequence[str]  # all raw columns, also those that are dropped
    names: Sequence[str]  # the columns of numbers
    # Arrays of shape (n_numbers,).
    centers: np.ndarray
    scales: np.ndarray
    fills: np.ndarray  # replaces missing numbers; NaN if nothing does
    flagged: Sequence[int] = ()  # the positions of numbers that have an indicator
    categories: Sequence[OneHotColumn] = ()
    width: int = 0  # the number of features


class Running(NamedTuple):
    """Statistics of the rows so far; no record is changed once it is made."""

    rows: float
    # Of each column of numbers; ``squares`` are sums of squared deviations from the mean.
    counts: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    missing: np.ndarray  # number of missing values of each column
    # Columns behind the fixed ones, in the order in which rows first needed them: of the values of
    # each category, and of the buckets that have one, in ascending order.
    known: tuple[dict[str, int], ...] = ()
    buckets: np.ndarray = np.zeros(0, np.int64)
    bucket_columns: np.ndarray = np.zeros(0, np.int64)

    def size(self) -> int:
        """The number of columns behind the fixed ones."""
        return self.buckets.size + sum(map(len, self.known))

    def columns_of(self, buckets: np.ndarray) -> np.ndarray:
        """The columns of buckets, `NOWHERE` without one."""
        if not self.buckets.size:
            return np.full(buckets.shape, NOWHERE)
        places = np.minimum(np.searchsorted(self.buckets, buckets), self.buckets.size - 1)
        return np.where(self.buckets[places] == buckets, self.bucket_columns[places], NOWHERE)

    def owners(self) -> np.ndarray:
        """The number of the category that has each column, or `HASHED`."""
        owners = np.full(self.size(), HASHED)
        for number, values in enumerate(self.known):
            owners[list(values.values())] = number
        return owners


@dataclass(frozen=True)
class Parts:
    """Encoded rows."""

    # Of shape (n_rows, n_numbers + n_indicators): numbers, NaN for missing ones, then indicators.
    dense: np.ndarray
    missing: np.ndarray | None  # bool of shape (n_rows, n_columns), None if nothing is missing
    places: np.ndarray  # columns of entries 1 that depend on no other rows
    # Of each category that is not hashed: codes of values, and the values.
    codes: Sequence[np.ndarray]
    texts: Sequence[Sequence[str]]
    hashed: np.ndarray  # of shape (n_rows, n_hashed)
    words: Any  # a CSR matrix of hashed words, or None without columns of text

    @property
    def shape(self) -> tuple[int, int]:
        return self.dense.shape[0], self.dense.shape[1]

    def __getitem__(self, rows: Any) -> Parts:
        """Some of the rows."""
        codes, texts = _in_order([one[rows] for one in self.codes], self.texts)
        return Parts(
            self.dense[rows],
            None if self.missing is None else self.missing[rows],
            self.places[rows],
            codes,
            texts,
            self.hashed[rows],
            None if self.words is None else self.words[rows],
        )

    def blank(self, rows: np.ndarray) -> Parts:
        """The same with all values of some rows missing."""
        self.dense[rows] = np.nan
        if self.missing is not None:
            self.missing[rows] = False
        blanked = [
            np.where(rows, len(words), one)
            for one, words in zip(self.codes, self.texts, strict=True)
        ]
        codes, texts = _in_order(blanked, self.texts)
        return replace(self, codes=codes, texts=texts)


def _in_order(
    codes: Sequence[np.ndarray], texts: Sequence[Sequence[str]]
) -> tuple[list[np.ndarray], list[list[str]]]:
    """Codes of each category in order of appearance, and the values that still occur."""
    ordered, present = [], []
    for each, words in zip(codes, texts, strict=True):
        distinct, first = np.unique(each[each != len(words)], return_index=True)
        kept = distinct[np.argsort(first, kind="stable")]
        numbers = np.full(len(words) + 1, kept.size)
        numbers[kept] = np.arange(kept.size)
        ordered.append(numbers[each])
        present.append([words[k] for k in kept.tolist()])
    return ordered, present


def _unique_names(names: list[str]) -> list[str]:
    """The names, with numbers behind repeated ones."""
    given, unique = set(names), dict[str, None]()
    for name in names if len(given) < len(names) else ():
        one, k = name, 1
        while one in unique or (k > 1 and one in given):
            k += 1
            one = f"{name} ({k})"
        unique[one] = None
    return list(unique) or names


class Plan:
    """How each column is read, and where its features are; ``found`` are all columns."""

    def __init__(self, found: Sequence[Found], options: RecipeOptions) -> None:
        self._na = options.na
        self.found = list(found)
        self.columns: list[Column] = [one.column for one in found if one.column is not None]
        self.missing = options.missing
        self.bits = options.hash_bits
        self._numbers = [each for each in self.columns if each.has_number]
        categories = [each for each in self.columns if isinstance(each, Category)]
        self._coded = [each for each in categories if not each.hashed]
        self._hashes = [each for each in categories if each.hashed]
        known = {each.name: each for each in self.columns}
        for name in chain.from_iterable(options.interactions):
            if name not in known:
                raise StreamError(f"interactions: {no_column(name, list(known))}")
            if isinstance(known[name], Text):
                raise StreamError(
                    f"interactions: column {name!r} is text, which has no interactions."
                )
        self.interactions = [(one, other) for one, other in options.interactions]
        gaps = {one.name for one in found if one.gaps} if self.missing == "mean" else set()
        self._flagged = [each.name for each in self._numbers if each.name in gaps]
        scaled = [options.scale and each.is_scaled for each in self._numbers]
        self._scaled = np.array(scaled, dtype=np.bool_)
        self._lay_out()

    def _lay_out(self) -> None:
        self.names = [each.name for each in self._numbers]
        self.names += [f"{name} is missing" for name in self._flagged]
        self._n_dense = len(self.names)
        self._starts: dict[tuple[str, str], int] = {}
        at = self._n_dense
        for each in self.columns:
            for part, size in each.parts.items():
                if size:
                    self._starts[each.name, part] = at
                    at += size
        for category in self._coded:
            self._starts[category.name, ""] = at
            at += FIXED_PLACES
        self._n_fixed = at
        has_words = any(isinstance(each, Text) for each in self.columns)
        self.is_hashed = bool(self._hashes or self.interactions or has_words)
        self.grows = bool(self._coded) or self.is_hashed
        self.is_dense = at == self._n_dense and not self.grows
        most = at + sum(self.capacities()) + (2**self.bits if self.is_hashed else 0)
        if not 0 < most <= LARGEST_WIDTH:
            raise StreamError(
                "there is no column left to learn from."
                if most == 0
                else f"{most:,} columns are too many: lower hash_bits or max_categories."
            )

    def begin(self, known: Sequence[Mapping[str, int]] | None = None) -> Running:
        """The statistics before the first row; values of categories may have columns already."""
        counts, means, squares = np.zeros((3, len(self._numbers)))
        missing = np.zeros(len(self.columns), np.int64)
        columns = tuple({} for _ in self._coded) if known is None else tuple(map(dict, known))
        return Running(0.0, counts, means, squares, missing, columns)

    def width(self, running: Running) -> int:
        """The number of features."""
        return self._n_fixed + running.size()

    def capacities(self) -> list[int]:
        """The number of values of each category that have features."""
        return [each.capacity for each in self._coded]

    def input_kinds(self) -> dict[str, str]:
        """The kinds as which CSV and dicts are read."""
        return {each.name: each.input_kind() for each in self.columns}

    # ---------------------------------------------------------------------- values of single rows
    def encode(self, table: Any) -> tuple[Parts, np.ndarray | None]:
        """Encode the rows of a table; and which of them are invalid, None if all are valid."""
        read = {each.name: values_of(each, table, self._na) for each in self.columns}
        rows, dense = table.num_rows, np.empty((table.num_rows, self._n_dense))
        dense[:, len(self._numbers) :] = 0.0
        copy_columns([read[each.name].numbers for each in self._numbers], dense)
        missing = bad = None
        is_plain = are_moderate(dense.reshape(-1), LARGEST_NUMBER)
        for k, each in enumerate(self.columns):
            values = read[each.name]
            if values.missing is None and is_plain:
                continue
            values = values.checked()
            assert values.missing is not None
            if values.missing.any():
                if missing is None:
                    missing = np.zeros((rows, len(self.columns)), bool, order="F")
                missing[:, k] = values.missing
            refused = self.missing == "error" and each.has_number
            for wrong in (values.bad, values.missing if refused else None):
                if wrong is not None and wrong.any():
                    bad = wrong if bad is None else bad | wrong
        parts = Parts(
            dense,
            missing,
            self._places(read, rows),
            [read[each.name].codes for each in self._coded],  # type: ignore[misc]
            [read[each.name].texts for each in self._coded],
            self._hashed(read, rows),
            self._words(read),
        )
        return parts, bad

    def _places(self, read: Mapping[str, Values], rows: int) -> np.ndarray:
        parts = [
            np.where(place == NOWHERE, NOWHERE, place + self._starts[each.name, part])
            for each in self.columns
            for part, place in zip(each.parts, read[each.name].places, strict=False)
        ]
        return np.stack(parts, axis=1) if parts else np.empty((rows, 0), np.int64)

    def _hashed(self, read: Mapping[str, Values], rows: int) -> np.ndarray:
        hashed = np.empty((rows, len(self._hashes) + len(self.interactions)), np.int64)
        for k, each in enumerate(self._hashes):
            texts = [f"{each.name}={text}" for text in (*read[each.name].texts, "")]
            hashed[:, k] = self._hash(texts)[read[each.name].codes]
        for k, (one, other) in enumerate(self.interactions, len(self._hashes)):
            codes, texts = self._codes_and_texts(one, read[one], rows)
            more, others = self._codes_and_texts(other, read[other], rows)
            pairs, inverse = np.unique(codes * len(others) + more, return_inverse=True)
            hashed[:, k] = self._hash(
                [f"{texts[pair // len(others)]}*{others[pair % len(others)]}" for pair in pairs]
            )[inverse]
        return hashed

    def _codes_and_texts(
        self, name: str, values: Values, rows: int
    ) -> tuple[np.ndarray, list[str]]:
        """Codes and texts of a factor of an interaction; of numbers only the name matters."""
        if values.codes is None:
            return np.zeros(rows, np.int64), [name]
        return values.codes.astype(np.int64), [f"{name}={text}" for text in (*values.texts, "")]

    def _hash(self, texts: Sequence[str]) -> np.ndarray:
        return hasher(self.bits).transform([text] for text in texts).indices.astype(np.int64)

    def _words(self, read: Mapping[str, Values]) -> Any:
        found = [words for each in self.columns if (words := read[each.name].words) is not None]
        return sum(found[1:], found[0]) if found else None

    def trouble(self, table: Any, row: int) -> tuple[str, str]:
        """The first column whose value in ``row`` is invalid, and why."""
        return trouble(self.columns, table, row, self._na, self.missing == "mean")

    # --------------------------------------------------------- features by statistics of all rows
    def prepare(
        self, parts: Parts, running: Running, learn: bool, ignored: np.ndarray | None = None
    ) -> tuple[Any, Running]:
        """The features of rows, and the statistics after them.

        The arrays of ``parts`` are overwritten. Nothing is learned from ``ignored`` rows.
        """
        new = len(parts.dense)
        if ignored is not None:
            parts, new = parts.blank(ignored), new - int(ignored.sum())
        dense, counts = parts.dense, running.counts
        means, squares = running.means, running.squares
        if learn:
            counts, means, squares = counts.copy(), means.copy(), squares.copy()
        if self._flagged and parts.missing is not None:
            flagged = set(self._flagged)
            is_flagged = np.array([each.name in flagged for each in self.columns])
            dense[:, len(self._numbers) :] = parts.missing[:, is_flagged]
        whole = parts.missing is None and ignored is None
        if learn or not whole or self._scaled.any():
            buffers = np.empty(counts.size), np.ones((ROWS_AT_ONCE, dense.shape[1]))
            standardise(dense, counts, means, squares, self._scaled, learn, whole, *buffers)
        after = running
        if learn:
            missing = running.missing
            if parts.missing is not None:
                missing = missing + np.count_nonzero(parts.missing, axis=0)
            rows = running.rows + new
            after = Running(rows, counts, means, squares, missing, *running[5:])
            if self.grows:
                after = self._with_columns(parts, after, ignored)
        return (dense if self.is_dense else self._sparse(parts, after)), after

    def _with_columns(self, parts: Parts, running: Running, ignored: np.ndarray | None) -> Running:
        """The statistics with columns for new values, in the order of rows."""
        new, rows, owners = list[Any](), list[np.ndarray](), list[np.ndarray]()
        for owner, (each, codes, texts, known) in enumerate(
            zip(self._coded, parts.codes, parts.texts, running.known, strict=True)
        ):
            fresh = [k for k, text in enumerate(texts) if text not in known]
            if fresh := fresh[: max(0, each.capacity - len(known))]:
                # The codes are in the order in which values appear.
                _, first = np.unique(codes, return_index=True)
                new += [texts[k] for k in fresh]
                rows.append(first[fresh])
                owners.append(np.full(len(fresh), owner))
        fresh_buckets, first_rows = _new_buckets(parts, running, ignored)
        new += fresh_buckets.tolist()
        rows.append(first_rows)
        owners.append(np.full(fresh_buckets.size, len(self._coded)))  # behind categories
        if not new:
            return running
        all_owners = np.concatenate(owners)
        places = np.empty(len(new), np.int64)
        order = np.lexsort((np.arange(len(new)), all_owners, np.concatenate(rows)))
        places[order] = running.size() + np.arange(len(new))
        categories = [dict(each) for each in running.known]
        coded = len(new) - fresh_buckets.size
        for text, owner, place in zip(new[:coded], all_owners, places.tolist(), strict=False):
            categories[owner][text] = place
        buckets = np.concatenate([running.buckets, fresh_buckets])
        columns = np.concatenate([running.bucket_columns, places[coded:]])
        ascending = np.argsort(buckets)
        return running._replace(
            known=tuple(categories), buckets=buckets[ascending], bucket_columns=columns[ascending]
        )

    def _sparse(self, parts: Parts, running: Running) -> sparse.csr_matrix:
        dense, rows = parts.dense, len(parts.dense)
        fixed, own = [parts.places], list[np.ndarray]()
        for each, codes, texts, known in zip(
            self._coded, parts.codes, parts.texts, running.known, strict=True
        ):
            columns = np.array([*(known.get(text, NOWHERE) for text in texts), NOWHERE])
            others = np.where(columns == NOWHERE, OTHER_PLACE, NOWHERE)
            others[-1] = MISSING_PLACE
            others[others != NOWHERE] += self._starts[each.name, ""]
            fixed.append(others[codes])
            own.append(columns[codes])
        places = np.column_stack(fixed).astype(np.int64, copy=False)
        coded = np.column_stack(own) if own else np.empty((rows, 0), np.int64)
        hashed = np.hstack([coded, running.columns_of(parts.hashed)]).astype(np.int64, copy=False)
        hashed_values = np.ones(hashed.shape)
        number = {each.name: k for k, each in enumerate(self._numbers)}
        for k, pair in enumerate(self.interactions, len(self._coded) + len(self._hashes)):
            for name in pair:
                if name in number:
                    hashed_values[:, k] *= dense[:, number[name]]
        words = _with_own_columns(parts.words, running, rows)
        most = dense.size + places.size + hashed.size + words[0].size
        out = np.empty(most), np.empty(most, np.int32), np.zeros(rows + 1, np.int32)
        filled = assemble(dense, places, hashed, hashed_values, words, self._n_fixed, out)
        entries = out[0][:filled], out[1][:filled], out[2]
        return sparse.csr_matrix(entries, shape=(rows, self.width(running)), copy=False)

    # --------------------------------------------------------------------------------- description
    def feature_names(self, running: Running) -> list[str]:
        """Names of all features."""
        names = list(self.names)
        for each in self.columns:
            for part, size in each.parts.items():
                first = 0 if part == "hour" else 1
                names += [f"{each.name} {part} {k}" for k in range(first, first + size)]
        own = [""] * running.size()
        for category, known in zip(self._coded, running.known, strict=True):
            names += [f"{category.name} is missing", f"{category.name} is another"]
            for text, place in known.items():
                own[place] = f"{category.name}={text}"
        # Columns share hashed features.
        words = [each.name for each in self.columns if isinstance(each, Text)]
        others = [each.name for each in self._hashes]
        others += [f"{one}*{other}" for one, other in self.interactions]
        what = f"{', '.join([*words, *others])}: hashed {'value' if others else 'word'}"
        for bucket, place in zip(running.buckets, running.bucket_columns, strict=True):
            own[place] = f"{what} {bucket}"
        return _unique_names(names + own)

    def formula(self, running: Running) -> Preparation:
        """What `prepare` computes from numbers, booleans and one-hot categories."""
        known = {each.name for each in [*self._numbers, *self._coded] if not each.parts}
        if strange := [each for each in self.columns if each.name not in known]:
            what = "hashed category" if isinstance(strange[0], Category) else strange[0].kind
            raise StreamError(
                f"column {strange[0].name!r} is a {what}: only numbers, booleans and one-hot "
                "categories can be computed elsewhere."
            )
        if self.interactions:
            one, other = self.interactions[0]
            raise StreamError(
                f"columns {one!r} and {other!r} have an interaction, which is hashed: it cannot be "
                "computed elsewhere."
            )
        variances = running.squares / np.maximum(running.counts, 1.0)
        deviations = np.sqrt(np.where(variances > 0.0, variances, np.inf))
        fills = running.means if self.missing == "mean" else np.full(running.means.size, np.nan)
        return Preparation(
            columns=[one.name for one in self.found],
            names=[each.name for each in self._numbers],
            centers=np.where(self._scaled, running.means, 0.0),
            scales=np.where(self._scaled, deviations, 1.0),
            fills=fills,
            flagged=[k for k, each in enumerate(self._numbers) if each.name in self._flagged],
            categories=[
                OneHotColumn(
                    category.name,
                    dict.fromkeys(self._na, start + MISSING_PLACE)
                    | {text: self._n_fixed + place for text, place in known.items()},
                    start + OTHER_PLACE,
                )
                for category, known in zip(self._coded, running.known, strict=True)
                for start in [self._starts[category.name, ""]]
            ],
            width=self.width(running),
        )

    def described(self, running: Running) -> list[dict[str, Any]]:
        """Each column with its kind and its numbers of values."""
        used = {each.name: k for k, each in enumerate(self.columns)}
        names = [each.name for each in self._coded]
        sizes = dict(zip(names, map(len, running.known), strict=True))
        lines = []
        for one in self.found:
            line: dict[str, Any] = {"name": one.name, "kind": "drop", "note": one.note}
            if one.column is not None:
                missing = int(running.missing[used[one.name]])
                line["kind"] = one.column.kind
                line |= {"values": int(running.rows) - missing, "missing": missing}
                if one.name in sizes:
                    line["distinct"] = sizes[one.name]
                line["note"] = self._note(one, running, sizes.get(one.name))
            lines.append(line)
        return lines

    def _note(self, one: Found, running: Running, size: int | None) -> str:
        if isinstance(one.column, Category) and size == one.column.capacity:
            return f"{size:,} values have columns: all others share one"
        if one.note == ALWAYS_THE_SAME and one.column is not None:
            varies = size is not None and size > 1
            if one.column.has_number:
                varies = running.squares[self._numbers.index(one.column)] > 0.0
            return "" if varies else one.note
        return one.note


def _new_buckets(
    parts: Parts, running: Running, ignored: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The buckets without a column, in ascending order, and the first row that has each."""
    counting = np.ones(len(parts.dense), bool) if ignored is None else ~ignored
    rows = np.repeat(np.arange(len(counting)), parts.hashed.shape[1])
    buckets = parts.hashed.ravel()
    if parts.words is not None:
        lengths = np.diff(parts.words.indptr)
        rows = np.concatenate([rows, np.repeat(np.arange(len(counting)), lengths)])
        buckets = np.concatenate([buckets, parts.words.indices])
    new = (running.columns_of(buckets) == NOWHERE) & counting[rows]
    buckets, rows = buckets[new].astype(np.int64), rows[new]
    order = np.lexsort((rows, buckets))
    fresh, first = np.unique(buckets[order], return_index=True)
    return fresh, rows[order][first]


def _with_own_columns(
    words: Any, running: Running, rows: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, columns and starts of the entries of words that have a column, in ascending order."""
    if words is None:
        return np.empty(0), np.empty(0, np.int64), np.zeros(rows + 1, np.int64)
    columns = running.columns_of(words.indices)
    known = columns != NOWHERE
    starts = np.concatenate([[0], np.cumsum(known)])[words.indptr]
    shape = rows, max(1, running.size())
    own = sparse.csr_matrix((words.data[known], columns[known], starts), shape=shape)
    own.sort_indices()
    return own.data, own.indices.astype(np.int64), own.indptr.astype(np.int64)
