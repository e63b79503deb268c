"""Validation of parameters: scikit-learn's, which is private there, and imported here only."""

from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.utils import _param_validation
from sklearn.utils._param_validation import Interval, InvalidParameterError, Options, StrOptions

__all__ = ["Interval", "InvalidParameterError", "Options", "StrOptions", "validate_params"]

Function = TypeVar("Function", bound=Callable[..., Any])


def validate_params(
    constraints: dict[str, list[Any]], *, prefer_skip_nested_validation: bool
) -> Callable[[Function], Function]:
    """scikit-learn's, as type checkers understand it: a function keeps its signature."""
    return _param_validation.validate_params(
        constraints, prefer_skip_nested_validation=prefer_skip_nested_validation
    )
