"""Learners by name, with parameters from the command line."""

from __future__ import annotations

import json
from typing import Any

from maxmargin.cli.errors import misuse, nearest


def names() -> list[str]:
    """Of all learners, as people type them."""
    from maxmargin import overview

    return [cls.__name__.lower() for cls in overview.learners()]


def complete(incomplete: str) -> list[str]:
    """For the shell."""
    return [name for name in names() if name.startswith(incomplete.lower())]


def make(name: str, settings: list[str]) -> Any:
    """The learner called ``name``, with parameters given as ``name=value``."""
    from maxmargin import overview

    by_name = {cls.__name__.lower(): cls for cls in overview.learners()}
    wanted = name.lower().replace("-", "").replace("_", "")
    if wanted not in by_name:
        misuse(f"there is no algorithm {name!r}: {nearest(wanted, list(by_name))}")
    return parametrised(by_name[wanted], settings)


def parametrised(cls: Any, settings: list[str]) -> Any:
    known, parameters = list(cls().get_params()), {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            misuse(f"--set takes name=value, got {setting!r}")
        if key not in known:
            misuse(f"{cls.__name__} has no parameter {key!r}: {nearest(key, known)}")
        parameters[key] = value_of(text)
    learner = cls(**parameters)
    try:
        learner._validate_params()
    except ValueError as error:
        misuse(str(error))
    return learner


def value_of(text: str) -> Any:
    """A number, true, false, none, or else a word."""
    try:
        return json.loads(text.lower().replace("none", "null"))
    except ValueError:
        return text
