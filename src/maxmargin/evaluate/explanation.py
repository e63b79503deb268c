"""Which columns of a row made a prediction."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from maxmargin._extras import plotting
from maxmargin.streams import Recipe

# Rows that are predicted at a time, and contributions that are printed.
ROWS_AT_ONCE, SHOWN = 4096, 12
# Two orders whose contributions are that close, relatively, say that columns act one by one.
AGREES = 1e-9


@dataclass(frozen=True)
class Explanation:
    """The contributions of the columns of a row to its prediction; see `explain`.

    Attributes
    ----------
    label : the predicted class
    score : of that class
    base : the score of the reference
    contributions : dict
        By column, the largest first. They add up to ``score - base``.
    """

    label: Hashable
    score: float
    base: float
    contributions: dict[str, float]

    def __str__(self) -> str:
        names = list(self.contributions)[:SHOWN]
        width = max(map(len, names), default=0)
        lines = [f"{self.label!r}: score {self.score:.4g}, {self.base:.4g} of the reference"]
        lines += [f"  {name:{width}} {self.contributions[name]:+.4g}" for name in names]
        if len(names) < len(self.contributions):
            rest = sum(list(self.contributions.values())[SHOWN:])
            lines.append(f"  {len(self.contributions) - SHOWN} others: {rest:+.4g}")
        return "\n".join(lines)

    def plot(self, ax: Any = None, *, n: int = SHOWN) -> Any:
        """Draw the ``n`` largest contributions as bars; returns the axes."""
        if ax is None:
            figure = plotting("matplotlib.figure").Figure(layout="constrained")
            ax = figure.subplots()
        names = list(self.contributions)[:n][::-1]
        values = [self.contributions[name] for name in names]
        colors = ["tab:green" if value > 0.0 else "tab:red" for value in values]
        ax.barh(range(len(names)), values, color=colors)
        ax.set_yticks(range(len(names)), names)
        ax.axvline(0.0, color="gray", linewidth=0.8)
        ax.set(xlabel=f"contribution to the score of {self.label!r}")
        return ax


def explain(
    clf: Any,
    row: Any,
    *,
    reference: Any = None,
    orders: int = 16,
    random_state: int = 0,
    feature_names: Any = None,
) -> Explanation:
    """Explain the prediction for one row by contributions of its columns.

    A column contributes what the score of the predicted class changes by when its value takes the
    place of the reference's, on average over the orders in which columns do so: its Shapley value.
    Contributions add up to the difference of the two scores, for every classifier and every
    preparation of columns, since only predictions are used. Where columns act one by one, as in
    linear learners, they are exact; otherwise they are means over some orders.

    Parameters
    ----------
    clf : fitted classifier
        Any with `decision_function`, such as the learners of this library, also in a pipeline.
    row : dict, row of a table, or array of shape (n_features,) or (1, n_features)
        Of a table with text, each word of a text contributes on its own.
    reference : the same, default=None
        What the row is compared with, such as the means of columns. By default a row of which
        nothing is known: of a dict one without values, of a table that a `Recipe` prepares one of
        missing values, of other tables and arrays one of zeros.
    orders : int, default=16
        Number of orders; every second one is the reverse of the one before.
    random_state : int, default=0
        Seed of the orders.
    feature_names : array of str, default=None
        The names of the columns of an array; by default those of the table that the classifier was
        fitted on, or else x0, x1, ...

    Returns
    -------
    Explanation

    References
    ----------
    E. Strumbelj and I. Kononenko, "An efficient explanation of individual classifications using
    game theory", 2010.

    Examples
    --------
    >>> from maxmargin import AutoMargin
    >>> from maxmargin.evaluate import explain
    >>> clf = AutoMargin()
    >>> for k in range(100):
    ...     row = {"clicks": k % 5, "from": "mail" if k % 2 else "ad"}
    ...     clf = clf.learn_one(row, "buys" if k % 2 else "leaves", classes=["buys", "leaves"])
    >>> why = explain(clf, {"clicks": 2, "from": "mail"})
    >>> why.label, next(iter(why.contributions))
    ('buys', 'from')
    """
    check_is_fitted(clf)
    if orders < 1:
        raise ValueError(f"orders must be at least 1, got {orders!r}.")
    with warnings.catch_warnings():  # an array for a classifier that was fitted to a table
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        parts = _parts(clf, row, reference, feature_names)
        return _explained(clf, parts, orders, random_state)


def _explained(clf: Any, parts: Parts, orders: int, random_state: int) -> Explanation:
    ends = parts.scores(np.tile([[False], [True]], len(parts.names)))
    column, sign = _column_of(ends[1])
    base, score = sign * ends[:, column]
    random, found = np.random.default_rng(random_state), list[np.ndarray]()
    order = np.arange(len(parts.names))
    for k in range(orders if order.size else 0):
        order = order[::-1] if k % 2 else random.permutation(order.size)
        masks = np.tri(order.size, order.size, -1, dtype=bool)[:, np.argsort(order)]
        steps = sign * parts.scores(masks)[:, column]
        gains = np.empty(order.size)
        gains[order] = np.diff(np.append(steps, score))
        found.append(gains)
        if k == 1 and np.allclose(found[0], found[1], AGREES, AGREES * abs(score - base)):
            break
    means = np.mean(found, axis=0) if found else np.empty(0)
    contributions = dict.fromkeys(parts.names, 0.0)
    for name, mean in zip(parts.names, means.tolist(), strict=True):
        contributions[name] += mean  # a word may occur more than once
    contributions = dict(sorted(contributions.items(), key=lambda item: -abs(item[1])))
    place = column if ends.shape[1] > 1 else int(sign > 0.0)
    return Explanation(clf.classes_.tolist()[place], float(score), float(base), contributions)


class Parts(NamedTuple):
    """The parts of a row that can take their values or those of the reference.

    names : of the parts
    scores : the scores of rows of shape (rows, problems), given which parts have their values
    """

    names: list[str]
    scores: Callable[[np.ndarray], np.ndarray]


def _parts(clf: BaseEstimator, row: Any, reference: Any, names: Any) -> Parts:
    """Of a dict or a table's row the columns with a value, of texts their words."""
    is_table = hasattr(row, "columns") or (hasattr(row, "index") and hasattr(row, "items"))
    if not isinstance(row, Mapping) and not is_table:
        return _parts_of_array(clf, row, reference, names)
    recipe = _recipe_of(clf)
    if not is_table and recipe is None and not hasattr(clf, "decision_one"):
        raise TypeError(
            f"{type(clf).__name__} takes no dicts: pass a row of a table, such as table.iloc[[0]], "
            "or an array."
        )
    values, others = _as_dict(row), {} if reference is None else _as_dict(reference)
    if is_table and recipe is None:  # nothing stands for a missing number
        numbers = {name: 0.0 for name, value in values.items() if isinstance(value, Real)}
        others = numbers | others
    columns = [] if recipe is None else recipe.columns_
    texts = {column["name"] for column in columns if column["kind"] == "text"} - set(others)
    parts = list[tuple[str, str]]()
    for name, value in values.items():
        is_text = name in texts and isinstance(value, str)
        words = words_of(value) if is_text else [""]
        parts += [(name, word) for word in words if value is not None]

    def built(mask: np.ndarray) -> dict[str, Any]:
        found = dict(others)
        for k in np.flatnonzero(mask).tolist():
            name, word = parts[k]
            found[name] = f"{found.get(name, '')} {word}".strip() if word else values[name]
        return found

    def scores(masks: np.ndarray) -> np.ndarray:
        rows = [built(mask) for mask in masks]
        if is_table:
            table = {name: [each.get(name) for each in rows] for name in values}
            backend = nw.from_native(row, allow_series=True).implementation
            return _outputs(clf.decision_function(nw.from_dict(table, backend=backend).to_native()))
        if recipe is None:
            return _outputs(np.array([clf.decision_one(each) for each in rows]))
        return _outputs(clf.decision_function(rows))

    return Parts([f"{name}: {word}" if word else name for name, word in parts], scores)


def _parts_of_array(clf: BaseEstimator, row: Any, reference: Any, known: Any) -> Parts:
    """The columns whose values are not those of the reference."""
    values = _as_array(row)
    others = np.zeros(values.size) if reference is None else _as_array(reference)
    if others.size != values.size:
        raise ValueError(f"reference has {others.size} columns, row has {values.size}.")
    used = np.flatnonzero(values != others)
    known = getattr(clf, "feature_names_in_", None) if known is None else known
    names = [f"x{k}" if known is None else str(known[k]) for k in used.tolist()]
    own = np.ones(used.size), (np.arange(used.size), used)
    places = sparse.csr_matrix(own, (used.size, values.size))

    def scores(masks: np.ndarray) -> np.ndarray:
        found = []
        for start in range(0, len(masks), ROWS_AT_ONCE):
            some = masks[start : start + ROWS_AT_ONCE]
            rows = sparse.csr_matrix(some * (values - others)[used]) @ places
            rows = rows if sparse.issparse(row) else rows.toarray() + others
            found.append(_outputs(clf.decision_function(rows)))
        return np.concatenate(found)

    return Parts(names, scores)


def words_of(text: str) -> list[str]:
    """The words of a text that contribute on their own."""
    return re.findall(r"\w+", text)


def _as_array(row: Any) -> np.ndarray:
    dense = row.toarray() if sparse.issparse(row) else np.asarray(row, dtype=float)
    if dense.ndim == 2 and dense.shape[0] != 1:
        raise ValueError(f"explain takes a single row, got {dense.shape[0]}.")
    return dense.ravel()


def _as_dict(row: Any) -> dict[str, Any]:
    """A dict, or a row of a table, with None for missing values."""
    if hasattr(row, "columns"):
        table = nw.from_native(row, eager_only=True)
        if len(table) != 1:
            raise ValueError(f"explain takes a single row, got {len(table)}.")
        row = next(iter(table.iter_rows(named=True)))
    return {name: None if value != value else value for name, value in row.items()}


def _recipe_of(clf: BaseEstimator) -> Any:
    """What prepares raw rows, if they are prepared by a `Recipe`."""
    steps = [step for _, step in clf.steps] if isinstance(clf, Pipeline) else []
    recipes = [each for each in steps if isinstance(each, Recipe)]
    return recipes[0] if recipes else getattr(clf, "recipe_", None)


def _outputs(found: Any) -> np.ndarray:
    """One line for each row."""
    found = np.asarray(found)
    return found.reshape(len(found), -1)


def _column_of(outputs: np.ndarray) -> tuple[int, float]:
    """Which output is that of the predicted class, and its sign."""
    if outputs.size > 1:
        return int(outputs.argmax()), 1.0
    return 0, 1.0 if outputs[0] >= 0.0 else -1.0
