"""The maximum margin itself, for who has all rows at hand."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin

from maxmargin._terminal import bar
from maxmargin._validation import Interval, StrOptions
from maxmargin.core.rows import Tail
from maxmargin.estimator.locks import writing
from maxmargin.estimator.parameters import SOFT_MARGINS, Facts
from maxmargin.estimator.predicting import Predicting
from maxmargin.estimator.state_access import Stateful
from maxmargin.models.hyperplanes import Hyperplanes
from maxmargin.models.linear_model import as_rows
from maxmargin.models.newton_solver import NOTHING, Solution, Task, solve
from maxmargin.persistence import model_tree
from maxmargin.training import inputs, stopping
from maxmargin.training.feature_columns import Features
from maxmargin.training.multilabel import check_number_of_labels
from maxmargin.training.sample_weights import (
    check_any,
    check_weights,
    unused_class_weight,
    weights_of_classes,
)
from maxmargin.training.state import State, problems_for


@dataclass(eq=False, repr=False, kw_only=True)
class MaxMargin(Predicting, Stateful, ClassifierMixin, BaseEstimator):
    """The classifier with the largest 2-norm soft margin, exactly, with a certificate::

        minimise  |w|^2 / 2 + 1 / (2 lambda) sum_i s_i max(0, 1 - y_i (w.x_i + b))^2

    by Newton's method, with an intercept b that costs nothing. It is what the online learners of
    this package approach from one row at a time; with all rows at hand it gets there in a few
    steps, and proves it. More than two classes are separated one against the rest.

    Parameters
    ----------
    soft_margin : float, default=1.0
        The lambda of the 2-norm soft margin (``1 / (2 C)`` for the C of the squared hinge loss in
        :class:`~sklearn.svm.LinearSVC`). 0 is the hard margin, for rows that can be separated.
    tol : float, default=1e-3
        The margin is to be certified as at least ``1 - tol`` of the best possible one; where that
        cannot be had, `converged_` is False, and a warning says what is. Bounds are rounded up by
        1e-9, so nothing below 2e-9 can be reached.
    fit_intercept : bool, default=True
        Learn an intercept. It is not part of the norm, so no scaling of it matters.
    max_iter : int, default=100
        Newton steps at most; 3 to 10 are usual, some dozens for hard margins.
    class_weight : dict, "balanced" or None, default=None
        What the rows of each class count. "balanced" gives all classes the same total. It
        multiplies `sample_weight`.
    verbose : int, default=0
        Show a progress bar during `fit`, if on a terminal.
    kernel : {"linear"}, default="linear"
        There is no other one here; `PUMMA` has them, with the same soft margin.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights; one row for two classes, one row per class for more.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    classes_ : ndarray of shape (n_classes,)
        The labels; for two classes the second is the positive one.
    certificate_ : Certificate
        The margin reached, and a proved bound on the best possible one. With ``soft_margin > 0``
        they are those of the rows with a coordinate of their own, ``sqrt(lambda / s_i)`` for row i:
        the same as for the other learners of this package.
    n_iter_ : int
        Newton steps made with all rows; 0 if what comes before them was enough.
    converged_ : bool
        Is the margin certified as `tol` asks for?
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Ctrl-C leaves the model that there was before. `maxmargin.certify` speaks of the margin of the
    rows as they are, without coordinates of their own.

    A row of weight s has ``lambda / s`` in place of lambda: weight 2 is the row twice, weight 0 no
    row at all. Hard margins know no weights but 0.

    With up to 1500 features each step solves a linear system in them (dense: ``n d^2`` operations,
    for the rows that count); with more features, but few rows, one in the rows; with many of both,
    steps are found by conjugate gradients after some passes of dual coordinate ascent, and no
    matrix is made. The rows are read where they are.

    References
    ----------
    O. L. Mangasarian, "A finite Newton method for classification", 2002. S. S. Keerthi and D.
    DeCoste, "A modified finite Newton method for fast solution of large scale linear SVMs", 2005.

    Examples
    --------
    >>> from maxmargin import MaxMargin
    >>> clf = MaxMargin().fit([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [4.0, 0.0]], [0, 0, 1, 1])
    >>> clf.predict([[1.9, 0.0], [2.1, 0.0]]).tolist()
    [0, 1]
    >>> print(MaxMargin(soft_margin=0).fit([[0.0], [1.0], [3.0]], [0, 0, 1]).certificate_)
    margin 1, certified to be at least 100.00 % of the best possible (at most 1)
    """

    soft_margin: float = 1.0
    tol: float = 1e-3
    fit_intercept: bool = True
    max_iter: int = 100
    class_weight: Any = None
    verbose: int = 0
    kernel: str = "linear"

    facts: ClassVar[Facts] = Facts(
        guarantee="the maximum margin, exactly",
        updates="-",
        drift=False,
        paper="Mangasarian; Keerthi & DeCoste",
        cost="all rows at once",
        kernel=False,
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "soft_margin": SOFT_MARGINS,
        "tol": [Interval(Real, 0.0, 1.0, closed="neither")],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "verbose": ["verbose"],
        "kernel": [str, callable],
    }

    @writing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MaxMargin:
        """Find the largest margin of ``X``, ``y``.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            float32 and float64 are read in place.
        y : array of shape (n_samples,)
            Class labels, at least two different ones. Or, for rows with several labels, of shape
            (n_samples, n_labels): 0 and 1, one problem for each.
        sample_weight : array of shape (n_samples,), default=None
            What each row counts, none less than 0; by default each counts 1.

        Returns
        -------
        self
        """
        self.check_can_fit()
        X, y, features, radius = inputs.check_fit(self, X, y, several=True)
        if several := y.ndim == 2:
            check_number_of_labels(self, y)
        given = check_weights(sample_weight, X.shape[0])
        check_any(int(np.count_nonzero(given)))
        there = slice(None) if given.all() else given > 0.0
        classes = inputs.classes_of(y[there])
        codes = np.zeros(y.shape, np.int32)
        codes[there] = inputs.class_codes(y[there], classes)
        worth = given
        if not several:
            worth = given * weights_of_classes(self.class_weight, classes, codes, given)[codes]
        problems = problems_for(classes, multilabel=several)
        task = Task(
            rows=as_rows(X, Tail(float(self.fit_intercept), 0.0)),
            targets=inputs.as_targets(codes, classes.size),
            worth=(worth > 0.0).astype(float) if self.soft_margin == 0.0 else worth,
            penalty=float(self.soft_margin),
            width=X.shape[1],
            filled=X.nnz / X.shape[0] if sparse.issparse(X) else X.shape[1],
            intercept=bool(self.fit_intercept),
            radius=radius,
            tol=float(self.tol),
            max_iter=int(self.max_iter),
        )
        with bar("MaxMargin", None, "steps", enabled=bool(self.verbose)) as advance:
            found = solve(task, problems, advance)
        self.conclude(found, classes, features, radius, several=several)
        return self

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.class_weight is not None and self.soft_margin == 0.0:
            raise unused_class_weight("MaxMargin")

    def check_can_fit(self) -> None:
        """Raise if a parameter has a value that it cannot have."""
        self._validate_params()
        if self.kernel != "linear":
            raise ValueError(
                f"The 'kernel' parameter of MaxMargin must be 'linear', got {self.kernel!r}: for "
                "other kernels use PUMMA, with the same soft_margin."
            )

    def conclude(
        self,
        found: Solution,
        classes: np.ndarray,
        features: Features,
        radius: float,
        *,
        several: bool,
        schema: dict[str, Any] | None = None,
        limit: str = "max_iter",
        complains: bool = True,
    ) -> None:
        """Know what was found, for rows of at most that norm; warn if it is not what was asked for.

        For who finds it elsewhere, see `maxmargin.distributed`; ``limit`` is what they call the
        limit of their steps.
        """
        if not np.isfinite(found.weights).all():
            raise ValueError(
                "MaxMargin found weights that are not finite: scale the features, or choose a "
                "soft_margin nearer to their squares."
            )
        converged = bool(found.reached.all())
        self._state = State(
            Hyperplanes.of(found),
            classes,
            features,
            found.margins,
            multilabel=several,
            n_iter=found.n_iter,
            converged=converged,
            schema=schema,
        )
        if complains and not converged:
            stopping.warn(self._complaint(found, radius, limit))

    @property
    def n_updates_(self) -> int:
        raise AttributeError("MaxMargin learns from all rows at once: there are no updates.")

    @property
    def n_mistakes_(self) -> int:
        raise AttributeError("MaxMargin learns from all rows at once: there are no mistakes.")

    def _complaint(self, found: Solution, radius: float, limit: str) -> str:
        """What a user should know about a fit that did not reach what was asked for."""
        certificate = self.certificate_
        separable = certificate.bound > NOTHING * radius
        if self.soft_margin == 0.0 and not separable:
            return (
                f"No hyperplane separates these rows by more than {certificate.bound:.2g}, where "
                f"the longest row has {radius:.2g}: a hard margin needs rows that can be "
                "separated. Use soft_margin > 0."
            )
        steps = f"{found.n_iter} step{'s' * (found.n_iter > 1)}"
        return (
            f"MaxMargin certifies {certificate.ratio:.6g} of the best margin after {steps}; "
            f"tol={self.tol} asks for 1 - {self.tol}. Increase {limit}, or scale the "
            "features: rounding may leave no more to gain."
        )

    def _model_from(self, found: dict[str, Any], classes: np.ndarray) -> Hyperplanes:
        several = found.get("multilabel", False) is True
        leaves, problems = found.pop("model"), problems_for(classes, multilabel=several)
        weights = leaves.get("weights")
        if not isinstance(weights, np.ndarray) or weights.ndim != 2 or len(weights) != problems:
            raise model_tree.Misfit("weights: there is not one line for each problem")
        model: Hyperplanes = model_tree.filled(Hyperplanes(problems, weights.shape[1]), leaves)
        if leaves:
            raise model_tree.Misfit(f"no hyperplanes have {', '.join(sorted(leaves))}")
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = self.class_weight is None
        return tags
