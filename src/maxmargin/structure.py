"""Parameters that a model is built from: they cannot change while it lives."""

from __future__ import annotations

from typing import Any

STRUCTURAL = (
    *("fit_intercept", "intercept_scaling", "soft_margin", "p", "intercept", "average"),
    *("kernel", "gamma", "degree", "coef0", "kernel_dtype", "multiclass", "k"),
    *("budget", "on_full", "threshold", "plus"),
)


def structure_of(clf: Any) -> dict[str, Any]:
    """The present values of those parameters that the learner has."""
    return {name: getattr(clf, name) for name in STRUCTURAL if hasattr(clf, name)}


def check_structure(clf: Any) -> None:
    """Refuse to go on with a model that was built for other parameters."""
    now = structure_of(clf)
    for name, before in clf._structure.items():
        if now[name] != before:
            raise ValueError(
                f"The '{name}' parameter of {type(clf).__name__} cannot change on a fitted model: "
                f"it was {before!r}, got {now[name]!r}. Fit anew without warm_start."
            )


def check_stream_can_start(clf: Any) -> None:
    """Refuse parameters that only all rows together can tell."""
    if clf.fit_intercept and clf.intercept_scaling == "max":
        raise ValueError(
            "intercept_scaling='max' needs all rows at once, as fit has them: pass a number."
        )
    if clf.kernel in ("poly", "rbf") and clf.gamma == "scale":
        raise ValueError("gamma='scale' needs all rows at once, as fit has them: pass a number.")
