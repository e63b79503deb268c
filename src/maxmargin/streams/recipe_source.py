"""Rows that a recipe prepares between a source and a learner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.streams.arrow import arrow
from maxmargin.streams.infer_columns import GLANCE
from maxmargin.streams.recipe import Recipe, as_rows
from maxmargin.streams.recipe_plan import Parts, Plan
from maxmargin.streams.source import (
    OTHERWISE,
    Block,
    DelegatingSource,
    Source,
    StreamError,
    Survey,
)


class PreparedSource(DelegatingSource):
    """A source whose rows a recipe prepares when they are requested.

    The recipe learns in the first pass; if it is ``frozen``, never. The rows are matrices, or
    `Parts` that its plan has encoded. In the first pass, rows become wider as values and words
    occur, unless they have been surveyed.
    """

    def __init__(self, source: Source, recipe: Recipe, *, frozen: bool = False) -> None:
        super().__init__(source)
        self._recipe = recipe
        self._plan = self._plan_for(recipe)
        self._begin = recipe.running_ if hasattr(recipe, "running_") else self._plan.begin()
        self._reached, self._least_width = self._begin, 0
        self._is_frozen = self._is_over = frozen

    def _plan_for(self, recipe: Recipe) -> Plan:
        if hasattr(recipe, "plan_"):
            return recipe.plan_
        if self._source.plan is not None:
            return self._source.plan
        tables, rows = list[Any](), 0
        for block in self._source.blocks() if self.repeatable else ():
            tables.append(as_rows(block.X).slice(0, GLANCE - rows))
            rows += tables[-1].num_rows
            if rows >= GLANCE:
                break
        if not tables:
            raise StreamError(f"{self.name}: a recipe for matrices needs rows to look at.")
        first = arrow().concat_tables(tables)
        kinds = dict.fromkeys(first.column_names, "number") | dict(recipe.kinds or {})
        self._recipe = Recipe(**{**recipe.get_params(deep=False), "kinds": kinds})
        return self._recipe.plan_for(first, None)

    def survey(self) -> Survey:
        found = super().survey()
        if self._plan.grows and self.repeatable and not self._is_over and not self._least_width:
            running = self._begin
            for block in self._source.blocks():
                running = self._prepared(block, running, learn=True).recipe
            self._least_width = self._plan.width(running)
        return found._replace(width=self._width())

    def glance(self) -> Survey:
        return super().glance()._replace(width=self._width())

    def _width(self) -> int:
        return max(self._plan.width(self._reached), self._least_width)

    def blocks(self, start: int = 0) -> Iterator[Block]:
        learn = not self._is_over
        running = self._begin if start == 0 and learn else self._reached
        for raw in self._source.blocks(start):
            block = self._prepared(raw, running, learn)
            running = block.recipe
            if sparse.issparse(block.X) and block.X.shape[1] < self._least_width:
                block.X.resize(block.X.shape[0], self._least_width)
            yield block

    def _prepared(self, block: Block, running: Any, learn: bool) -> Block:
        """The rows as the recipe prepares them, and its next statistics."""
        rows = block.X if isinstance(block.X, Parts) else self._encoded(block)
        ignored = None
        if learn and block.weight is not None and not block.weight.all():
            ignored = block.weight == 0.0
        X, running = self._plan.prepare(rows, running, learn, ignored)
        return block._replace(X=X, recipe=running)

    def _encoded(self, block: Block) -> Parts:
        """The rows of a matrix as the plan prepares them."""
        table = as_rows(block.X)
        rows, bad = self._plan.encode(table)
        if bad is not None:
            row = int(np.argmax(bad))
            column, trouble = self._plan.trouble(table, row)
            where = f"{self.name}, row {block.end - len(bad) + row + 1}, column {column!r}"
            raise StreamError(f"{where}: {trouble}.")
        return rows

    def begin(self) -> None:
        self._reached, self._is_over = self._begin, self._is_frozen

    def reach(self, block: Block) -> None:
        if not self._is_over:
            self._reached = block.recipe

    def end_pass(self) -> None:
        self._is_over = True

    def schema(self) -> dict[str, Any]:
        recipe = self._recipe.at(self._plan, self._reached)
        return {**super().schema(), "recipe": recipe, "prepared": self._is_over}

    def restore(self, schema: dict[str, Any]) -> None:
        known = dict(schema)
        recipe, self._is_over = known.pop("recipe"), bool(known.pop("prepared"))
        super().restore(known)
        here, there = self._recipe.at(self._plan, self._begin).tree(), recipe.tree()
        if any(here[name] != there[name] for name in ("parameters", "columns")):
            raise StreamError(OTHERWISE.format(name=self.name))
        self._reached = recipe.running_
