"""What files say of a learner: which ones they hold, their parameters, and a summary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from maxmargin import _registry
from maxmargin.persistence.model_tree import MOST, Misfit

# Parameters that came later are left out where they are that, so that files stay as they were.
LATER = {"calibration": None, "coverage": None, "held_out": None}
Setting = TypeVar("Setting")
SETTINGS = bool, int, float, str, np.generic, np.random.RandomState, np.random.Generator


def not_ours(value: object) -> str:
    """The message about something that our files cannot hold."""
    return (
        f"Only learners of maxmargin, and pipelines that end with one, can be saved, not "
        f"{type(value)!r}. For what else there is of scikit-learn, use skops.io.dump, or "
        "joblib.dump for files that only you can write, since loading those runs what is in them."
    )


def is_public(value: object) -> bool:
    """Is it a learner of this library, and no class derived from one?"""
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


def written_parameters(clf: BaseEstimator) -> dict[str, Any]:
    """The parameters of a learner, as files have them."""
    given = clf.get_params(deep=False)
    return {name: each for name, each in given.items() if each is not LATER.get(name, clf)}


def summary_of(clf: BaseEstimator) -> dict[str, Any]:
    """What there is to say about a learner in few words, as JSON."""
    words: dict[str, Any] = {
        "estimator": type(clf).__name__,
        "parameters": {name: shown(value) for name, value in written_parameters(clf).items()},
    }
    return words | clf.__summary__()


def checked_summary(found: object) -> dict[str, Any]:
    """What a file says about its learner; raises unless it looks like `summary_of` one."""
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


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < MOST


def _is_certificate(value: object) -> bool:
    if not isinstance(value, dict) or value.keys() != {"margin", "bound", "ratio"}:
        return False
    return all(type(number) in (int, float) for number in value.values())


# What a summary may say, and how to know that it does.
SUMMARY: dict[str, Callable[[object], bool]] = {
    "estimator": lambda value: isinstance(value, str),
    "parameters": _is_plain_dict,
    "classes": lambda value: isinstance(value, list) and all(map(_is_plain, value)),
    **dict.fromkeys(("n_features", "mistakes", "updates", "supports", "components"), _is_count),
    "certificate": _is_certificate,
    "columns": lambda value: isinstance(value, list) and all(map(_is_plain_dict, value)),
    "steps": lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
}


def shown(value: object) -> bool | int | float | str | None:
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    return type(value).__name__
