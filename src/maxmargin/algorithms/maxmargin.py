"""The maximum margin itself, from all rows at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from maxmargin._terminal import bar
from maxmargin._validation import Interval, StrOptions
from maxmargin.certificates.directed_rounding import text_down, text_up
from maxmargin.core.array_fields import blank
from maxmargin.core.loop import LARGEST_XX, SMALLEST_XX
from maxmargin.core.rows import SparseRows, Tail
from maxmargin.estimator.learner import Predicting
from maxmargin.estimator.parameters import SOFT_MARGINS, Facts, Kernels
from maxmargin.kernels.functions import (
    KERNELS,
    Kernel,
    LaplacianKernel,
    RadialKernel,
    finite_diagonal,
)
from maxmargin.kernels.points import Points
from maxmargin.kernels.products import Products
from maxmargin.models.kernel_model import kernel_for, products_on
from maxmargin.models.linear_model import as_rows
from maxmargin.models.spec import ExpansionSpec, KernelSpec, filled
from maxmargin.persistence import model_tree
from maxmargin.solvers.block_passes import BlockPasses, MatrixColumns
from maxmargin.solvers.joint_oracle import JointRows
from maxmargin.solvers.kernel_choice import RidgeLabels, automatic_kernel, chosen_gamma
from maxmargin.solvers.kernel_oracle import KernelRows, sample_of
from maxmargin.solvers.landmarks import landmark_features, landmark_rows
from maxmargin.solvers.linear_oracle import HostPasses, LinearRows, with_entries
from maxmargin.solvers.newton import NOTHING, Solution, Task, solve
from maxmargin.solvers.regularization_path import (
    MOST_CHOSEN,
    Posed,
    RegularizationPath,
    automatic_path,
    follow_path,
    outputs_left_out,
    scaled_log_loss,
    usual_lambdas,
)
from maxmargin.solvers.solutions import Hyperplanes, KernelExpansion
from maxmargin.training import inputs
from maxmargin.training.inputs import check_number_of_labels
from maxmargin.training.outputs import outputs
from maxmargin.training.passes import certificate_of, warn_of
from maxmargin.training.platt import Sigmoids, fitted_sigmoids
from maxmargin.training.protocol import Batch, Fitted, Learned, Options
from maxmargin.training.sample_weights import (
    check_any,
    check_weights,
    unused_class_weight,
    weights_of_classes,
)
from maxmargin.training.state import Features, State

# With kernel="auto" there are so many landmarks for more rows than that, on a device for more.
LANDMARKS, MOST_ROWS = 1000, {"cpu": 20_000, "cuda": 100_000}
# Kernels whose width can be chosen.
RADIAL = [name for name, kind in KERNELS.items() if issubclass(kind, RadialKernel)]


@dataclass(eq=False, repr=False, kw_only=True)
class MaxMargin(Kernels, Predicting):
    """Exact maximum-margin classifier for data that fit in memory, with a certificate::

        minimise  |w|^2 / 2 + 1 / (2 lambda) sum_i s_i max(0, 1 - y_i (w.x_i + b))^2

    by Newton's method, with an intercept b that is not regularized. With ``loss="hinge"`` the loss
    is not squared, as in the standard support vector machine. Online learners approach this
    classifier one row at a time; for data in memory, a few steps find it, with a proof. Multiclass
    problems are learned one-vs-rest, or together::

        minimise  sum_c |w_c|^2 / 2 + 1 / (4 lambda) sum_i s_i sum_c max(0, 1 - (f_y - f_c)(x_i))^2

    over the rivals c of the class y of each row, with ``f_c(x) = w_c.x + b_c``.

    Parameters
    ----------
    soft_margin : float or "auto", default="auto"
        The lambda of the soft margin, ``1 / (2 C)`` for the C of :class:`~sklearn.svm.LinearSVC`
        and :class:`~sklearn.svm.SVC`, with either loss. 0 is the hard margin, for separable rows.
        "auto" chooses it by leave-one-out errors, see `path`; with the hinge loss, by five folds of
        at most 4096 rows. With a kernel or a device, these are errors on a sample of 2000 rows.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        The loss of a row whose margin falls short by z: z squared (the 2-norm soft margin), or z.
    multiclass : {"ovr", "joint"}, default="ovr"
        With more than two classes: one independent problem per class against the rest, or all of
        them together, by how far the output of a row's class is ahead of every other. That is what
        `AMIRA` approaches, and more accurate where straight boundaries must share the work; it has
        one margin and one certificate. For two classes both are the same. "joint" needs the squared
        hinge loss, ``loo="formula"`` and ``device="cpu"``.
    tol : float, default=1e-3
        Stop when the margin is certified to be at least ``1 - tol`` of the best possible one; with
        ``loss="hinge"``, when the optimum is at least ``1 - tol`` of the objective attained. If
        this fails, `converged_` is False and a warning reports what was attained. Bounds are
        rounded up by 1e-9, so smaller values cannot be attained.
    fit_intercept : bool, default=True
        Learn an intercept. It is not part of the norm.
    max_iter : int, default=100
        Maximum number of Newton steps; 3 to 10 are usual, some dozens for hard margins and the
        hinge loss.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, by label, which multiply `sample_weight`. "balanced" gives all classes
        the same total weight.
    verbose : int, default=0
        Show a progress bar during `fit` on a terminal.
    calibration : {"loo"}, default=None
        "loo" enables `predict_proba`: Platt's sigmoid of the score, fitted to leave-one-out scores,
        so that no row is held out; with ``multiclass="joint"``, the softmax of all scores times
        one factor. Needs the squared hinge loss and ``soft_margin > 0``; see
        `docs/probabilities.md`.
    loo : {"formula", "certified", "exact"}, default="formula"
        How leave-one-out errors of `path` and ``soft_margin="auto"`` are found. The formula assumes
        that no other row becomes active or inactive. "certified" proves for each row how far the
        formula can be from the fit without the row, and returns bounds on errors and losses;
        "exact" also fits without each row for which that is not proved.
    kernel : {"linear", "auto", "poly", "rbf", "laplacian", "precomputed"} or callable, \
            default="linear"
        "auto" is for tables, with columns in any units: a laplacian kernel of the standardized
        columns, whose width and scales of columns are chosen by leave-one-out errors (see Notes).
        The others are as in :class:`~sklearn.svm.SVC` and
        :func:`~sklearn.metrics.pairwise.laplacian_kernel`; with "precomputed", `fit` takes the
        square matrix of kernel values. All must satisfy Mercer's condition.
    gamma, degree, coef0 : default="scale", 3, 0.0
        Parameters of "poly", "rbf" and "laplacian", as in :class:`~sklearn.svm.SVC`, except that
        the variance behind "scale" is weighted by `sample_weight`. ``gamma="loo"`` chooses the
        width of "rbf" or "laplacian" by leave-one-out errors of a ridge regression on a sample of
        at most 1000 rows. "auto" needs none of them.
    n_landmarks : int, default=None
        With a kernel: approximate it by so many landmarks, drawn among the rows (Nystroem's
        method), so that no kernel matrix is needed. The certificate concerns the space of these
        features. By default, ``kernel="auto"`` takes 1000 of more than 20 000 rows (100 000 with
        ``device="cuda"``).
    cache_size : float, default=200.0
        Maximum memory in `fit`, in MB, for kernel values, copies of rows and work arrays (at least
        half of it is for kernel values); other values are computed again in each step. The linear
        systems of the active rows are not included.
    device : {"cpu", "cuda"}, default="cpu"
        Where products are computed. "cuda" needs a GPU, CuPy and dense rows; CuPy arrays stay on
        the device.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights; one row for two classes, one row per class for more. Only with the linear kernel.
    support_, support_vectors_, dual_coef_
        With other kernels: indices of the support vectors, the support vectors, and their
        coefficients, one line per problem.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    classes_ : ndarray of shape (n_classes,)
        The labels; for two classes the second is the positive one.
    certificate_ : Certificate
        The margin attained, and a proved bound on the best possible one. With ``soft_margin > 0``
        they concern the rows with a coordinate of their own, ``sqrt(lambda / s_i)`` for row i, as
        for all learners. With ``loss="hinge"`` the margin is ``1 / (2 P)`` for the value P of the
        objective attained, and the bound ``1 / (2 D)`` for a proved lower bound D on its optimum,
        so that the ratio is ``D / P``: see `docs/certificates.md`.
    n_iter_ : int
        Newton steps with all rows; 0 if the preceding steps sufficed.
    converged_ : bool
        Whether the certificate meets `tol`.
    soft_margin_ : float
        The lambda of the fit.
    gamma_ : float
        The gamma of the fit; not with the linear kernel.
    column_scales_ : ndarray of shape (n_features,)
        With ``kernel="auto"``, the scales of the standardized columns, the largest 1: how much each
        column matters. See :class:`~maxmargin.evaluate.ScalesDisplay`.
    path_ : RegularizationPath
        With ``soft_margin="auto"``, the results for each lambda that was tried, and the method by
        which rows were left out; see `path`.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Ctrl-C leaves the previous model. `maxmargin.certify` concerns the margin of the rows as they
    are, without coordinates of their own.

    A row of weight s has ``lambda / s`` in place of lambda: weight 2 is the same as the row twice,
    weight 0 the same as no row. (Leave-one-out leaves out a row of weight 2 as a whole, but each of
    two equal rows for itself.) With hard margins, nonzero weights have no effect.

    With up to 1500 features, each step solves a linear system in the features (``n d^2`` operations
    for n active dense rows); with more features but few rows, a system in the rows. With many of
    both, passes of dual coordinate ascent mostly suffice, and conjugate gradients find the steps
    otherwise, without a matrix. The rows are not copied. Sparse rows are fitted in the columns that
    have entries, by another array of their column numbers if these are few.

    With other kernels, each step solves a system in the active rows of each problem, and all
    classes share one product of the kernel matrix with their coefficients. The first steps use
    samples of 1000, 4000 and 16 000 rows. Kernel values are computed in float64.

    With ``kernel="auto"`` the kernel is ``exp(-gamma_ sum_j s_j |x_j - x'_j| / d_j)`` for the
    standard deviations d and the scales s of the columns. A ridge regression of the labels on at
    most 1000 rows chooses ``gamma_`` by leave-one-out errors, starting with equal scales. Then,
    twice, each scale is multiplied by the root mean square of the slopes of this regression along
    its column. Three folds decide between these scales and equal ones. The fit itself is exact.

    With ``multiclass="joint"`` a step solves one system, in the weights of all classes (up to 1500
    of them) or in the pairs of rows and rivals that are active (up to 1024), or goes by conjugate
    gradients. With a kernel it starts from the one-vs-rest solutions.

    References
    ----------
    O. L. Mangasarian, "A finite Newton method for classification", 2002. S. S. Keerthi and D.
    DeCoste, "A modified finite Newton method for fast solution of large scale linear SVMs", 2005.
    M. R. Hestenes, "Multiplier and gradient methods", 1969 (for the hinge loss and hard margins).
    Y. Chen, E. N. Epperly, J. A. Tropp and R. J. Webber, "Randomly pivoted Cholesky", 2023 (for
    landmarks).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from maxmargin import MaxMargin
    >>> X, y = load_wine(return_X_y=True)  # in different units
    >>> clf = MaxMargin(kernel="auto", calibration="loo").fit(X[::2], y[::2])
    >>> clf.score(X[1::2], y[1::2])
    0.966...
    >>> print(MaxMargin(soft_margin=0).fit([[0.0], [1.0], [3.0]], [0, 0, 1]).certificate_)
    margin 0.999999, certified to be at least 99.99 % of the best possible (at most 1.00001)
    """

    soft_margin: float | str = "auto"
    loss: str = "squared_hinge"
    multiclass: str = "ovr"
    tol: float = 1e-3
    fit_intercept: bool = True
    max_iter: int = 100
    class_weight: Any = None
    verbose: int = 0
    calibration: str | None = None
    loo: str = "formula"
    n_landmarks: int | None = None

    facts: ClassVar[Facts] = Facts(
        guarantee="the maximum margin, exactly",
        updates="-",
        drift=False,
        paper="Mangasarian; Keerthi & DeCoste",
        cost="all rows at once",
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "soft_margin": [*SOFT_MARGINS, StrOptions({"auto"})],
        "loss": [StrOptions({"squared_hinge", "hinge"})],
        "multiclass": [StrOptions({"ovr", "joint"})],
        "tol": [Interval(Real, 0.0, 1.0, closed="neither")],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "verbose": ["verbose"],
        "calibration": [StrOptions({"loo"}), None],
        "loo": [StrOptions({"formula", "certified", "exact"})],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "kernel": [StrOptions({*KERNELS, "auto"}), callable],
        "gamma": [
            StrOptions({"scale", "first", "auto", "loo"}),
            Interval(Real, 0, None, closed="neither"),
        ],
    }

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> MaxMargin:
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
        state, warning = self.__trainer__().fit(None, X, y, sample_weight)
        self._state = state
        warn_of(warning)
        return self

    def path(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        lambdas: ArrayLike | None = None,
        return_weights: bool = False,
    ) -> RegularizationPath:
        """Solutions for many values of `soft_margin`, and their leave-one-out errors and losses.

        Each solution starts from the one before, so that all of them cost a few fits. This learner
        stays as it is, and its own `soft_margin` plays no part (0 is refused); see
        :class:`~maxmargin.evaluate.PathDisplay` for a picture.

        Leave-one-out outputs come from the factor of the fit with all rows. They are exact for rows
        that can be left out without any other row entering or leaving the active set, those with
        ``y f(x) < 1``, and an approximation otherwise. With more than 1500 features and more than
        1500 rows, or a kernel and more than 16 384 rows, five folds take their place.
        `RegularizationPath.method` says which was used. With `loo` other than "formula", errors and
        losses have proved bounds.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        lambdas : array of shape (n_lambdas,), default=None
            Values of `soft_margin` above 0. By default 13 of them, a factor of ``sqrt(10)`` apart,
            around the mean squared distance of rows from their mean (with more than 1500 features:
            their mean squared norm), rounded to such a power. With a kernel, distances are those
            in its space.
        return_weights : bool, default=False
            Return the weights and intercepts of all solutions.

        Returns
        -------
        RegularizationPath
        """
        self.check_can_fit()
        self._check_bounds()
        self._check_can_leave_out("path", "set these parameters")
        if self.device != "cpu":
            raise ValueError(f"path needs device='cpu', got device={self.device!r}.")
        return self._new_trainer().path(X, y, sample_weight, lambdas, return_weights)

    def _new_trainer(self) -> ExactTrainer:
        return ExactTrainer(
            self.loss,
            self.calibration is not None,
            self.loo,
            self.n_landmarks,
            ExpansionSpec(
                fit_intercept=self.fit_intercept,
                soft_margin=0.0 if self.soft_margin == "auto" else float(self.soft_margin),
                intercept="pair",
                kernel=filled(KernelSpec, self.get_params(deep=False)),
            ),
            Options(
                type(self).__name__,
                fit_intercept=self.fit_intercept,
                soft_margin=self.soft_margin,
                kernel=self.kernel,
                gamma=self.gamma,
                multiclass=self.multiclass,
                device=self.device,
                max_iter=self.max_iter,
                tol=self.tol,
                class_weight=self.class_weight,
                verbose=self.verbose,
                several_in_kernels=True,
            ),
        )

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.class_weight is not None and self.soft_margin == 0.0:
            raise unused_class_weight("MaxMargin")
        if self.multiclass == "joint":
            self._check_joint()

    def _check_joint(self) -> None:
        """Raise unless other parameters have values that classes can be learned together with."""
        needed = {
            "loss": "squared_hinge",
            "loo": "formula",
            "device": "cpu",
            "n_landmarks": None,
        }
        for name, value in needed.items():
            if (given := getattr(self, name)) != value:
                raise ValueError(
                    f"multiclass='joint' needs {name}={value!r}, got {given!r}: change it, or use "
                    "multiclass='ovr'."
                )

    def check_can_fit(self) -> None:
        """Raise if a parameter has an invalid value."""
        self._validate_params()
        if self.soft_margin == "auto":
            self._check_bounds()
        if self.n_landmarks is not None and self.kernel in ("linear", "precomputed"):
            raise ValueError(
                f"n_landmarks needs a kernel that is computed from rows, got kernel="
                f"{self.kernel!r}."
            )
        if self.kernel == "auto" and self.gamma != "scale":
            raise ValueError(
                f"kernel='auto' chooses gamma itself: leave it out, got {self.gamma!r}."
            )
        if self.gamma == "loo" and self.kernel not in RADIAL:
            raise ValueError(
                f"gamma='loo' needs one of the kernels {RADIAL}, got kernel={self.kernel!r}."
            )
        if self.calibration is not None:
            self._check_can_leave_out(
                "calibration='loo'", "use sklearn.calibration.CalibratedClassifierCV"
            )
        if self.kernel != "linear":
            self._new_trainer().spec.kernel.check_device()

    def _check_can_leave_out(self, what: str, otherwise: str) -> None:
        """Raise unless leave-one-out outputs are known."""
        if self.loss != "squared_hinge" or self.soft_margin == 0.0:
            raise ValueError(
                f"{what} needs leave-one-out outputs, which are known with loss='squared_hinge' "
                f"and soft_margin > 0, got loss={self.loss!r} and soft_margin="
                f"{self.soft_margin!r}: {otherwise}."
            )

    def _check_bounds(self) -> None:
        """Raise if bounds are asked for where leave-one-out outputs are not known."""
        if self.loo != "formula" and (self.loss != "squared_hinge" or self.device != "cpu"):
            raise ValueError(
                f"loo={self.loo!r} needs loss='squared_hinge' and device='cpu', got loss="
                f"{self.loss!r} and device={self.device!r}: use loo='formula'."
            )

    def conclude(self, state: State, radius: float) -> None:
        """Know what was found, for rows of at most that norm; warn if it is not what was asked for.

        For solvers elsewhere, see `maxmargin.distributed`.
        """
        self._state, warning = self._new_trainer().concluded(state, radius)
        warn_of(warning)

    @property
    def soft_margin_(self) -> float:
        return float(self._fitted().more.get("soft_margin_", self.soft_margin))

    @property
    def gamma_(self) -> float:
        return self._expansion().kernel.gamma

    @property
    def column_scales_(self) -> np.ndarray:
        kernel = self._expansion().kernel
        if not isinstance(kernel, LaplacianKernel) or kernel.scales is None:
            raise AttributeError("Columns have scales only after a fit with kernel='auto'.")
        return kernel.scales

    def _expansion(self) -> KernelExpansion:
        model = self._fitted().model
        if not isinstance(model, KernelExpansion):
            raise AttributeError("There is no kernel after a fit with kernel='linear'.")
        return model

    @property
    def path_(self) -> RegularizationPath:
        path: RegularizationPath | None = self._fitted().more.get("path_")
        if path is None:
            raise AttributeError("There is a path only after a fit with soft_margin='auto'.")
        return path

    def __learned__(self) -> dict[str, Any]:
        found = super().__learned__()
        if found:
            state = self._fitted()
            if path := state.more.get("path_"):
                found["path"] = {k: v for k, v in path._asdict().items() if v is not None}
            if isinstance(state.model, KernelExpansion):
                found["kernel"] = state.model.kernel.name
        return found

    def __relearn__(self, found: dict[str, Any]) -> None:
        path = checked_path(found.pop("path", None))
        super().__relearn__(found)
        if path is not None:
            more = {"path_": path, "soft_margin_": path.soft_margin}
            self._state = self._fitted()._replace(more=more)

    @property
    def n_updates_(self) -> int:
        raise AttributeError("MaxMargin learns from all rows at once: there are no updates.")

    @property
    def n_mistakes_(self) -> int:
        raise AttributeError("MaxMargin learns from all rows at once: there are no mistakes.")

    @property
    def fit_stream(self) -> Any:
        raise AttributeError(
            "MaxMargin needs all rows at once: use fit and predict, or AutoMargin for streams."
        )

    learn_one = predict_one = fit_stream

    def _model_from(self, found: dict[str, Any], classes: np.ndarray) -> Any:
        leaves, kernel = found.pop("model"), found.pop("kernel", "linear")
        problems = inputs.problems_for(classes, multilabel=found.get("multilabel", False) is True)
        name = "weights" if kernel == "linear" else "coefs"
        shape: tuple[int, ...] = getattr(leaves.get(name), "shape", ())
        if len(shape) != 2 or shape[0] != problems:
            raise model_tree.Misfit(f"{name}: there is not one line for each problem")
        margins = 1 if self.multiclass == "joint" and problems > 1 else problems
        sizes = {"problems": problems, "margins": margins, "features": shape[1]}
        if kernel == "linear":
            model: Any = model_tree.filled(blank(Hyperplanes, sizes), leaves)
        else:
            model = self._expansion_from(leaves, kernel, sizes)
        if leaves:
            raise model_tree.Misfit(f"no solution has {', '.join(sorted(leaves))}")
        return model

    def _expansion_from(self, leaves: dict[str, Any], name: object, sizes: dict[str, int]) -> Any:
        width = leaves.get("features")
        if name not in KERNELS or type(width) is not int:
            raise model_tree.Misfit("the kernel, or the number of features, is missing")
        kernel: Any = KERNELS[name](1.0, 1.0, 0.0, np.float64)  # type: ignore[index]
        kernel = model_tree.kernel_from(kernel, leaves, width)
        points = model_tree.points_from(leaves, "points", width, kernel)
        empty = blank(
            KernelExpansion,
            {**sizes, "supports": points.size()},
            kernel=kernel,
            points=points,
            features=width,
            products=products_on(self.device),
        )
        return model_tree.filled(empty, leaves, done=kernel)

    def set_params(self, **params: Any) -> MaxMargin:
        """Set hyper-parameters; a new `device` takes over the model, if there is one."""
        state = self.__state__() if "device" in params else None
        if state is not None and isinstance(state.model, KernelExpansion):
            self._state = state._replace(model=state.model.on(params["device"]))
        super().set_params(**params)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.classifier_tags.multi_label = self.class_weight is None
        return tags


class Problem(NamedTuple):
    """Rows and labels of a fit, checked.

    rows, codes : with the numbers of their classes
    classes, features, multilabel : as in `State`
    radius : the largest norm of a row
    weights : of rows, with those of their classes
    given : without
    """

    rows: Any
    codes: np.ndarray
    classes: np.ndarray
    features: Features
    radius: float
    multilabel: bool
    weights: np.ndarray
    given: np.ndarray

    @property
    def problems(self) -> int:
        return inputs.problems_for(self.classes, multilabel=self.multilabel)

    @property
    def one_class(self) -> bool:
        """Is each row positive in exactly one problem?"""
        return self.problems > 1 and not self.multilabel


class ExactTrainer:
    """Finds the largest margin of all rows at once."""

    can_grow = False

    def __init__(
        self,
        loss: str,
        calibrated: bool,
        loo: str,
        n_landmarks: int | None,
        spec: ExpansionSpec,
        options: Options,
    ) -> None:
        self.loss, self.spec, self.options = loss, spec, options
        self.calibrated, self.loo, self.n_landmarks = calibrated, loo, n_landmarks

    def fit(
        self,
        state: State | None,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> Fitted:
        options = self.options
        problem = self._problem(X, y, sample_weight)
        with bar("MaxMargin", None, "steps", enabled=bool(options.verbose)) as advance:
            posed, more = self._posed(problem), dict[str, Any]()
            sample, numbers = self._sample(problem, posed)
            if options.soft_margin == "auto":
                path = automatic_path(sample or posed, advance, self.loo)
                posed = posed.with_penalty(path.soft_margin)
                more["path_"] = path
            more["soft_margin_"] = posed.task.penalty
            radius, width, landmarks = problem.radius, problem.features.count, None
            rows = posed.data.rows if isinstance(posed.data, JointRows) else posed.data
            if isinstance(rows, KernelRows):
                radius = float(np.sqrt(rows.kernel.diagonal(rows.points).max()))
                if (count := self._landmarks(rows)) and not posed.joint:
                    landmarks = landmark_features(rows, count)
                    posed = posed._replace(data=landmark_rows(rows, landmarks))
            found = solve(posed.data, posed.task, posed.number, advance)
            if landmarks is not None:
                model: Any = landmarks.expansion(found, width)
            elif isinstance(rows, KernelRows):
                model = KernelExpansion.of(found, rows, width)
            else:
                model = Hyperplanes.of(found, width, rows.columns)
            known = problem.classes, problem.features, problem.multilabel
            fitted = self.concluded(as_state(found, *known, model), radius)
            sigmoids = None
            if self.calibrated:
                given, weights = (
                    (posed, found.weights)
                    if sample is None
                    else (sample.with_penalty(posed.task.penalty), None)
                )
                (scores, own), left_out = _left_out(given, weights, advance)
                fitted_maps = fitted_softmax if posed.joint else fitted_sigmoids
                sigmoids = fitted_maps(scores, own, problem.given[numbers][left_out])
        state = fitted.state._replace(calibration=sigmoids, more=more)
        return fitted._replace(state=state)

    def path(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        lambdas: ArrayLike | None,
        keep_weights: bool,
    ) -> RegularizationPath:
        problem = self._problem(X, y, sample_weight)
        posed = self._posed(problem)
        with bar("MaxMargin", None, "steps", enabled=bool(self.options.verbose)) as advance:
            chosen = _lambdas(posed.data, lambdas)
            path = follow_path(posed, chosen, advance, keep_weights=keep_weights, loo=self.loo)
        columns = getattr(posed.data, "columns", None)
        if path.coefs is None or columns is None:
            return path
        coefs = np.zeros((*path.coefs.shape[:2], problem.features.count))
        coefs[:, :, columns] = path.coefs
        return path._replace(coefs=coefs)

    def _problem(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Problem:
        options = self.options
        rows, labels, features, radius = inputs.check_fit(options, X, y, multilabel=True)
        if multilabel := labels.ndim == 2:
            check_number_of_labels(self, labels)
        given = check_weights(sample_weight, rows.shape[0])
        check_any(int(np.count_nonzero(given)))
        there = slice(None) if given.all() else given > 0.0
        classes = inputs.classes_of(labels[there])
        codes = inputs.class_codes(labels[there], classes)
        if codes.shape != labels.shape:
            counting, codes = codes, np.zeros(labels.shape, np.int32)
            codes[there] = counting
        weights = given
        if options.class_weight is not None and not multilabel:
            weights = given * weights_of_classes(options.class_weight, classes, codes, given)[codes]
        if options.soft_margin == 0.0:
            weights = (weights > 0.0).astype(float)
        return Problem(rows, codes, classes, features, radius, multilabel, weights, given)

    def _posed(self, problem: Problem) -> Posed:
        """What is to be solved; any lambda where it is to be chosen."""
        options = self.options
        task = Task(
            penalty=1.0 if options.soft_margin == "auto" else float(options.soft_margin),
            tol=float(options.tol or 0.0),
            max_iter=int(options.max_iter),
            hinge=self.loss == "hinge",
        )
        near = None
        if options.kernel == "linear":
            data: Any = self._linear(problem, self.spec.kernel.device)
        else:
            data, near = self._in_kernel(problem)
        joint = options.multiclass == "joint" and problem.one_class
        if joint:
            data = JointRows(data, problem.codes, problem.problems)
        return Posed(data, task, problem.problems, problem.one_class, near, joint)

    def _sample(self, problem: Problem, posed: Posed) -> tuple[Posed | None, Any]:
        """With a device, a sample of the rows on this machine, which leaves them out one by one.

        Returns the numbers of its rows, too.
        """
        device, chooses = self.spec.kernel.device, self.options.soft_margin == "auto"
        if device == "cpu" or not (chooses or self.calibrated):
            return None, slice(None)
        some = sample_of(problem.weights, MOST_CHOSEN)
        data: Any = posed.data
        if isinstance(data, KernelRows):
            return posed._replace(data=data.sampled(MOST_CHOSEN)), some
        products = products_on(device)
        sample = problem._replace(
            rows=products.rows_here(problem.rows, some),
            codes=problem.codes[some],
            weights=problem.weights[some],
            given=problem.given[some],
        )
        return posed._replace(data=self._linear(sample, "cpu")), some

    def _linear(self, problem: Problem, device: str) -> LinearRows:
        rows, width, columns = problem.rows, problem.rows.shape[1], None
        is_sparse, intercept = sparse.issparse(rows), bool(self.options.fit_intercept)
        passes: Any
        if device == "cpu":
            targets = inputs.as_targets(problem.codes, problem.classes.size)
            seen = as_rows(rows, Tail(float(intercept), 0.0))
            if isinstance(seen, SparseRows):
                seen, columns = with_entries(seen)
                width = seen.width
            passes = HostPasses(seen, targets, problem.weights)
        elif is_sparse:
            raise ValueError(
                "device='cuda' takes dense rows only: use device='cpu' for sparse ones."
            )
        else:
            products = products_on(device)
            here, signs = products.here, signs_of(problem.codes, problem.classes)
            given = MatrixColumns(here(rows)), here(signs), here(problem.weights)
            passes = BlockPasses(products, *given, intercept)
        return LinearRows(
            passes=passes,
            sample_weight=problem.weights,
            width=width,
            filled=rows.nnz / rows.shape[0] if is_sparse else width,
            intercept=intercept,
            radius=problem.radius,
            columns=columns,
        )

    def _in_kernel(self, problem: Problem) -> tuple[KernelRows, float | None]:
        """The rows in the space of the kernel, and a lambda that suits it, if one is known."""
        options, products = self.options, products_on(self.spec.kernel.device)
        signs = signs_of(problem.codes, problem.classes).astype(float)
        kernel, points, near = self._kernel(problem, signs, products)
        finite_diagonal(kernel, points)
        rows = KernelRows(
            kernel=kernel,
            points=points,
            products=products,
            signs=signs,
            sample_weight=problem.weights,
            intercept=bool(options.fit_intercept),
            cache_bytes=1e6 * self.spec.kernel.cache_size,
        )
        return rows, near

    def _landmarks(self, rows: KernelRows) -> int:
        """How many landmarks take the place of so many rows; 0 if the kernel is computed."""
        size, device = rows.points.size(), self.spec.kernel.device
        if self.n_landmarks is not None:
            return self.n_landmarks
        is_chosen = self.spec.kernel.kernel == "auto" and size > MOST_ROWS[device]
        return LANDMARKS if is_chosen else 0

    def _kernel(
        self, problem: Problem, signs: np.ndarray, products: Products
    ) -> tuple[Kernel, Points, float | None]:
        """The kernel, with what is chosen by leave-one-out errors, and the rows in its form."""
        spec, X = self.spec.kernel, problem.rows
        targets = RidgeLabels(signs, problem.weights, bool(self.options.fit_intercept))
        if spec.kernel == "auto":
            learned, near = automatic_kernel(X, targets, products)
            return learned, products.points(learned, X), near
        chooses = spec.gamma == "loo"
        kernel, points = kernel_for(
            *(replace(spec, gamma=1.0) if chooses else spec, X, products),
            whole=True,
            exact=True,
            sample_weight=problem.given,
        )
        if not (chooses and isinstance(kernel, RadialKernel)):
            return kernel, points, None
        gamma, near = chosen_gamma(kernel, X, targets, products)
        kernel = replace(kernel, gamma=gamma)
        return kernel, products.points(kernel, X), near

    def concluded(self, state: State, radius: float) -> Fitted:
        """The state, and a warning if the solution is not what was asked for."""
        return Fitted(state, "" if state.converged else self._complaint(state, radius))

    def learn(
        self,
        state: State | None,
        batch: Batch,
        *,
        owned: bool = False,
    ) -> Learned:
        raise ValueError("MaxMargin needs all rows at once: use fit, or an online learner.")

    def check_can_stream(self) -> None:
        raise ValueError("MaxMargin needs all rows at once: it learns from no stream.")

    def outputs(self, state: State, X: ArrayLike) -> np.ndarray:
        return outputs(self.options, state, X)

    def _complaint(self, state: State, radius: float) -> str:
        """What a user should know about a fit that did not reach what was asked for."""
        certificate = certificate_of(state)
        separable = certificate.bound > NOTHING * radius
        if self.options.soft_margin == 0.0 and not separable:
            most_apart = text_up(certificate.bound, 2)
            return (
                f"No hyperplane separates these rows by more than {most_apart}, where "
                f"the longest row has {radius:.2g}: a hard margin needs rows that can be "
                "separated. Use soft_margin > 0."
            )
        tol, steps = self.options.tol, f"{state.n_iter} step{'s' * (state.n_iter > 1)}"
        is_hinge = self.loss == "hinge" and self.options.soft_margin != 0.0
        what = "as optimum over objective" if is_hinge else "of the best margin"
        # The automatic kernel has standardized columns.
        is_scaled = self.options.kernel == "auto"
        easier = "use a larger soft_margin" if is_scaled else "center and scale the columns"
        if state.n_iter >= self.options.max_iter:
            cure = f"Increase max_iter, or {easier}"
        else:
            cure = (
                f"It stopped before max_iter={self.options.max_iter}, because rounding prevents "
                f"further progress: {easier}"
            )
        if self.options.soft_margin == 0.0 and certificate.margin <= 0.0:
            cure += ", or use soft_margin > 0 if the rows are not separable"
        return (
            f"MaxMargin certifies {text_down(certificate.ratio)} {what} after {steps}; "
            f"tol={tol} asks for 1 - {tol}. {cure}."
        )


def signs_of(codes: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """1 where a row is a positive one, else -1, of shape (rows, problems)."""
    if codes.ndim == 2:
        own = codes == 1
    else:
        own = codes[:, None] == (np.arange(classes.size) if classes.size > 2 else 1)
    return np.where(own, np.int8(1), np.int8(-1))


def as_state(
    found: Solution, classes: np.ndarray, features: Features, multilabel: bool, model: Any = None
) -> State:
    """What is known by a solution, by default of weights of features."""
    if not np.isfinite(found.weights).all():
        raise ValueError(
            "MaxMargin found weights that are not finite: scale the features, or choose a "
            "soft_margin nearer to their squares."
        )
    return State(
        Hyperplanes.of(found) if model is None else model,
        classes,
        features,
        found.margins,
        multilabel=multilabel,
        n_iter=found.n_iter,
        converged=bool(found.reached.all()),
    )


def _lambdas(data: LinearRows | KernelRows | JointRows, given: ArrayLike | None) -> np.ndarray:
    """Those of a path, in order."""
    if given is None:
        return usual_lambdas(data)
    lambdas = np.unique(np.asarray(given, dtype=float))
    if lambdas.size == 0 or not ((lambdas >= SMALLEST_XX) & (lambdas <= LARGEST_XX)).all():
        raise ValueError(
            f"lambdas must be numbers from {SMALLEST_XX:g} to {LARGEST_XX:g}, at least one, got "
            f"{given!r}."
        )
    return lambdas


def fitted_softmax(scores: np.ndarray, own: np.ndarray, weights: np.ndarray) -> Sigmoids:
    """The maps of classes that were learned together: all have one factor.

    With the total weight N, the probability of a row's class should be ``(N + 1) / (N + 2)``, as in
    Platt's method.
    """
    sure = (weights.sum() + 1.0) / (weights.sum() + 2.0)
    _, factor = scaled_log_loss(scores, own, weights, sure)
    scale = np.full(len(scores), float(np.abs(scores).mean()) or 1.0)
    return Sigmoids(0.0 * scale, factor * scale, scale)


def _left_out(
    posed: Posed, weights: np.ndarray | None, advance: Any
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Outputs of rows that are left out, which of them are positive, and the numbers of rows."""
    rows, margins = outputs_left_out(posed, weights, advance)
    if not np.isfinite(margins).all():
        raise ValueError(
            "'loo' found no leave-one-out outputs: rounding leaves no system to solve. Scale the "
            "features, or choose a larger soft_margin."
        )
    positive = posed.data.positive(rows, slice(0, posed.number))
    return (np.where(positive, margins, -margins), positive), rows


def checked_path(found: Any) -> RegularizationPath | None:
    """The path of a file; raises unless its parts fit together."""
    if found is None:
        return None
    try:
        path = RegularizationPath(**found)
    except TypeError as error:
        raise model_tree.Misfit("path: not a regularization path, or parts are missing") from error
    proved = [each for each in (path.loo_error_bounds, path.loo_loss_bounds) if each is not None]
    arrays = [path.lambdas, path.loo_error, path.loo_loss, path.margins, path.bounds, *proved]
    if not all(isinstance(each, np.ndarray) and each.dtype == float for each in arrays):
        raise model_tree.Misfit("path: lambdas are missing or not numeric")
    size = path.lambdas.size
    shapes = [(size,)] * 3 + [(size, *path.margins.shape[1:2])] * 2 + [(size, 2)] * len(proved)
    fits = size > 0 and path.margins.ndim == 2 and [each.shape for each in arrays] == shapes
    fits = fits and type(path.method) is str and type(path.n_left_out) is int
    if not fits or (path.lambdas <= 0.0).any() or np.isnan(path.loo_loss).all():
        raise model_tree.Misfit("path: its parts do not fit together")
    return path._replace(coefs=None, intercepts=None)
