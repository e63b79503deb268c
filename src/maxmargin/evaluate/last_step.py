"""Pipelines of scikit-learn: their last step, and the rows that it sees."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted


def last_step(estimator: BaseEstimator, X: Any) -> tuple[Any, Any]:
    """The last step of a pipeline, and ``X`` transformed by the fitted steps before it.

    Anything but a pipeline is returned as it is, with ``X``.
    """
    if not isinstance(estimator, Pipeline):
        return estimator, X
    if len(estimator) == 1:
        return last_step(estimator[-1], X)
    try:
        check_is_fitted(estimator[:-1])
    except NotFittedError:
        raise NotFittedError(
            f"The step {estimator.steps[-2][0]!r} of the pipeline is not fitted yet: call fit on "
            "the pipeline, or on its steps before the last, first."
        ) from None
    return last_step(estimator[-1], estimator[:-1].transform(X))


def last_step_of_copy(estimator: BaseEstimator, X: Any, y: Any) -> tuple[Any, Any]:
    """The same for a pipeline that is to be fitted: copies of the first steps are fitted here."""
    if not isinstance(estimator, Pipeline):
        return estimator, X
    if len(estimator) > 1:
        X = clone(estimator[:-1]).fit_transform(X, y)
    return last_step_of_copy(estimator[-1], X, y)
