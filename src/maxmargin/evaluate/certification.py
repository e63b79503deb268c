"""How good is a linear classifier on given rows? By its margin, and what no other can exceed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from maxmargin.algorithms.pumma import PUMMA
from maxmargin.certificates import Certificate, geometric_margins
from maxmargin.certificates.bounds import rounding_of_products
from maxmargin.core.row_scans import lowest_outputs
from maxmargin.core.rows import NO_TAIL
from maxmargin.evaluate.last_step import last_step
from maxmargin.models.linear_model import as_rows
from maxmargin.training import inputs
from maxmargin.training.protocol import trainer_of
from maxmargin.training.sample_weights import counted


def certify(
    clf: BaseEstimator,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    tol: float = 0.01,
    max_iter: int = 1000,
    verbose: int = 0,
) -> Certificate:
    """Measure the margin of ``clf`` on ``X``, ``y`` and prove how far it can be from the best one.

    Works for every fitted linear classifier with ``coef_``, ``intercept_`` and ``classes_``, also
    for one from another library. Nothing is taken on trust: the margin is measured on the rows
    given, and the bound is proved afresh from them by running `PUMMA`.

    Of a pipeline, the last step is certified, on the rows as the steps before it transform them:
    margin and bound are distances in the space that the last step sees (after a StandardScaler, in
    standard deviations), not in that of ``X``.

    Parameters
    ----------
    clf : estimator
        Fitted linear classifier, binary or one-vs-rest, or a fitted pipeline that ends with one.
    X : array or CSR matrix of shape (n_samples, n_features)
    y : array of shape (n_samples,)
        Labels; each class of ``clf`` must occur.
    sample_weight : array of shape (n_samples,), default=None
        Rows of weight 0 are left out. A margin is the least of all others, whatever they weigh.
    tol : float, default=0.01
        Effort: the bound is within this fraction of the best margin if ``max_iter`` passes are
        enough.
    max_iter : int, default=1000
        Passes over the data at most. With fewer passes the bound is weaker, never wrong.
    verbose : int, default=0
        Show a progress bar, if on a terminal.

    Returns
    -------
    Certificate
        About hyperplanes with an intercept, unless ``clf`` was fitted without one.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from maxmargin import MaxMargin, certify
    >>> X, y = [[0.0, 0.0], [0.0, 1.0], [4.0, 0.0]], [0, 0, 1]
    >>> print(certify(SVC(kernel="linear", C=1e6).fit(X, y), X, y))
    margin 1.99986, certified to be at least 99.99 % of the best possible (at most 2)

    Of a pipeline, in the space behind the scaler:

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MaxAbsScaler
    >>> pipeline = make_pipeline(MaxAbsScaler(), MaxMargin(soft_margin=0.0))
    >>> print(certify(pipeline.fit(X, y), X, y))
    margin 0.499995, certified to be at least 100.00 % of the best possible (at most 0.5)
    """
    check_is_fitted(clf)
    clf, X = last_step(clf, X)
    if not hasattr(clf, "coef_"):
        raise TypeError(f"certify needs a linear classifier with coef_, got {type(clf).__name__}.")
    coef = clf.coef_.toarray() if sparse.issparse(clf.coef_) else clf.coef_
    coef = np.atleast_2d(np.asarray(coef, dtype=np.float64))
    intercept = np.broadcast_to(np.asarray(clf.intercept_, dtype=np.float64), coef.shape[:1])
    has_intercept = bool(getattr(clf, "fit_intercept", True)) or bool(np.any(intercept))

    prover = PUMMA(
        delta=tol, fit_intercept=has_intercept, max_iter=max_iter, random_state=0, verbose=verbose
    )
    X, _ = inputs.check_X(trainer_of(prover).options, X)
    if X.shape[1] != coef.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features, but the classifier has {coef.shape[1]}.")
    y = inputs.check_y(y, X.shape[0], multilabel=True)
    if sample_weight is not None:
        X, y, *_ = counted(X, y, sample_weight)
    codes = inputs.class_codes(y, clf.classes_)
    if y.ndim == 2:
        inputs.classes_of(y)  # no label may be the same in all rows
        problems = clf.classes_.size
    else:
        missing = np.setdiff1d(clf.classes_, y)
        if missing.size:
            what = f"y lacks the classes {missing.tolist()}"
            raise ValueError(f"{what}: their margin is not defined.")
        problems = 1 if clf.classes_.size == 2 else clf.classes_.size
    one_vs_one = problems > 1 and hasattr(clf, "decision_function_shape")  # SVC and NuSVC
    if coef.shape[0] != problems or one_vs_one:
        raise TypeError(
            f"certify needs one weight vector per class (one-vs-rest), got {coef.shape[0]} for "
            f"{clf.classes_.size} classes."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        proved = prover.fit(X, codes).certificate_

    rows = as_rows(X, NO_TAIL)
    targets = inputs.as_targets(codes, clf.classes_.size)
    weights = np.ascontiguousarray(np.column_stack([coef, np.zeros(problems)]))
    lowest, rounding = np.empty(problems), rounding_of_products(weights)
    lowest_outputs(rows, targets, weights, np.ascontiguousarray(intercept), rounding, lowest)
    each = proved.classes or (proved,)
    margins = geometric_margins(lowest, weights, X.shape[1])
    sums = [one.evidence for one in each]  # for `merge`
    return Certificate.weakest(margins, np.array([one.bound for one in each]), sums)
