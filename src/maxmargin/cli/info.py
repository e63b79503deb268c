"""``maxmargin info``: what a model file holds."""

from __future__ import annotations

from typing import Any

import maxmargin
from maxmargin.cli.errors import one_line_errors
from maxmargin.cli.fit import Json
from maxmargin.cli.output import (
    count,
    listed,
    margin_text,
    print_columns,
    print_json,
    print_report,
    size,
)
from maxmargin.cli.predict import Model


def info(model: Model, as_json: Json = False) -> None:
    """Describe MODEL: learner, parameters, classes, updates, certificate."""
    with one_line_errors():
        from maxmargin.persistence import describe

        (print_json if as_json else show)({"file": str(model), **describe(model)})


def show(words: dict[str, Any]) -> None:
    learner = words.get("estimator")
    title = f"{learner or 'no learner'}, a {words['kind']}"
    if learner and "classes" not in words:
        title += ", not fitted yet"
    if words.get("columns"):
        print_columns(words["columns"])
    print_report(title, lines_about(words))


def lines_about(words: dict[str, Any]) -> dict[str, str | None]:
    """What a file holds, for people; what it does not say is None."""
    learner, parameters = words.get("estimator"), words.get("parameters", {})
    found = {
        "features": count(words.get("n_features")),
        "classes": listed(words.get("classes", [])),
        "mistakes": count(words.get("mistakes")),
        "updates": count(words.get("updates")),
        "components": count(words.get("components")),
        "rows kept": count(words.get("supports")),
        "parameters": learner and (unusual(learner, parameters) or "defaults"),
        "file": f"{words['file']}, {size(words['bytes'])}, by maxmargin {words['library']}",
    }
    if certificate := words.get("certificate"):
        found["margin"] = margin_text(certificate["margin"], certificate["ratio"])
    return found


def unusual(name: str, parameters: dict[str, Any]) -> str:
    """Parameters that differ from their defaults."""
    usual = getattr(maxmargin, name)().get_params()
    return ", ".join(
        f"{each}={str(value).lower() if value is None or isinstance(value, bool) else value}"
        for each, value in parameters.items()
        if value != usual[each]
    )
