"""Certificates of linear classifiers: a measured margin or SVM objective, and a proved bound."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from maxmargin.algorithms.maxmargin import MaxMargin
from maxmargin.algorithms.pumma import PUMMA
from maxmargin.certificates import Certificate, geometric_margins, hinge_bounds
from maxmargin.certificates.bounds import rounding_of_products, soft_margin
from maxmargin.core.row_scans import lowest_outputs
from maxmargin.core.rows import NO_TAIL, Tail
from maxmargin.models.linear_model import as_rows
from maxmargin.solvers import newton_passes
from maxmargin.spaces.problem_scalars import ROUNDING
from maxmargin.training import inputs
from maxmargin.training.protocol import trainer_of
from maxmargin.training.sample_weights import counted, weights_of_classes


def certify(
    clf: BaseEstimator,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    loss: str | None = None,
    soft_margin: float | None = None,
    tol: float = 0.01,
    max_iter: int = 1000,
    verbose: int = 0,
) -> Certificate:
    """Measure the margin of ``clf`` on ``X``, ``y`` and prove how far it can be from the best one.

    Works for every fitted linear classifier with ``coef_``, ``intercept_`` and ``classes_``, from
    any library. The margin is measured on the given rows, and the bound is proved from them by
    running `PUMMA`, independently of how ``clf`` was fitted.

    With `loss`, the certificate concerns the objective of a support vector machine, which is also
    meaningful for inseparable rows. It is the certificate that `MaxMargin` would have with the
    weights of ``clf``, see `docs/certificates.md`. For the hinge loss, the ratio is a proved lower
    bound on the optimum, divided by the value that ``clf`` attains.

    For a pipeline, the last step is certified, on the rows as the preceding steps transform them:
    margin and bound are distances in the space of the last step (after a StandardScaler, in
    standard deviations), not in that of ``X``.

    Parameters
    ----------
    clf : estimator
        Fitted linear classifier, binary or one-vs-rest, or a fitted pipeline that ends with one.
    X : array or CSR matrix of shape (n_samples, n_features)
    y : array of shape (n_samples,)
        Labels; each class of ``clf`` must occur.
    sample_weight : array of shape (n_samples,), default=None
        Rows of weight 0 are ignored. The margin is the minimum over all others, whatever their
        weights. In an objective, the loss of a row is multiplied by its weight, and by that of its
        class if ``clf`` has `class_weight`.
    loss : {"hinge", "squared_hinge"}, default=None
        Certify the objective with this loss instead of the margin. The intercept is not part of the
        norm, as in `SVC`; `LinearSVC` minimises a slightly different objective, in which it is.
    soft_margin : float, default=None
        With `loss`, the lambda of the objective. The default is that of ``clf``: `soft_margin_` of
        `MaxMargin`, ``1 / (2 C)`` of `SVC` and `LinearSVC`.
    tol : float, default=0.01
        Precision: the bound is within this fraction of the best margin, or objective, if
        ``max_iter`` passes suffice.
    max_iter : int, default=1000
        Maximum number of passes over the data; with `loss`, of Newton steps. Fewer passes give a
        weaker bound, but never a wrong one.
    verbose : int, default=0
        Show a progress bar on a terminal.

    Returns
    -------
    Certificate
        For hyperplanes with an intercept, unless ``clf`` was fitted without one.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from maxmargin import MaxMargin, certify
    >>> X, y = [[0.0, 0.0], [0.0, 1.0], [4.0, 0.0]], [0, 0, 1]
    >>> print(certify(SVC(kernel="linear", C=1e6).fit(X, y), X, y))
    margin 1.99986, certified to be at least 99.99 % of the best possible (at most 2.00001)

    A pipeline, in the space after the scaler:

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MaxAbsScaler
    >>> pipeline = make_pipeline(MaxAbsScaler(), MaxMargin(soft_margin=0.0))
    >>> print(certify(pipeline.fit(X, y), X, y))
    margin 0.499995, certified to be at least 99.99 % of the best possible (at most 0.500001)

    The objective of a support vector machine, on inseparable rows:

    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    >>> machine = SVC(kernel="linear", C=1.0).fit(X, y)
    >>> bool(certify(machine, X, y, loss="hinge", tol=1e-4).ratio > 0.999)
    True
    """
    if loss not in (None, "hinge", "squared_hinge"):
        raise ValueError(f"loss must be 'hinge', 'squared_hinge' or None, got {loss!r}.")
    if soft_margin is not None and loss is None:
        raise ValueError("soft_margin has a meaning with loss='hinge' or 'squared_hinge' only.")
    check_is_fitted(clf)
    clf, X = last_step(clf, X)
    coef, intercept = _planes_of(clf)
    has_intercept = bool(getattr(clf, "fit_intercept", True)) or bool(np.any(intercept))
    effort: Any = {"fit_intercept": has_intercept, "max_iter": max_iter, "verbose": verbose}
    X, _ = inputs.check_X(trainer_of(PUMMA(**effort)).options, X)
    if X.shape[1] != coef.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features, but the classifier has {coef.shape[1]}.")
    y = inputs.check_y(y, X.shape[0], multilabel=True)
    weights = np.ones(y.shape[0])
    if sample_weight is not None:
        X, y, weights, _ = counted(X, y, sample_weight)
    codes = inputs.class_codes(y, clf.classes_)
    _check_one_vs_rest(clf, coef.shape[0], y)
    prover: PUMMA | MaxMargin
    targets = inputs.as_targets(codes, clf.classes_.size)
    if loss is None:
        prover = PUMMA(delta=tol, random_state=0, **effort)
        margins = _margins(X, targets, coef, intercept)
        given = {}
    else:
        class_weight = getattr(clf, "class_weight", None)
        if class_weight is not None and y.ndim == 1:
            factors = weights_of_classes(class_weight, clf.classes_, codes, weights)
            weights = weights * factors[codes]
        penalty = _penalty(clf, soft_margin)
        prover = MaxMargin(loss=loss, soft_margin=penalty, tol=tol, **effort)
        planes = np.ascontiguousarray(np.column_stack([coef, intercept]))
        margins = _objectives(X, targets, planes, weights, penalty, loss)
        given = {"sample_weight": weights}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        proved = prover.fit(X, codes, **given).certificate_
    each = proved.classes or (proved,)
    sums = [one.evidence for one in each]  # for `merge`
    return Certificate.weakest(margins, np.array([one.bound for one in each]), sums)


def last_step(estimator: BaseEstimator, X: Any) -> tuple[Any, Any]:
    """The last step of a fitted pipeline, and ``X`` transformed by the steps before it.

    Any other estimator is returned unchanged, with ``X``.
    """
    while isinstance(estimator, Pipeline):
        X = estimator[:-1].transform(X) if len(estimator) > 1 else X
        estimator = estimator[-1]
    return estimator, X


def last_step_of_copy(estimator: BaseEstimator, X: Any, y: Any) -> tuple[Any, Any]:
    """`last_step` of an unfitted pipeline: copies of the steps before the last are fitted."""
    while isinstance(estimator, Pipeline):
        X = clone(estimator[:-1]).fit_transform(X, y) if len(estimator) > 1 else X
        estimator = estimator[-1]
    return estimator, X


def _planes_of(clf: BaseEstimator) -> tuple[np.ndarray, np.ndarray]:
    """Weights of shape (problems, features), and intercepts."""
    if not hasattr(clf, "coef_"):
        raise TypeError(f"certify needs a linear classifier with coef_, got {type(clf).__name__}.")
    coef = clf.coef_.toarray() if sparse.issparse(clf.coef_) else clf.coef_
    coef = np.atleast_2d(np.asarray(coef, dtype=np.float64))
    intercept = np.broadcast_to(np.asarray(clf.intercept_, dtype=np.float64), coef.shape[:1])
    return coef, np.ascontiguousarray(intercept)


def _check_one_vs_rest(clf: BaseEstimator, vectors: int, y: np.ndarray) -> None:
    """Raise unless there is one weight vector per problem, and every class occurs in ``y``."""
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
    if vectors != problems or one_vs_one:
        raise TypeError(
            f"certify needs one weight vector per class (one-vs-rest), got {vectors} for "
            f"{clf.classes_.size} classes."
        )


def _margins(X: Any, targets: Any, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """Lower bounds on the geometric margins of hyperplanes."""
    weights = np.ascontiguousarray(np.column_stack([coef, np.zeros(intercept.size)]))
    lowest, rounding = np.empty(intercept.size), rounding_of_products(weights)
    lowest_outputs(as_rows(X, NO_TAIL), targets, weights, intercept, rounding, lowest)
    return geometric_margins(lowest, weights, X.shape[1])


def _objectives(
    X: Any, targets: Any, planes: np.ndarray, sample_weight: np.ndarray, penalty: float, loss: str
) -> np.ndarray:
    """The objectives of hyperplanes, as the margins that certificates state for them."""
    rows, count = as_rows(X, Tail(1.0, 0.0)), sample_weight.size
    numbers = np.arange(count, dtype=np.int32 if count < 2**31 else np.int64)
    squares = np.empty(count)
    newton_passes.squares(rows, numbers, squares)
    radius, margins = float(np.sqrt(squares.max())), np.empty(planes.shape[0])
    out, only = np.empty((1, count)), np.zeros(1, np.int64)
    for c, w in enumerate(planes[:, :-1]):
        chosen = newton_passes.Chosen(numbers, rows, targets, sample_weight, c)
        newton_passes.signed_outputs(chosen, only, planes[c : c + 1], out)
        lacking = np.maximum(1.0 - out[0], 0.0)
        extent = float(np.linalg.norm(planes[c])) * radius + 1.0
        given: Any = {
            "square": float(w @ w),
            "losses": float(sample_weight @ (lacking if loss == "hinge" else lacking**2)),
            "total_weight": float(sample_weight.sum()),
            "error": ROUNDING * (w.size + 16.0) * extent,
            "rows": numbers.size + w.size,
            "penalty": penalty,
        }
        if loss == "hinge":
            margins[c] = hinge_bounds.as_margin(hinge_bounds.highest_value(**given))
        else:
            margins[c] = soft_margin(**given)
    return margins


def _penalty(clf: BaseEstimator, soft_margin: float | None) -> float:
    """The lambda of the objective."""
    if soft_margin is None:
        from sklearn.svm import SVC, LinearSVC

        if isinstance(clf, MaxMargin):
            soft_margin = clf.soft_margin_
        elif isinstance(clf, SVC | LinearSVC):
            soft_margin = 0.5 / clf.C
        else:
            raise ValueError(
                f"loss needs soft_margin, which {type(clf).__name__} does not have: pass a number "
                "above 0, 1 / (2 C) for the C of a support vector machine."
            )
    if not (isinstance(soft_margin, Real) and float(soft_margin) > 0.0):
        raise ValueError(f"soft_margin must be a number above 0, got {soft_margin!r}.")
    return float(soft_margin)
