"""Learners in files: which ones, their parameters, and the summary in the header."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from maxmargin import _registry
from maxmargin.persistence.model_tree import MOST, Misfit

Setting = TypeVar("Setting")
SETTINGS = bool, int, float, str, np.generic, np.random.RandomState, np.random.Generator


def not_ours(value: object) -> str:
    """The message about an object that cannot be saved."""
    return (
        f"Only learners of maxmargin can be saved, not {type(value)!r}. Save pipelines and other "
        "estimators by skops.io.dump, or by joblib.dump in files that only you can write, since "
        "loading those runs what is in them."
    )


def is_public(value: object) -> bool:
    """Whether it is a learner of this library itself, not of a derived class."""
    return _registry.learner(type(value).__name__) is type(value)


def is_learner(value: object) -> TypeGuard[BaseEstimator]:
    return isinstance(value, BaseEstimator)


def checked_setting(value: Setting) -> Setting:
    if not _is_setting(value):
        raise Misfit(f"{value!r} is neither numbers nor a text nor a random state")
    return value


def _is_setting(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_setting, value))
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    if isinstance(value, dict):
        return all(map(_is_setting, [*value, *value.values()]))
    return value is None or isinstance(value, SETTINGS) or is_learner(value)


def summary_of(clf: BaseEstimator) -> dict[str, Any]:
    """A short description of a learner, as JSON."""
    parameters = clf.get_params(deep=False)
    words: dict[str, Any] = {
        "estimator": type(clf).__name__,
        "parameters": {name: shown(value) for name, value in parameters.items()},
    }
    return words | clf.__summary__()


def checked_summary(found: object) -> dict[str, Any]:
    """The summary in a file; raises an error unless it has the form of `summary_of`."""
    if not isinstance(found, dict) or not found.keys() <= SUMMARY.keys():
        raise Misfit("its summary is not one of a learner")
    for name, value in found.items():
        if not SUMMARY[name](value):
            raise Misfit(f"its summary has invalid {name}")
    if found and not {"estimator", "parameters"} <= found.keys():
        raise Misfit("its summary does not name a learner")
    return found


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _is_plain_dict(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_plain, value.values()))


def _is_certificate(value: object) -> bool:
    if not isinstance(value, dict) or value.keys() != {"margin", "bound", "ratio"}:
        return False
    return all(type(number) in (int, float) for number in value.values())


# The fields of a summary, and what values they may have.
SUMMARY: dict[str, Callable[[Any], bool]] = {
    "estimator": lambda value: isinstance(value, str),
    "parameters": _is_plain_dict,
    "classes": lambda value: isinstance(value, list) and all(map(_is_plain, value)),
    **dict.fromkeys(
        ("n_features", "mistakes", "updates", "supports", "components"),
        lambda value: type(value) is int and 0 <= value < MOST,
    ),
    "certificate": _is_certificate,
    "columns": lambda value: isinstance(value, list) and all(map(_is_plain_dict, value)),
}


def shown(value: object) -> bool | int | float | str | None:
    """A value as JSON; the name of its class if it has no such form."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    return type(value).__name__
