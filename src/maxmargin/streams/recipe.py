"""The transformer that prepares raw columns, and is stored with the model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from maxmargin.streams.arrow import MISSING, arrow, check_na_values, no_column
from maxmargin.streams.column_kinds import Boolean, Category, Date, Number, Text
from maxmargin.streams.dicts import column_of
from maxmargin.streams.infer_columns import (
    GLANCE,
    IDENTIFIER,
    UNREAD,
    Found,
    RecipeOptions,
    found,
)
from maxmargin.streams.recipe_plan import HASHED, Plan, Preparation, Running
from maxmargin.streams.source import StreamError
from maxmargin.streams.table_readers import FrameReader

# The classes of columns, by their names in files.
COLUMNS = {each.kind: each for each in (Number, Boolean, Category, Text, Date)}
LARGEST_CAP = 10**6


@dataclass(eq=False, repr=False)
class Recipe(TransformerMixin, BaseEstimator):
    """Prepare raw columns on a stream: standardize, encode, hash and impute.

    Each row is prepared with the statistics of the rows so far, in one pass and constant memory:
    ``z = (x - mean) / deviation`` with the running mean and standard deviation of the column
    (Welford's recursion). The features do not depend on how rows are split into blocks.

    The kind of a column is inferred from the first rows (at most 5000), unless given in ``kinds``.

    Parameters
    ----------
    kinds : dict of str, default=None
        Kinds of columns:

        - "number": standardized;
        - "boolean": 0 or 1;
        - "category": one column per value, in order of appearance, up to ``max_categories``, one
          for all other values and one for missing values;
        - "hashed": a category whose values are hashed to ``2**hash_bits`` buckets;
        - "text": words, hashed and scaled to norm 1;
        - "date": the age in days, standardized, and month, day of the week and hour;
          "date:%d.%m.%y" gives the format;
        - "drop": the column is ignored.
    drop : list of str, default=()
        Columns to ignore.
    scale : bool, default=True
        Standardize numbers.
    missing : {"mean", "error"}, default="mean"
        Treatment of missing numbers and dates: impute the mean so far, with an indicator column if
        values were missing in the first rows; or raise an error (``on_error="skip"`` of a source
        skips the row). A missing category is a value of its own.
    categories : {"one-hot", "hash"}, default="one-hot"
        Encoding of categories.
    max_categories : int, default=1000
        Maximum number of values of a category with columns of their own.
    hash_bits : int, default=18
        Hashed values have ``2**hash_bits`` buckets. A bucket gets a column when it first occurs.
    interactions : list of pairs of str, default=()
        Hashed products of two columns; for two categories, each pair of values.
    na_values : list of str, default=()
        Further spellings of missing values, such as "unknown" or "-", besides those of pandas ("",
        "NA", "n/a", "null", ...) and "?".

    Attributes
    ----------
    columns_ : list of dict
        For each column: its name, its kind, the numbers of values and of missing values, and a note
        if something is suspicious.
    n_features_in_, feature_names_in_
        Number and names of the raw columns.
    n_features_in_use_ : int
        Number of features: values and words have one if they have occurred.

    Notes
    -----
    `transform` uses the statistics after the last row that was learned. The features of values and
    words are behind all others, in the order in which they first occurred. They are sparse:
    ``set_output(transform="pandas")`` is for columns of numbers and truth values only.

    Examples
    --------
    >>> import pandas as pd
    >>> from maxmargin import AMIRA
    >>> from maxmargin.streams import Recipe
    >>> raw = pd.DataFrame({"age": [20.0, None, 60.0], "city": ["Rome", "Ulm", "Rome"]})
    >>> recipe = Recipe().fit(raw)
    >>> [(column["name"], column["kind"]) for column in recipe.columns_]
    [('age', 'number'), ('city', 'category')]
    >>> recipe.transform(raw)[:, :2].toarray().tolist()
    [[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    >>> recipe.get_feature_names_out()[-2:].tolist()
    ['city=Rome', 'city=Ulm']

    On a stream it prepares rows for a learner, which stores it:

    >>> rows = [({"age": 20.0, "city": "Rome"}, "no"), ({"age": 60.0, "city": "Ulm"}, "yes")]
    >>> clf = AMIRA().fit_stream(rows, recipe=Recipe())
    >>> clf.predict_one({"age": 61.0, "city": "Ulm"})
    'yes'
    """

    kinds: Mapping[str, str] | None = None
    _: KW_ONLY
    drop: Sequence[str] = ()
    scale: bool = True
    missing: str = "mean"
    categories: str = "one-hot"
    max_categories: int = 1000
    hash_bits: int = 18
    interactions: Sequence[tuple[str, str]] = ()
    na_values: Sequence[str] = ()
    plan_: Any = field(init=False)
    running_: Running = field(init=False)

    # ----------------------------------------------------------------------------- as a transformer
    def fit(self, X: Any, y: Any = None) -> Recipe:
        """Learn from all rows of a frame, an array or a list of dicts."""
        fresh = Recipe(**self.get_params(deep=False)).partial_fit(X, y)
        self.plan_, self.running_ = fresh.plan_, fresh.running_
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Recipe:
        """Learn from more rows; the kinds of columns are inferred in the first call."""
        plan, rows = self._encoded(X, y)
        running = self.running_ if hasattr(self, "plan_") else plan.begin()
        _, running = plan.prepare(rows, running, learn=True)
        self.plan_, self.running_ = plan, running
        return self

    def transform(self, X: Any) -> Any:
        """The features of rows: an array if all are numbers, otherwise a CSR matrix."""
        check_is_fitted(self, "plan_")
        plan, rows = self._encoded(X)
        return plan.prepare(rows, self.running_, learn=False)[0]

    def learned(self, X: Any, ignored: np.ndarray | None = None) -> tuple[Recipe, Any]:
        """A recipe that has also learned from ``X``, and the features as of each row.

        Nothing is learned from rows that are ``ignored``.
        """
        check_is_fitted(self, "plan_")
        plan, rows = self._encoded(X)
        if ignored is not None:
            ignored = np.broadcast_to(ignored, rows.shape[:1]) if np.any(ignored) else None
        features, running = plan.prepare(rows, self.running_, learn=True, ignored=ignored)
        return self.at(self.plan_, running), features

    def learn_one(self, x: Mapping[str, Any]) -> Recipe:
        """Learn from a row given as a dict, as in river."""
        return self.partial_fit([x])

    def transform_one(self, x: Mapping[str, Any]) -> dict[str, float]:
        """The features of a row given as a dict that are not 0, by their names."""
        row = sparse.csr_matrix(self.transform([x]))
        names = self.get_feature_names_out()
        return {names[k]: value for k, value in zip(row.indices, row.data.tolist(), strict=True)}

    def _encoded(self, X: Any, y: Any = None) -> tuple[Any, Any]:
        """The plan, made from the first rows if there is none, and the encoded rows."""
        plan = self.plan_ if hasattr(self, "plan_") else None
        rows = as_rows(X, plan)
        if plan is None:
            labels = None if y is None else np.asarray(y)[:GLANCE]
            plan = self.plan_for(rows.slice(0, GLANCE), labels)
            rows = as_rows(X, plan)  # dicts are read by the kinds of the plan
        if lost := [each.name for each in plan.columns if each.name not in rows.column_names]:
            raise ValueError(f"X has no column {lost[0]!r}.")
        parts, bad = plan.encode(rows)
        if bad is not None:
            row = int(np.argmax(bad))
            column, trouble = plan.trouble(rows, row)
            raise ValueError(f"Row {row}, column {column!r}: {trouble}.")
        return plan, parts

    def plan_for(self, first: Any, labels: np.ndarray | None) -> Plan:
        """How to read the columns of a table that begins with these rows."""
        options = self._options()
        if strange := [name for name in options.kinds if name not in first.column_names]:
            raise StreamError(no_column(strange[0], first.column_names))
        columns = [found(name, first[name], labels, options) for name in first.column_names]
        plan = Plan(columns, options)
        for one in columns:
            if one.note == IDENTIFIER and one.name:  # pandas gives an index no name
                warnings.warn(
                    f"column {one.name!r} is left out: each of the first {first.num_rows:,} rows "
                    f"has its own value. If values repeat, use kinds={ {one.name: 'hashed'}!r}; "
                    f"if not, drop={[one.name]}.",
                    stacklevel=2,
                )
            elif UNREAD in one.note:
                warnings.warn(
                    f"column {one.name!r} is left out: it is {one.note}. Convert it to numbers, "
                    f"such as seconds, or to text; or use drop={[one.name]}.",
                    stacklevel=2,
                )
        return plan

    def _options(self) -> RecipeOptions:
        """The parameters, checked."""
        self.check_parameters()
        return RecipeOptions(
            kinds={**(self.kinds or {}), **dict.fromkeys(self.drop, "drop")},
            scale=self.scale,
            missing=self.missing,
            hashes=self.categories == "hash",
            max_categories=self.max_categories,
            hash_bits=self.hash_bits,
            interactions=self.interactions,
            na=(*MISSING, *self.na_values),
        )

    def check_parameters(self) -> None:
        for name, choices in (
            ("missing", ("mean", "error")),
            ("categories", ("one-hot", "hash")),
            ("scale", (True, False)),
        ):
            if getattr(self, name) not in choices:
                listed = ", ".join(map(repr, choices))
                raise StreamError(f"{name} must be one of {listed}; got {getattr(self, name)!r}.")
        for name, least, most in (
            ("max_categories", 1, LARGEST_CAP),
            ("hash_bits", 1, 30),
        ):
            value = getattr(self, name)
            if not (isinstance(value, Integral) and least <= int(value) <= most):
                raise StreamError(f"{name} must be from {least} to {most:,}; got {value!r}.")
        check_na_values(self.na_values)
        for pair in self.interactions:
            if isinstance(pair, str) or len(pair) != 2:
                raise StreamError(f"interactions must be pairs of columns; got {pair!r}.")

    def with_na_values(self, more: Sequence[str]) -> Recipe:
        """A recipe with more spellings of missing values."""
        check_na_values(more)
        if set(more) <= set(self.na_values):
            return self
        if hasattr(self, "plan_"):
            raise ValueError("na_values= cannot be added to a recipe that has seen rows already.")
        return Recipe(**{**self.get_params(deep=False), "na_values": [*self.na_values, *more]})

    # ------------------------------------------------------------------------- fitted attributes
    @property
    def columns_(self) -> list[dict[str, Any]]:
        check_is_fitted(self, "plan_")
        return self.plan_.described(self.running_)

    @property
    def n_features_in_use_(self) -> int:
        check_is_fitted(self, "plan_")
        return self.plan_.width(self.running_)

    @property
    def feature_names_in_(self) -> np.ndarray:
        if not hasattr(self, "plan_"):
            raise AttributeError("There are no names of columns.")
        return np.array([one.name for one in self.plan_.found], dtype=object)

    @property
    def n_features_in_(self) -> int:
        return len(self.feature_names_in_)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the features."""
        check_is_fitted(self, "plan_")
        return np.array(self.plan_.feature_names(self.running_), dtype=object)

    def formula(self) -> Preparation:
        """What `transform` computes, as plain arrays; a `StreamError` if this is impossible."""
        check_is_fitted(self, "plan_")
        return self.plan_.formula(self.running_)

    def same_as(self, other: Recipe) -> bool:
        """Whether both have the same parameters, columns and statistics."""
        ours, theirs = self.tree(), other.tree()
        return ours.keys() == theirs.keys() and all(
            np.array_equal(ours[name], theirs[name])
            if isinstance(ours[name], np.ndarray)
            else ours[name] == theirs[name]
            for name in ours
        )

    def at(self, plan: Any, running: Running) -> Recipe:
        """A copy with this plan and these statistics."""
        one = Recipe(**self.get_params(deep=False))
        one.plan_, one.running_ = plan, running
        return one

    # ----------------------------------------------------------------------------------- for files
    def __getstate__(self) -> dict[str, Any]:
        """For pickle and skops: the parameters, and the fitted state as a tree."""
        state: dict[str, Any] = super().__getstate__()
        if not hasattr(self, "plan_"):
            return state
        kept = {name: each for name, each in state.items() if name not in ("plan_", "running_")}
        return kept | {"learned": self.tree()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        given = dict(state)
        learned = given.pop("learned", None)
        super().__setstate__(given)
        if learned is not None:
            known = Recipe.from_tree(learned)
            self.plan_, self.running_ = known.plan_, known.running_

    def tree(self) -> dict[str, Any]:
        """The recipe as values that files can hold."""
        parameters = self.get_params(deep=False)
        if not hasattr(self, "plan_"):
            return {"parameters": parameters}
        parameters |= {
            "kinds": dict(self.kinds or {}),
            "drop": list(self.drop),
            "interactions": [list(pair) for pair in self.interactions],
            "na_values": list(self.na_values),
        }
        running = self.running_
        columns = [
            {
                "name": one.name,
                "gaps": bool(one.gaps),
                "note": one.note,
                "column": one.column and {"kind": one.column.kind, **vars(one.column)},
            }
            for one in self.plan_.found
        ]
        return {
            "parameters": parameters,
            "columns": columns,
            "rows": float(running.rows),
            "counts": running.counts,
            "means": running.means,
            "squares": running.squares,
            "missing": running.missing,
            "vocabularies": [list(values) for values in running.known],
            "buckets": running.buckets[np.argsort(running.bucket_columns)],
            "owners": running.owners(),
        }

    @classmethod
    def from_tree(cls, tree: Any) -> Recipe:
        """The recipe of a `tree`; raises a `ValueError` unless its parts fit together."""
        try:
            recipe = cls(**tree["parameters"])
            options = recipe._options()
            if len(tree) > 1:
                recipe._restore(tree, options)
        except (KeyError, TypeError, AttributeError) as problem:
            raise ValueError(f"the recipe is damaged: {problem}") from None
        return recipe

    def _restore(self, tree: dict[str, Any], options: RecipeOptions) -> None:
        """Take the fitted state from a `tree`, checked."""
        rows, known = tree["rows"], tree["vocabularies"]
        plan = Plan([_found_from(one) for one in tree["columns"]], options)
        capacities, owners, buckets = plan.capacities(), tree["owners"], tree["buckets"]
        if len(known) != len(capacities) or not all(
            type(one) is list
            and len(one) == len(set(one)) <= capacity
            and all(type(text) is str for text in one)
            for one, capacity in zip(known, capacities, strict=True)
        ):
            raise ValueError("the recipe is damaged: its categories do not fit")
        sizes = [np.count_nonzero(owners == number) for number in range(len(known))]
        largest = 2**options.hash_bits if plan.is_hashed else 0
        if (
            owners.dtype != np.int64
            or buckets.dtype != np.int64
            or sizes != list(map(len, known))
            or owners.shape != (sum(sizes) + buckets.size,)
            or np.count_nonzero(owners == HASHED) != buckets.size
            or np.unique(buckets[(buckets >= 0) & (buckets < largest)]).size != buckets.size
        ):
            raise ValueError("the recipe is damaged: its columns do not fit")
        begun = plan.begin(
            [
                dict(zip(texts, np.flatnonzero(owners == number).tolist(), strict=True))
                for number, texts in enumerate(known)
            ]
        )
        order, places = np.argsort(buckets), np.flatnonzero(owners == HASHED)
        begun = begun._replace(buckets=buckets[order], bucket_columns=places[order])
        arrays = {name: tree[name].copy() for name in ("counts", "means", "squares", "missing")}
        for name, array in arrays.items():
            like = getattr(begun, name)
            is_like = array.shape == like.shape and array.dtype == like.dtype
            if not is_like or not np.isfinite(array).all():
                raise ValueError(f"the recipe is damaged: {name} are not one for each column")
        if type(rows) is not float or not 0.0 <= rows < 2**53 or (arrays["counts"] < 0.0).any():
            raise ValueError("the recipe is damaged: a count is not a number")
        self.plan_, self.running_ = plan, begun._replace(rows=rows, **arrays)


def _found_from(tree: Mapping[str, Any]) -> Found:
    """A column from a file, with fields of the declared types."""
    column = None
    if tree["column"]:
        fields = dict(tree["column"])
        make: Any = COLUMNS[fields.pop("kind")]
        for name, value in fields.items():
            if type(value).__name__ != make.__annotations__[name]:
                raise ValueError(f"the recipe is damaged: {name} is {value!r}")
        if not (0 <= fields.get("capacity", 0) <= LARGEST_CAP and 1 <= fields.get("bits", 1) <= 30):
            raise ValueError("the recipe is damaged: there are too many columns")
        column = make(**fields)
    return Found(str(tree["name"]), column, bool(tree["gaps"]), str(tree["note"]))


def as_rows(X: Any, plan: Plan | None = None) -> Any:
    """The rows that a recipe takes, as a table."""
    if sparse.issparse(X):
        raise StreamError(
            "a recipe takes no sparse rows: AutoMargin and learners with scaling='columns' need no "
            "scaled columns."
        )
    pa = arrow()
    if isinstance(X, pa.Table):
        if len(set(X.column_names)) < X.num_columns:
            raise ValueError("X has two columns of the same name.")
        return X
    if hasattr(X, "columns") or hasattr(X, "column_names"):
        return FrameReader(X).whole()
    if isinstance(X, Sequence) and len(X) and all(isinstance(row, Mapping) for row in X):
        names = dict.fromkeys(str(name) for row in X for name in row)
        kinds = plan.input_kinds() if plan else dict.fromkeys(names, "text")
        columns = {
            name: column_of(name, [row.get(name) for row in X], kind)
            for name, kind in kinds.items()
        }
        return pa.table(columns)
    numbers = np.asarray(X)
    if numbers.ndim != 2 or numbers.dtype.kind not in "fiub":
        raise ValueError(
            f"X must be a frame, a matrix of numbers or a list of dicts; got {type(X).__name__}."
        )
    return pa.table({f"x{k}": numbers[:, k] for k in range(numbers.shape[1])})
