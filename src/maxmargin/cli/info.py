"""``maxmargin info``: what a model file holds."""

from __future__ import annotations

from maxmargin.cli.errors import one_line_errors
from maxmargin.cli.fit import Json
from maxmargin.cli.output import show
from maxmargin.cli.predict import Model


def info(model: Model, as_json: Json = False) -> None:
    """Say what MODEL is: learner, parameters, classes, updates, certificate."""
    with one_line_errors():
        from maxmargin.persistence import describe

        show(describe(model), as_json)
