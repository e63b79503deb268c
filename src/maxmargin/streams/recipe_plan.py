"""From the columns of a table to rows of features.

Values are encoded first, which depends on single rows and may happen ahead of learning; then each
row is prepared with the statistics of the rows so far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.streams.column_kinds import (
    LARGEST_NUMBER,
    Boolean,
    Category,
    Column,
    Number,
    Text,
    Values,
    hashed_place,
    values_of,
)
from maxmargin.streams.infer_columns import ALWAYS_THE_SAME, Found, RecipeOptions
from maxmargin.streams.option_errors import Message, no_column
from maxmargin.streams.source import StreamError
from maxmargin.streams.spellings import MISSING, remedies
from maxmargin.streams.text.features import (
    NOWHERE,
    are_moderate,
    assemble,
    scale_entries,
    standardise,
)

# The first features of a category, and where those of its values begin.
MISSING_PLACE, OTHER_PLACE, VALUES_FROM = 0, 1, 2
LARGEST_WIDTH = 2**31 - 2
# Numbers of rows that are standardized and copied together: they stay in the cache.
ROWS_AT_ONCE, ROWS_COPIED = 32, 1024
UNUSABLE = "a number is missing or too large"
NO_WORDS = np.empty(0), np.empty(0, np.int64)


class OneHotColumn(NamedTuple):
    """A category with a feature for each value, one for missing and one for other values."""

    name: str
    places: dict[str, int]  # the feature of each value, and of the spellings of missing ones
    other: int  # the feature of all other values
    width: int  # the number of features


class Preparation(NamedTuple):
    """``(x - center) / scale`` of numbers, indicators of missing numbers, and one-hot columns.

    The features are in this order.
    """

    columns: Sequence[str]  # all raw columns, also those that are dropped
    names: Sequence[str]  # the columns of numbers
    # Arrays of shape (n_numbers,).
    centers: np.ndarray
    scales: np.ndarray
    fills: np.ndarray  # replaces missing numbers; NaN if nothing does
    flagged: Sequence[int] = ()  # the positions of numbers that have an indicator
    categories: Sequence[OneHotColumn] = ()


class Running(NamedTuple):
    """Statistics of the rows so far."""

    rows: float
    # Of each column of numbers; ``squares`` are sums of squared deviations from the mean.
    counts: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    missing: np.ndarray  # number of missing values of each column
    # The values of each category in order of appearance. Later records share the dicts and append
    # to them; ``sizes`` are the numbers of values in this one.
    known: tuple[dict[str, int], ...] = ()
    sizes: tuple[int, ...] = ()

    def vocabularies(self) -> list[list[str]]:
        return [list(islice(one, size)) for one, size in zip(self.known, self.sizes, strict=True)]

    def alone(self) -> Running:
        """A copy that shares nothing with other records."""
        names = ("counts", "means", "squares", "missing")
        arrays: dict[str, Any] = {name: getattr(self, name).copy() for name in names}
        known = tuple({text: k for k, text in enumerate(one)} for one in self.vocabularies())
        return self._replace(**arrays, known=known)


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
    # Values, hashed columns and starts of a CSR matrix.
    words: tuple[np.ndarray, np.ndarray, np.ndarray]

    @property
    def shape(self) -> tuple[int, int]:
        return self.dense.shape[0], self.dense.shape[1]

    def __getitem__(self, rows: Any) -> Parts:
        """Some of the rows."""
        codes, texts = _in_order([one[rows] for one in self.codes], self.texts)
        entries = sparse.csr_matrix(self.words, shape=(self.dense.shape[0], LARGEST_WIDTH))[rows]
        return Parts(
            self.dense[rows],
            None if self.missing is None else self.missing[rows],
            self.places[rows],
            codes,
            texts,
            self.hashed[rows],
            (entries.data, entries.indices.astype(np.int64), entries.indptr.astype(np.int64)),
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
        self.bits, self.seed = options.hash_bits, options.seed
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
            at += VALUES_FROM + category.capacity
        self._hashed_from = at
        has_words = any(isinstance(each, Text) for each in self.columns)
        self.is_hashed = bool(self._hashes or self.interactions or has_words)
        self.is_dense = at == self._n_dense and not self.is_hashed
        self.width = at + (2**self.bits if self.is_hashed else 0)
        if not 0 < self.width <= LARGEST_WIDTH:
            raise StreamError(
                "there is no column left to learn from."
                if self.width == 0
                else f"{self.width:,} columns are too many: lower hash_bits or max_categories."
            )

    def begin(self, vocabularies: Sequence[Sequence[str]] | None = None) -> Running:
        """The statistics before the first row; values of categories may be known already."""
        counts, means, squares = np.zeros((3, len(self._numbers)))
        missing = np.zeros(len(self.columns), np.int64)
        texts = [()] * len(self._coded) if vocabularies is None else vocabularies
        known = tuple({text: k for k, text in enumerate(one)} for one in texts)
        return Running(0.0, counts, means, squares, missing, known, tuple(map(len, known)))

    def capacities(self) -> list[int]:
        """The number of values of each category that have features."""
        return [each.capacity for each in self._coded]

    def input_kinds(self) -> dict[str, str]:
        """The kinds as which CSV and dicts are read."""
        return {each.name: each.input_kind() for each in self.columns}

    # ---------------------------------------------------------------------- values of single rows
    def encode(self, rows: Any) -> tuple[Parts, np.ndarray | None, np.ndarray | None]:
        """Encode the rows of a table or a matrix, which of them are invalid, and which to skip."""
        parts, bad, lacking = (
            self._of_matrix(rows) if isinstance(rows, np.ndarray) else self._of_table(rows)
        )
        if self.missing == "error" and lacking is not None:
            return parts, lacking if bad is None else bad | lacking, None
        return parts, bad, lacking

    def _of_table(self, table: Any) -> tuple[Parts, np.ndarray | None, np.ndarray | None]:
        read = {each.name: values_of(each, table, self._na) for each in self.columns}
        rows, dense = table.num_rows, np.empty((table.num_rows, self._n_dense))
        dense[:, len(self._numbers) :] = 0.0
        _copy_columns([read[each.name].numbers for each in self._numbers], dense)
        missing = bad = lacking = None
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
            if values.bad is not None and values.bad.any():
                bad = values.bad if bad is None else bad | values.bad
            if self.missing != "mean" and each.has_number and values.missing.any():
                lacking = values.missing if lacking is None else lacking | values.missing
        parts = Parts(
            dense,
            missing,
            self._places(read, rows),
            [read[each.name].codes for each in self._coded],  # type: ignore[misc]
            [read[each.name].texts for each in self._coded],
            self._hashed(read, rows),
            self._words(read, rows),
        )
        return parts, bad, lacking

    def _of_matrix(self, X: np.ndarray) -> tuple[Parts, np.ndarray | None, np.ndarray | None]:
        """The same for a matrix, if all columns are numbers."""
        rows, dense = X.shape[0], np.zeros((X.shape[0], self._n_dense))
        used = [k for k, one in enumerate(self.found) if one.column is not None]
        numbers = X if len(used) == X.shape[1] else X[:, used]
        dense[:, : len(used)] = numbers
        missing: Any = np.isnan(numbers)
        missing, large = missing if missing.any() else None, np.abs(numbers) > LARGEST_NUMBER
        bad = large.any(axis=1) if large.any() else None
        lacking = None
        if self.missing != "mean" and missing is not None:
            lacking = missing.any(axis=1)
        nothing = np.empty((rows, 0), np.int64)
        words = *NO_WORDS, np.zeros(rows + 1, np.int64)
        return Parts(dense, missing, nothing, [], [], nothing, words), bad, lacking

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
        return np.array([hashed_place(text, self.bits, self.seed) for text in texts], np.int64)

    def _words(
        self, read: Mapping[str, Values], rows: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = [words for each in self.columns if (words := read[each.name].words) is not None]
        if not found:
            return *NO_WORDS, np.zeros(rows + 1, np.int64)
        if len(found) == 1:
            return found[0]
        shape = (rows, 2**self.bits)
        entries: Any = sum(sparse.csr_matrix(words, shape=shape) for words in found)
        return entries.data, entries.indices.astype(np.int64), entries.indptr.astype(np.int64)

    def trouble(self, table: Any, row: int) -> tuple[str, Message]:
        """The first column whose value in ``row`` is invalid, and why."""
        for each in self.columns:
            one = table.select([each.name]).slice(row, 1)
            values, value = values_of(each, one, self._na).checked(), one[each.name][0].as_py()
            if values.bad is not None and values.bad[0]:
                number = values.numbers
                if number is not None and abs(number[0]) > LARGEST_NUMBER:
                    size = "infinite" if np.isinf(number[0]) else "too large"
                    return each.name, (f"the number is {size}",)
                found = f"expected a {each.kind}, found {str(value)[:40]!r}"
                cure = remedies(each.name, value.strip()) if isinstance(value, str) else ()
                return each.name, (found, *cure)
            is_missing = values.missing is not None and values.missing[0]
            if self.missing != "mean" and each.has_number and is_missing:
                return each.name, (f"the {each.kind} is missing",)
        raise AssertionError("the row has no trouble")

    # --------------------------------------------------------- features by statistics of all rows
    def prepare(
        self, parts: Parts, running: Running, learn: bool, ignored: np.ndarray | None = None
    ) -> tuple[Any, Running]:
        """The features of rows, and the statistics after them.

        ``running`` is unchanged, except that its vocabularies may grow; the arrays of ``parts`` are
        overwritten. Nothing is learned from ``ignored`` rows.
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
        codes, sizes = self._values(parts, running, learn)
        after = running
        if learn:
            missing = running.missing
            if parts.missing is not None:
                missing = missing + np.count_nonzero(parts.missing, axis=0)
            after = Running(
                running.rows + new, counts, means, squares, missing, running.known, sizes
            )
        return (dense if self.is_dense else self._sparse(parts, codes)), after

    def _values(
        self, parts: Parts, running: Running, learn: bool
    ) -> tuple[list[np.ndarray], tuple[int, ...]]:
        """The features of the values of categories, and how many values are known afterwards."""
        columns, sizes = [], []
        for each, codes, texts, known, size in zip(
            self._coded, parts.codes, parts.texts, running.known, running.sizes, strict=True
        ):
            if learn:
                while len(known) > size:
                    known.popitem()  # of rows that were prepared but never learned
                for text in texts:
                    if len(known) >= each.capacity:
                        break
                    known.setdefault(text, len(known))
                size = len(known)
            numbers = [known.get(text, size) for text in texts]
            places = [k + VALUES_FROM if k < size else OTHER_PLACE for k in numbers]
            columns.append(self._starts[each.name, ""] + np.array([*places, MISSING_PLACE])[codes])
            sizes.append(size)
        return columns, tuple(sizes)

    def _sparse(self, parts: Parts, codes: list[np.ndarray]) -> sparse.csr_matrix:
        dense, hashed = parts.dense, parts.hashed
        places = np.column_stack([parts.places, *codes]).astype(np.int64, copy=False)
        hashed_values = np.ones(hashed.shape)
        number = {each.name: k for k, each in enumerate(self._numbers)}
        for k, pair in enumerate(self.interactions, len(self._hashes)):
            for name in pair:
                if name in number:
                    hashed_values[:, k] *= dense[:, number[name]]
        values, columns, starts = parts.words
        most = dense.size + places.size + hashed.size + values.size
        out = np.empty(most), np.empty(most, np.int32), np.zeros(len(dense) + 1, np.int32)
        words = values, np.ascontiguousarray(columns), np.ascontiguousarray(starts)
        filled = assemble(
            dense, places, hashed.copy(), hashed_values, words, self._hashed_from, out
        )
        shape = (len(dense), self.width)
        entries = out[0][:filled], out[1][:filled], out[2]
        return sparse.csr_matrix(entries, shape=shape, copy=False)

    # --------------------------------------------------------------------------------- description
    def feature_names(self, running: Running) -> list[str]:
        """Names of all features; those reserved for values of categories have a number."""
        names = list(self.names)
        for each in self.columns:
            for part, size in each.parts.items():
                first = 0 if part == "hour" else 1
                names += [f"{each.name} {part} {k}" for k in range(first, first + size)]
        for category, texts in zip(self._coded, running.vocabularies(), strict=True):
            names += [f"{category.name} is missing", f"{category.name} is another"]
            names += [f"{category.name}={text}" for text in texts]
            names += [f"{category.name}#{k}" for k in range(len(texts), category.capacity)]
        if self.is_hashed:
            # Columns share hashed features.
            words = [each.name for each in self.columns if isinstance(each, Text)]
            others = [each.name for each in self._hashes]
            others += [f"{one}*{other}" for one, other in self.interactions]
            what = f"{', '.join([*words, *others])}: hashed {'value' if others else 'word'}"
            names += [f"{what} {k}" for k in range(2**self.bits)]
        return _unique_names(names)

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
                    dict.fromkeys(self._na, MISSING_PLACE)
                    | {text: VALUES_FROM + k for k, text in enumerate(texts)},
                    OTHER_PLACE,
                    VALUES_FROM + category.capacity,
                )
                for category, texts in zip(self._coded, running.vocabularies(), strict=True)
            ],
        )

    def features_in_use(self, running: Running) -> int:
        """The number of features, without those reserved for values of categories."""
        reserved = sum(VALUES_FROM + capacity for capacity in self.capacities())
        return self.width - reserved + sum(running.sizes)

    def described(self, running: Running) -> list[dict[str, Any]]:
        """Each column with its kind and its numbers of values."""
        used = {each.name: k for k, each in enumerate(self.columns)}
        sizes = dict(zip([each.name for each in self._coded], running.sizes, strict=True))
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


def identity_plan(
    kinds: Mapping[str, str],
    vocabulary: Mapping[str, Sequence[str]],
    na_values: Sequence[str] = (),
) -> tuple[Plan, Running]:
    """The plan of a table without a recipe, and the values of categories, which are fixed.

    ``kinds`` are "number", "boolean" or "text", and ``vocabulary`` has the values of columns of
    text. Numbers and booleans are not changed, and missing ones are errors.
    """
    words = {name: list(dict.fromkeys(vocabulary.get(name, ()))) for name in kinds}
    columns: dict[str, Column] = {}
    for name, kind in kinds.items():
        if kind == "text":
            columns[name] = Category(name, len(words[name]))
        else:
            columns[name] = Boolean(name) if kind == "boolean" else Number(name)
    found = [Found(name, column, False) for name, column in columns.items()]
    plan = Plan(found, RecipeOptions(na=(*MISSING, *na_values)))
    return plan, plan.begin([words[name] for name, kind in kinds.items() if kind == "text"])


def _copy_columns(columns: Sequence[np.ndarray | None], out: np.ndarray) -> None:
    """Write columns into the first ones of a matrix, some rows at a time."""
    for begin in range(0, out.shape[0], ROWS_COPIED):
        rows = slice(begin, begin + ROWS_COPIED)
        for place, column in enumerate(columns):
            assert column is not None
            out[rows, place] = column[rows]


class EntriesPlan:
    """How entries of sparse rows are scaled: by the deviations of their columns."""

    columns = found = ()

    def capacities(self) -> list[int]:
        return []

    def features_in_use(self, running: Running) -> int:
        return running.counts.size

    def feature_names(self, running: Running) -> list[str]:
        return [f"x{k}" for k in range(running.counts.size)]

    def formula(self, running: Running) -> Preparation:
        ones = sparse.csr_matrix(np.ones((1, running.counts.size)))
        factors = self.prepare(ones, running, learn=False)[0].toarray()[0]
        names, nothing = self.feature_names(running), np.zeros(factors.size)
        return Preparation(names, names, nothing, 1.0 / factors, nothing * np.nan)

    def described(self, running: Running) -> list[dict[str, Any]]:
        return []  # no column has a name, and all are numbers

    def begin(self, vocabularies: Sequence[Sequence[str]] | None = None) -> Running:
        nothing = np.zeros(0)
        return Running(0.0, nothing, nothing, nothing, np.zeros(0, np.int64))

    def encode(self, X: sparse.csr_matrix) -> tuple[Any, np.ndarray | None, None]:
        """The rows, and which of them have a number that is missing or too large."""
        fine = np.abs(X.data) <= LARGEST_NUMBER
        if fine.all():
            return X, None, None
        bad = np.zeros(X.shape[0], bool)
        bad[np.searchsorted(X.indptr, np.flatnonzero(~fine), side="right") - 1] = True
        return X, bad, None

    def trouble(self, X: sparse.csr_matrix, row: int) -> tuple[str, Message]:
        return "", (UNUSABLE,)

    def prepare(
        self,
        X: sparse.csr_matrix,
        running: Running,
        learn: bool,
        ignored: np.ndarray | None = None,
    ) -> tuple[Any, Running]:
        """As `Plan.prepare`; rows may be wider than those before."""
        more = max(0, X.shape[1] - running.counts.size)
        before = running.counts, running.means, running.squares
        counts, means, squares = (np.pad(each, (0, more)) for each in before)
        values = X.data.astype(np.float64)
        counting = np.ones(X.shape[0], bool) if ignored is None else ~ignored
        columns, starts, learned = X.indices, X.indptr, counting & learn
        rows = scale_entries(values, columns, starts, learned, running.rows, counts, means, squares)
        scaled = sparse.csr_matrix((values, columns, starts), shape=X.shape, copy=False)
        return scaled, running._replace(rows=rows, counts=counts, means=means, squares=squares)
