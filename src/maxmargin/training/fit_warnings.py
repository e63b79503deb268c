"""Convergence warnings."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning


def warn_of(text: str) -> None:
    """Warn the caller of a fit, unless the text is empty."""
    if text:
        warnings.warn(text, ConvergenceWarning, stacklevel=3)
