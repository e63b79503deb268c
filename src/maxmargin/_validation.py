"""Validation of parameters: scikit-learn's, which is private there, and imported here only."""

from sklearn.utils._param_validation import Interval, Options, StrOptions, validate_params

__all__ = ["Interval", "Options", "StrOptions", "validate_params"]
