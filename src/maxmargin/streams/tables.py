"""Rows of tables: CSV, Parquet, Arrow and JSON files, frames, dicts."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import numpy as np

from maxmargin.streams.arrow import (
    KINDS,
    MISSING,
    NAMES,
    WEIGHT,
    Piece,
    TableReader,
    arrow,
    as_stream_errors,
    check_na_values,
    label_trouble,
    labels_of,
    listed,
    no_column,
    numbers_of,
)
from maxmargin.streams.background import ahead
from maxmargin.streams.column_kinds import (
    LARGEST_NUMBER,
    Boolean,
    Column,
    Number,
    copy_columns,
    is_text,
    trouble,
    values_of,
)
from maxmargin.streams.csv_tables import CsvReader
from maxmargin.streams.dicts import LABEL, WEIGHT_COLUMN, DictReader
from maxmargin.streams.feature_rows import are_moderate
from maxmargin.streams.infer_columns import GLANCE
from maxmargin.streams.source import (
    BLOCK_SIZE,
    Block,
    Source,
    StreamError,
    Survey,
    after,
    check_block_size,
    invalid_weights,
    sorted_labels,
    why_invalid,
)
from maxmargin.streams.table_readers import BatchReader, DatasetReader, FrameReader

LABELS = ("label", "target", "class", "y")
NUMBER_SIZE = 8  # bytes


class Trouble(NamedTuple):
    """An error in a row of a table."""

    row: int
    column: str
    why: str


class TableSource(Source):
    """Rows of a table: arrays of its numbers, or what a recipe makes of all columns.

    ``format`` is "csv", "parquet", "arrow", "json", "frame", "batches" or "dicts"; for the other
    options see `streams.open`. Blocks have at most ``block_size`` bytes, eight for each value. With
    a recipe, blocks are the `Parts` of `Plan.encode`. ``on_error="skip"`` skips rows that cannot be
    read, that have no label or one that is too long, a number that is missing or infinite, or an
    invalid weight.
    """

    format = "table"

    def __init__(
        self,
        file: Any,
        format: str,
        *,
        label: str | int | None = None,
        weight: str | int | None = None,
        needs_label: bool = True,
        columns: Sequence[str] | None = None,
        kinds: Mapping[str, str] | None = None,
        header: bool | None = None,
        delimiter: str | None = None,
        encoding: str = "utf-8",
        decimal: str = ".",
        na_values: Sequence[str] = (),
        recipe: Any = None,
        on_error: str = "raise",
        block_size: int = BLOCK_SIZE,
    ) -> None:
        arrow()
        check_block_size(block_size)
        _check_choice("on_error", on_error, ("raise", "skip"))
        self._format = format
        self._skips = on_error == "skip"
        self._encoding, self._decimal = encoding, decimal
        check_na_values(na_values)
        self._na = tuple(na_values if recipe is None else recipe.na_values)
        self._block_size = block_size
        self._reader: TableReader
        if format == "csv":
            self._reader = CsvReader(
                file,
                header=header,
                delimiter=delimiter,
                skip=self._skips,
                block_size=block_size,
                encoding=encoding,
                decimal=decimal,
                na_values=self._na,
            )
        elif format == "frame":
            self._reader = FrameReader(file)
        elif format == "batches":
            self._reader = BatchReader(file)
        elif format == "dicts":
            self._reader = DictReader(file)
        else:
            self._reader = DatasetReader(file, format)
        self.name, self.total = self._reader.name, self._reader.total
        self.repeatable = self._reader.repeatable
        if format == "dicts":  # labels and weights are beside the dicts
            label, needs_label, kinds = LABEL, False, None
        elif LABEL in (label, *(kinds or ())):
            label, kinds = None if label == LABEL else label, None
        self._choose_columns(label, weight, needs_label, columns, kinds or {}, recipe is None)
        self._survey: Survey | None = None
        self.plan: Any = None
        if hasattr(recipe, "plan_"):
            self._read_for(recipe.plan_)
        elif recipe is not None:
            self._read_by_a_glance(recipe)

    def _choose_columns(
        self,
        label: str | int | None,
        weight: str | int | None,
        needs_label: bool,
        columns: Sequence[str] | None,
        kinds: Mapping[str, str],
        are_numbers: bool,
    ) -> None:
        found = self._reader.kinds()
        self._weight = None
        if WEIGHT_COLUMN in found:
            weight = WEIGHT_COLUMN
        if weight is not None:
            self._weight = self._column_at(list(found), weight, needs_label)
        self._label = None
        if label is not None or needs_label or columns is None:
            self._label = self._label_among(list(found), label, needs_label)
        if self._label is not None and self._label == self._weight:
            raise StreamError(
                f"{self.name}: column {self._label!r} cannot be both label and weight."
            )
        features = columns
        if features is None:
            features = [name for name in found if name not in (self._label, self._weight)]
        self._kinds = dict.fromkeys(features, "text")
        for name in features:
            self._check_column(name, found)
            if are_numbers:
                self._kinds[name] = self._kind(name, found, kinds)
                if self._kinds[name] == "text":
                    raise self._not_numeric(name)
        self._label_kinds: dict[str, str] = {}
        if self._label is not None:
            if found[self._label] is None:
                raise StreamError(
                    f"{self.name}: the labels in column {self._label!r} are neither numbers nor "
                    "text."
                )
            self._label_kinds[self._label] = self._kind(self._label, found, kinds)
        self._weight_kinds: dict[str, str] = {}
        if self._weight is not None:
            self._kind(self._weight, found, {self._weight: "number"})
            self._weight_kinds[self._weight] = WEIGHT
        if not self._kinds:
            raise StreamError(f"{self.name}: there is no column beside the label.")
        for name in kinds:
            if name != label:
                self._check_column(name, found)

    def _label_among(self, names: list[str], label: str | int | None, needed: bool) -> str | None:
        if label is not None:
            return self._column_at(names, label, needed)
        candidates = [name for name in names if name.lower() in LABELS and name != self._weight]
        if len(candidates) == 1:
            return candidates[0]
        if not needed:
            return None
        raise StreamError(
            f"{self.name}: the label column is unknown: name it with label=; there are "
            f"{listed(names)}."
        )

    def _column_at(self, names: list[str], place: str | int, needed: bool) -> str | None:
        """The column of this name or position."""
        if isinstance(place, int):
            if -len(names) <= place < len(names):
                return names[place]
        elif place in names:
            return place
        if not needed:
            return None
        raise StreamError(f"{self.name}: {no_column(place, names)}")

    def _kind(self, name: str, found: Mapping[str, str | None], given: Mapping[str, str]) -> str:
        """The kind of a column: the given one, if the file allows it."""
        self._check_column(name, found)
        there, wanted = found[name], given.get(name, found[name])
        wanted = "text" if wanted == "category" else wanted
        if there is None or wanted is None:
            raise self._not_numeric(name)
        _check_choice(f"the kind of column {name!r}", wanted, KINDS)
        if self._format != "csv" and there == "text" and wanted != "text":
            raise StreamError(f"{self.name}: column {name!r} is text, expected a {wanted}.")
        return wanted

    def _check_column(self, name: str, found: Mapping[str, Any]) -> None:
        if name not in found:
            raise StreamError(f"{self.name}: {no_column(name, list(found))}")

    def _not_numeric(self, name: str) -> StreamError:
        return StreamError(
            f"{self.name}: column {name!r} is not numeric: prepare the columns with "
            "recipe=maxmargin.streams.Recipe() (for a learner that has one, recipe=clf.recipe_), "
            "or choose others with columns=."
        )

    def _read_for(self, plan: Any) -> None:
        self.plan, are_dicts = plan, self._format == "dicts"
        kinds = plan.input_kinds().items()
        self._kinds = {
            name: "text" if kind == NAMES and not are_dicts else kind for name, kind in kinds
        }

    def _read_by_a_glance(self, recipe: Any) -> None:
        first = self._first_rows(self._kinds | self._label_kinds)
        labels = None if self._label is None else self._labels_and_missing(first)[0]
        if self._decimal == ",":
            first = with_points(first)
        with self._named():
            self._read_for(recipe.plan_for(first.select(list(self._kinds)), labels))

    def _first_rows(self, kinds: Mapping[str, str]) -> Any:
        """The first rows of some columns as a table."""
        tables, rows = list[Any](), 0
        with closing(self._reader.first(kinds, GLANCE)) as pieces:
            for piece in pieces:
                tables.append(piece.table)
                rows += piece.table.num_rows
                if rows >= GLANCE:
                    break
        if not rows:
            raise StreamError(f"{self.name}: there are no rows.")
        with as_stream_errors(self.name):  # a frame may have other types in other rows
            return arrow().concat_tables(tables, promote_options="permissive").slice(0, GLANCE)

    def glance(self) -> Survey:
        if self._survey is not None or self._label is None:
            return self.survey()
        labels, missing = self._labels_and_missing(self._first_rows(self._label_kinds))
        return Survey(sorted_labels(np.unique(labels[~missing])), self._width(), None)

    def survey(self) -> Survey:
        if self._survey is None:
            # Dicts are read by the thread of their user, who may have no end of them.
            whole = self.repeatable and self._reader.is_threaded
            classes, rows = None, self._reader.rows
            if self._label is not None:
                read = self._reader.pieces if whole else self._reader.first
                labels, rows = set[Any](), 0
                with closing(self._pieces(read, self._label_kinds)) as pieces:
                    for piece in pieces:
                        labels.update(np.unique(self._labels_in(piece.table, rows)).tolist())
                        rows += piece.table.num_rows
                classes = sorted_labels(np.array(sorted(labels)))
            is_exact = self.repeatable and not self._skips
            self._survey = Survey(classes, self._width(), rows if is_exact else None)
        return self._survey

    def _pieces(self, read: Any, wanted: Mapping[str, str]) -> Generator[Piece, None, None]:
        """All rows in pieces of limited size."""
        most = max(1, self._block_size // (NUMBER_SIZE * max(1, len(wanted))))
        seen = 0
        with closing(read(wanted, most)) as pieces:
            for table, done, lost in pieces:
                for begin in range(0, max(table.num_rows, 1), most):
                    part, is_last = table.slice(begin, most), begin + most >= table.num_rows
                    seen += part.num_rows
                    before = [k for i, k in enumerate(lost) if is_last or k < seen + i]
                    lost, seen = lost[len(before) :], seen + len(before)
                    yield Piece(part, done, before)

    def _labels_in(self, table: Any, before: int) -> np.ndarray:
        labels, missing = self._labels_and_missing(table)
        if missing.any() and not self._skips:
            raise self._error(before, *self._unlabelled(table, missing))
        return labels[~missing]

    def _labels_and_missing(self, table: Any) -> tuple[np.ndarray, np.ndarray]:
        ((name, kind),) = self._label_kinds.items()
        with self._named():
            return labels_of(table[name], kind, self._na)

    def _unlabelled(self, table: Any, missing: np.ndarray) -> Trouble:
        row = int(np.argmax(missing))
        ((name, kind),) = self._label_kinds.items()
        return Trouble(row, name, label_trouble(table[name].slice(row, 1), kind))

    def _error(self, before: int, row: int, column: str, why: str) -> StreamError:
        return StreamError(f"{self.name}, row {before + row + 1}, column {column!r}: {why}.")

    def _width(self) -> int:
        return len(self._kinds) if self.plan is None else self.plan.width(self.plan.begin())

    def blocks(self, start: int = 0) -> Iterator[Block]:
        self.skipped = 0
        blocks = self._all_blocks()
        return after(ahead(blocks) if self._reader.is_threaded else blocks, start)

    def rows_at(self, places: Sequence[int]) -> Any:
        """The rows at these places of the file, from 0 on, as a table of their raw columns."""
        found, seen = list[Any](), 0
        with closing(self._pieces(self._reader.pieces, self._kinds)) as pieces:
            for table, _, lost in pieces:
                rows = table.num_rows + len(lost)
                here = np.setdiff1d(np.arange(seen, seen + rows), lost)
                found.append(table.filter(np.isin(here, places)))
                seen += rows
        return arrow().concat_tables(found)

    def _all_blocks(self) -> Generator[Block, None, None]:
        wanted = self._kinds | self._label_kinds | self._weight_kinds
        seen, end, lost = 0, 0, list[int]()
        with closing(self._pieces(self._reader.pieces, wanted)) as pieces:
            for table, done, skipped in pieces:
                bad, X, y, weight = self._read(table, seen)
                rows = table.num_rows + len(skipped)
                if self._skips:
                    places = np.setdiff1d(np.arange(seen, seen + rows), skipped)
                    lost = sorted([*lost, *skipped, *(() if bad is None else places[bad].tolist())])
                seen, end = seen + rows, end + X.shape[0]
                self.skipped = seen - end
                if X.shape[0]:
                    yield Block(X, y, end, done, weight, lost=lost)
                    lost = []

    def _read(
        self, table: Any, before: int
    ) -> tuple[np.ndarray | None, Any, np.ndarray | None, np.ndarray | None]:
        """The invalid rows of a table, and the features, labels and weights of the others.

        There are ``before`` rows before it, for messages.
        """
        troubles = list[Trouble]()
        X: Any
        with self._named():
            X, bad = self._encoded(table)
        if bad is not None and not self._skips:
            row = int(np.argmax(bad))
            columns, allow = self._columns(), False
            if self.plan is not None:
                columns, allow = self.plan.columns, self.plan.missing == "mean"
            place, message = trouble(columns, table, row, (*MISSING, *self._na), allow)
            troubles.append(Trouble(row, place, message))
        y = None
        if self._label is not None:
            y, missing = self._labels_and_missing(table)
            if missing.any():
                bad = missing if bad is None else bad | missing
                troubles.append(self._unlabelled(table, missing))
        weight = None
        if self._weight is not None:
            weight = numbers_of(table[self._weight])
            invalid = invalid_weights(weight)
            if invalid.any():
                bad = invalid if bad is None else bad | invalid
                row = int(np.argmax(invalid))
                why = f"the weight is {why_invalid(weight[row])}"
                troubles.append(Trouble(row, self._weight, why))
        if troubles and not self._skips:
            raise self._error(before, *min(troubles, key=lambda trouble: trouble.row))
        if bad is not None:
            X, y, weight = (None if each is None else each[~bad] for each in (X, y, weight))
        return bad, X, y, weight

    def _encoded(self, table: Any) -> tuple[Any, np.ndarray | None]:
        """The features, and which rows are invalid."""
        if self.plan is not None:
            encoded: tuple[Any, np.ndarray | None] = self.plan.encode(table)
            return encoded
        missing = (*MISSING, *self._na)
        read = [values_of(column, table, missing) for column in self._columns()]
        X = np.empty((table.num_rows, len(read)))
        copy_columns([values.numbers for values in read], X)
        bad = np.zeros(len(X), bool)
        for values in read:
            if values.bad is not None:
                bad |= values.bad
        if not are_moderate(X.reshape(-1), LARGEST_NUMBER):
            bad |= ~(np.abs(X) <= LARGEST_NUMBER).all(axis=1)
        return X, bad if bad.any() else None

    def _columns(self) -> list[Column]:
        """The columns without a recipe."""
        return [
            Boolean(name) if kind == "boolean" else Number(name)
            for name, kind in self._kinds.items()
        ]

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors about columns get the name of the table."""
        try:
            yield
        except StreamError as error:
            raise StreamError(f"{self.name}: {error}") from None

    def identity(self) -> str:
        return self._reader.identity()

    def schema(self) -> dict[str, Any]:
        read: dict[str, Any] = {
            "format": "table",
            "label": self._label,
            "needs_label": self._label is not None,
            "columns": list(self._kinds),
            "kinds": self._kinds | self._label_kinds,
        }
        # Defaults are omitted.
        if self._weight is not None:
            read["weight"] = self._weight
        if not getattr(self._reader, "has_header", True):
            read["header"] = False
        if self._encoding != "utf-8":
            read["encoding"] = self._encoding
        if self._decimal != ".":
            read["decimal"] = self._decimal
        if self.plan is not None:
            return {**read, "kinds": self._label_kinds}
        return {**read, "na_values": list(self._na)} if self._na else read


def with_points(table: Any) -> Any:
    """The first rows with decimal points, as numbers are inferred from text."""
    pc = arrow("pyarrow.compute")
    number = r"^(\s*[+-]?\d*),(\d+\s*)$"
    columns = [
        pc.replace_substring_regex(each, number, r"\1.\2") if is_text(each) else each
        for each in table.columns
    ]
    return arrow().table(columns, table.column_names)


def _check_choice(what: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise StreamError(f"{what} must be one of {listed(choices)}, not {value!r}.")
