"""Nodes that prepare raw rows as a recipe, and the inputs of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.export.graph import ML, Graph
from maxmargin.streams.recipe_plan import OneHotColumn, Preparation


def features(graph: Graph, width: int, recipe: Any, dtype: Any) -> str:
    """The features of rows in double precision, computed from new inputs."""
    if recipe is None:
        return graph.cast(graph.input("X", dtype, width), np.float64)
    formula: Preparation = recipe.formula()
    parts = _of_numbers(graph, formula, dtype) if formula.names else []
    if formula.categories:
        columns = np.arange(len(formula.names) + len(formula.flagged), formula.width)
        encoded = [_of_category(graph, each, columns) for each in formula.categories]
        parts.append(encoded[0] if len(encoded) == 1 else graph("Sum", *encoded))
    return graph("Concat", *parts, axis=1)


def _raw_numbers(graph: Graph, formula: Preparation, dtype: Any) -> str:
    """A matrix of all numbers: one input if the columns are those of an array."""
    columns = list(formula.columns)
    if formula.categories or columns != [f"x{k}" for k in range(len(columns))]:
        given = [graph.cast(graph.input(name, dtype, 1), np.float64) for name in formula.names]
        return graph("Concat", *given, axis=1)
    matrix = graph.cast(graph.input("X", dtype, len(columns)), np.float64)
    places = np.array([columns.index(name) for name in formula.names])
    return matrix if places.size == len(columns) else graph("Gather", matrix, places, axis=1)


def _of_numbers(graph: Graph, formula: Preparation, dtype: Any) -> list[str]:
    """Standardized numbers, and indicators of missing ones."""
    raw = _raw_numbers(graph, formula, dtype)
    missing = graph("IsNaN", raw)
    known = graph("Where", missing, formula.fills, raw)
    parts = [graph("Div", graph("Sub", known, formula.centers), formula.scales)]
    if formula.flagged:
        flags = graph("Gather", graph.cast(missing, np.float64), np.array(formula.flagged), axis=1)
        parts.append(flags)
    return parts


def _of_category(graph: Graph, column: OneHotColumn, columns: np.ndarray) -> str:
    """A matrix of these columns, in which each row has one 1: at the place of its value."""
    place = graph(
        "LabelEncoder",
        graph.input(column.name, str, 1),
        domain=ML,
        keys_strings=list(column.places),
        values_int64s=list(column.places.values()),
        default_int64=column.other,
    )
    return graph.cast(graph("Equal", place, columns), np.float64)
