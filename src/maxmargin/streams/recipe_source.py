"""Rows that a recipe prepares between a source and a learner."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline

from maxmargin.streams.infer_columns import GLANCE
from maxmargin.streams.recipe import Recipe, as_rows
from maxmargin.streams.recipe_plan import UNUSABLE, EntriesPlan, Parts, Plan
from maxmargin.streams.source import (
    OTHERWISE,
    START,
    Block,
    DelegatingSource,
    Position,
    Source,
    StreamError,
    Survey,
)


class PreparedSource(DelegatingSource):
    """A source whose rows a recipe or a transformer prepares when they are requested.

    The recipe learns in the first pass; if it is ``frozen``, never. The rows are matrices, or
    `Parts` that its plan has encoded.
    """

    def __init__(self, source: Source, recipe: Any, *, frozen: bool = False) -> None:
        super().__init__(source)
        self._recipe = recipe
        self._plan = self._plan_for(recipe)
        self._begin = recipe.running_ if hasattr(recipe, "running_") else self._plan.begin()
        self._reached = self._begin
        self._is_frozen = self._is_over = frozen

    def _plan_for(self, recipe: Any) -> Any:
        if not isinstance(recipe, Recipe):
            return TransformerPlan(recipe)
        if hasattr(recipe, "plan_"):
            return recipe.plan_
        if self._source.plan is not None:
            return self._source.plan
        first = self._first_rows() if self.repeatable else None
        if first is None:
            raise StreamError(f"{self.name}: a recipe for matrices needs rows to look at.")
        if sparse.issparse(first):
            return EntriesPlan()
        table = as_rows(first)
        kinds = dict.fromkeys(table.column_names, "number") | dict(recipe.kinds or {})
        self._recipe = Recipe(**{**recipe.get_params(deep=False), "kinds": kinds})
        return self._recipe.plan_for(table, None)

    def _first_rows(self) -> Any:
        """The rows to infer kinds from, or a sparse block."""
        found, rows = list[Any](), 0
        for block in self._source.blocks():
            if sparse.issparse(block.X):
                return block.X
            found.append(block.X[: GLANCE - rows])
            rows += len(found[-1])
            if rows >= GLANCE:
                break
        return np.concatenate(found) if found else None

    def survey(self) -> Survey:
        found = super().survey()
        return found._replace(width=self._width(found.width))

    def glance(self) -> Survey:
        found = super().glance()
        return found._replace(width=self._width(found.width))

    def _width(self, raw: int) -> int:
        if isinstance(self._plan, Plan):
            return self._plan.width
        return raw if isinstance(self._plan, EntriesPlan) else self._plan.width(self._source)

    def blocks(self, start: Position = START) -> Iterator[Block]:
        learn = not self._is_over
        running = self._begin if start == START and learn else self._reached
        running = running.alone() if learn and hasattr(running, "alone") else running
        left_out = 0
        for block in self._source.blocks(start):
            rows, lacking = self._encoded(block)
            if lacking is not None:
                y, weight = (None if a is None else a[~lacking] for a in (block.y, block.weight))
                block, rows = block._replace(y=y, weight=weight), rows[~lacking]
                left_out += int(lacking.sum())
            ignored = None
            if learn and block.weight is not None and not block.weight.all():
                ignored = block.weight == 0.0
            X, running = self._plan.prepare(rows, running, learn, ignored)
            if X.shape[0]:
                yield block._replace(X=X, recipe=running)
            self.skipped = self._source.skipped + left_out
        self.skipped = self._source.skipped + left_out

    def _encoded(self, block: Block) -> tuple[Any, np.ndarray | None]:
        """The rows of a block as the plan prepares them, and which of them to skip."""
        if isinstance(block.X, Parts):
            return block.X, None
        rows, bad, lacking = self._plan.encode(block.X)
        if bad is not None:
            row = block.end.row - block.X.shape[0] + int(np.argmax(bad))
            raise StreamError(f"{self.name}, row {row + 1}: {UNUSABLE}.")
        return rows, lacking

    def begin(self) -> None:
        self._reached, self._is_over = self._begin, self._is_frozen

    def reach(self, block: Block) -> None:
        if not self._is_over:
            self._reached = block.recipe

    def end_pass(self) -> None:
        self._is_over = True

    def schema(self) -> dict[str, Any]:
        recipe = self._reached
        if isinstance(self._recipe, Recipe):
            recipe = self._recipe.at(self._plan, self._reached)
        return {**super().schema(), "recipe": recipe, "prepared": self._is_over}

    def restore(self, schema: dict[str, Any]) -> None:
        known = dict(schema)
        recipe, self._is_over = known.pop("recipe"), bool(known.pop("prepared"))
        super().restore(known)
        if isinstance(recipe, Recipe) is not isinstance(self._recipe, Recipe):
            raise StreamError(OTHERWISE.format(name=self.name))
        if not isinstance(recipe, Recipe):
            self._reached = recipe
            return
        here, there = self._recipe.at(self._plan, self._begin).tree(), recipe.tree()
        if any(here[name] != there[name] for name in ("parameters", "columns")):
            raise StreamError(OTHERWISE.format(name=self.name))
        self._reached = recipe.running_


class TransformerPlan:
    """A transformer of scikit-learn, or a pipeline of them.

    Each must have `partial_fit` or be stateless.
    """

    def __init__(self, transformer: Any) -> None:
        self._transformer = transformer
        for step in _steps(transformer):
            if not hasattr(step, "partial_fit") and step.__sklearn_tags__().requires_fit:
                raise TypeError(
                    f"{type(step).__name__} must see all rows before it can prepare one: a stream "
                    "needs transformers with partial_fit, or such that learn nothing."
                )

    def encode(self, X: Any) -> tuple[Any, None, None]:
        return X, None, None

    def begin(self) -> Any:
        return copy.deepcopy(self._transformer)

    def width(self, rows: Source) -> int:
        if not rows.repeatable:
            return 1
        for block in islice(rows.blocks(), 1):
            return int(self.prepare(block.X, self.begin(), learn=True)[0].shape[1])
        return 1

    def prepare(
        self, X: Any, transformer: Any, learn: bool, ignored: np.ndarray | None = None
    ) -> tuple[Any, Any]:
        """The transformed rows, and a transformer that has learned from them."""
        if not learn:
            return transformer.transform(X), transformer
        transformer = copy.deepcopy(transformer)
        counting = slice(None) if ignored is None else ~ignored
        for step in _steps(transformer):
            if hasattr(step, "partial_fit") and (rows := X[counting]).shape[0]:
                step.partial_fit(rows)
            X = step.transform(X)
        return X, transformer


def _steps(transformer: Any) -> list[Any]:
    if isinstance(transformer, Pipeline):
        return [step for _, step in transformer.steps if step not in (None, "passthrough")]
    return [transformer]
