"""Parameters: those that all learners share, what is allowed for them, and what docstrings say."""

from __future__ import annotations

import inspect
import re
from numbers import Integral, Real
from typing import Any, NamedTuple

from maxmargin._validation import Interval, Options, StrOptions
from maxmargin.core.loop import LARGEST_XX, SMALLEST_XX
from maxmargin.kernels.functions import KERNELS
from maxmargin.kernels.products import NARROW_TYPES


class Facts(NamedTuple):
    """What there is to know about a learner at a glance, for the table of all.

    Attributes
    ----------
    guarantee : what is reached on separable data
    updates : how many updates that takes at most
    drift : is it made for moving targets?
    paper : where it comes from
    cost : of an update, where d is the number of a row's entries
    kernel : is there a kernel version?
    certificate : does a fit come with a certificate?
    """

    guarantee: str
    updates: str
    drift: bool
    paper: str
    cost: str = "d"
    kernel: bool = True
    certificate: bool = True


# A step of PUMMA raises rounding errors to about p times their size: it still solves its equations
# to 1e-12 at this p, and to a few per cent at twice of it.
LARGEST_P = 1000.0


class Exponents(Interval):
    """The norms that p can stand for, with the reasons in the message of an error."""

    def __init__(self) -> None:
        super().__init__(Real, 2, LARGEST_P, closed="both")

    def __str__(self) -> str:
        return (
            f"{super().__str__()}, where the square of the p-norm is smooth, which the theorems "
            "need, and steps are exact up to rounding (below 2 use p=2, or PUMMA; for the infinity "
            "norm use a large p, such as 2 ln(n_features); see docs/theory.md)"
        )


# Of learners in p-norms, and of those that need no smooth norm.
P_CONSTRAINTS: list[Any] = [Exponents(), StrOptions({"log"})]
ALL_EXPONENTS = Interval(Real, 1, LARGEST_P, closed="right")
# Coordinates behind the features are as long as rows may be.
NORMS = Interval(Real, SMALLEST_XX**0.5, LARGEST_XX**0.5, closed="both")
SOFT_MARGINS: list[Any] = [
    Options(Real, {0.0}),
    Interval(Real, SMALLEST_XX, LARGEST_XX, closed="both"),
]
SHARED_CONSTRAINTS: dict[str, list[Any]] = {
    "fit_intercept": ["boolean"],
    "intercept_scaling": [NORMS, StrOptions({"max"})],
    "soft_margin": SOFT_MARGINS,
    "kernel": [StrOptions(set(KERNELS)), callable],
    "gamma": [StrOptions({"scale", "first", "auto"}), Interval(Real, 0, None, closed="neither")],
    "degree": [Interval(Integral, 1, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "cache_size": [Interval(Real, 0, None, closed="neither")],
    "kernel_dtype": [StrOptions({"auto", "float32", "float64", *NARROW_TYPES})],
    "device": [StrOptions({"cpu", "cuda"})],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
    "tol": [Interval(Real, 0, 1, closed="both"), None],
    "shuffle": ["boolean"],
    "random_state": ["random_state"],
    "warm_start": ["boolean"],
    "class_weight": [dict, StrOptions({"balanced"}), None],
    "verbose": ["verbose"],
}
# Of learners that can work on a budget.
BUDGET_CONSTRAINTS: dict[str, list[Any]] = {
    "budget": [Interval(Integral, 1, None, closed="left"), None],
    "on_full": [StrOptions({"oldest", "random", "project"})],
}

# Keywords that users of scikit-learn try, and the parameters here that do the same.
COUNTERPARTS = {
    "C": {"soft_margin": "use soft_margin = 1 / (2 C), for the C of LinearSVC"},
    "alpha": {
        "lambda_": "use lambda_, which is the alpha of SGDClassifier",
        "decay": "use decay, which is the alpha of SGDClassifier",
    },
    "eta0": {"rate": "the learning rate is called rate"},
    "probability": {"calibration": "use calibration='loo', which gives predict_proba"},
}


def counterpart(cls: Any, keyword: str) -> str:
    """What to use in place of a keyword that is not a parameter of ``cls``; "" if nothing is."""
    names = cls._parameter_constraints
    if keyword in names:
        return ""
    return next((hint for name, hint in COUNTERPARTS.get(keyword, {}).items() if name in names), "")


class SignatureOfInit:
    """Lets the signature of a class be that of its ``__init__``, although it has a ``__new__``."""

    def __get__(self, learner: Any, cls: Any) -> inspect.Signature:
        _, *parameters = inspect.signature(cls.__init__).parameters.values()
        return inspect.Signature(parameters)


def completed_docstring(cls: type) -> str | None:
    """The docstring of a learner, with what all have in common where it stands in brackets.

    ``<shared>`` stands for the parameters that all have and the attributes, ``<multiclass>`` for
    the parameter of that name where it can be "1-best", ``<budget>`` for those of a budget,
    ``<average>`` for averaged weights, and ``<scaling>`` for columns that are measured.
    """
    if not cls.__doc__:
        return cls.__doc__
    shared = SHARED_PARAMETERS.format(
        max_iter=cls.max_iter,  # type: ignore[attr-defined]
        n_iter_no_change=cls.n_iter_no_change,  # type: ignore[attr-defined]
        fit_intercept=cls.fit_intercept,  # type: ignore[attr-defined]
        kernel=f'"{cls.kernel}"',  # type: ignore[attr-defined]
        gamma=f'"{cls.gamma}"',  # type: ignore[attr-defined]
    )
    for name in SHARED_CONSTRAINTS:
        if name not in cls._parameter_constraints:  # type: ignore[attr-defined]
            shared = re.sub(rf"    {name} : (.*\n)+?(?=    \w+ : )", "", shared)
    texts = {"<average>": AVERAGE, "<multiclass>": MULTICLASS, "<budget>": BUDGET}
    texts["<shared>"] = shared
    texts["<scaling>"] = SCALING.format(default=_quoted(getattr(cls, "scaling", None)))
    completed = inspect.cleandoc(cls.__doc__)  # Python 3.13 removes what is left of it, too
    for place, text in texts.items():
        completed = completed.replace(place, text.replace("\n    ", "\n"))
    return completed


def _quoted(value: str | None) -> str:
    return f'"{value}"' if value else "None"


SCALING = """\
scaling : {{"columns"}} or None, default={default}
        With "columns", each column is divided by its largest absolute value so far, including the
        present row: the units of a column do not change predictions, up to rounding. With None,
        columns are used as they are."""

AVERAGE = """\
average : bool, default=False
        Predict with the mean of the weights over all trials, at the cost of one more vector. On
        inseparable rows it is far better than the last weights: with 5 % wrong labels, the accuracy
        is 94 instead of 86 to 89 % (Perceptron, PassiveAggressive, AMIRA, Relaxation,
        DirectionalPerceptron, NORMA on 20 000 Gaussian rows), and on Adult 84.4 instead of 81.4 to
        83.3 %. It does not help where steps shrink by themselves (ALMA). Needs p = 2, no budget and
        no pairs."""

MULTICLASS = """\
multiclass : {"ovr", "1-best"}, default="ovr"
        With more than two classes: one independent problem per class against the rest, or one
        weight vector per class, learned jointly from the lead of a row's class over its highest
        rival."""

BUDGET = """\
budget : int, default=None
        Maximum number of support vectors, with any kernel (also the linear one). Memory is
        allocated once and does not grow. The budget holds for each class if they are learned
        one-vs-rest, and for all of them if they are learned jointly. See `docs/budgets.md`.
    on_full : {"oldest", "random", "project"}, default="oldest"
        What to do when the budget is exceeded. "oldest": all coefficients shrink and the oldest
        support vector is removed, as in `Forgetron`. "random": a random one is removed. "project":
        the new row is projected onto the span of the others, as in `Projectron`."""

SHARED_PARAMETERS = """\
fit_intercept : bool, default={fit_intercept}
        Learn an intercept, by default as the weight of a constant coordinate of every row.
    intercept_scaling : float or "max", default=1.0
        The value of that coordinate, from 1e-50 to 1e50. "max" is the largest norm of the training
        rows, in `fit` only.
    soft_margin : float, default=0.0
        The lambda of the 2-norm soft margin, added to the diagonal of the Gram matrix (it equals
        ``1 / (2 C)`` for the C of the squared hinge loss). Each training row gets a coordinate of
        its own, sqrt(lambda), which makes any data separable; margins and certificates concern the
        rows with that coordinate. In `fit`, a row keeps its coordinate in every pass; `partial_fit`
        treats each row as a new one. 0, or from 1e-100 to 1e100.
    kernel : {{"linear", "poly", "rbf", "precomputed"}} or callable, default={kernel}
        As in :class:`~sklearn.svm.SVC`; "linear" learns the weights of the features. With
        "precomputed", `fit` takes the square matrix of kernel values, and predictions take the
        kernel values with all training rows. A callable takes two arrays of rows. Both must satisfy
        Mercer's condition: be symmetric and positive semidefinite. Certificates presuppose it;
        "poly" with a negative `coef0` violates it.
    gamma : {{"scale", "first", "auto"}} or float, default={gamma}
        For "poly", ``(gamma x.x' + coef0)**degree``, and "rbf", ``exp(-gamma |x - x'|**2)``. "auto"
        is ``1 / n_features``; "scale" divides that by the variance of X, in `fit` only; "first",
        which works on streams, divides it by ``(n_features v + 1) / (n_features + 1)`` for the
        variance v of the first row's values (1 if they are all equal).
    degree : int, default=3
        For "poly".
    coef0 : float, default=0.0
        For "poly".
    cache_size : float, default=200.0
        Maximum memory for kernel values in `fit`, in MB.
    kernel_dtype : {{"auto", "float32", "float64", "tf32", "bfloat16"}}, default="auto"
        Precision of kernel values; coefficients and outputs are float64. "auto" is float32 for
        float32 rows and from 5000 training rows on. That rounds kernel values by about 1e-7 of the
        largest, which may decide borderline updates. On a GPU, "tf32" and "bfloat16" round rows to
        11 and 8 bits, for speed.
    device : {{"cpu", "cuda"}}, default="cpu"
        Where kernel values are computed. "cuda" needs a GPU and CuPy, a kernel other than "linear"
        (except on a budget), and dense rows; CuPy arrays stay on the device. A model can be moved
        from one device to the other.
    max_iter : int, default={max_iter}
        Maximum number of passes over the data in `fit`; 1 is one plain pass.
    n_iter_no_change : int, default={n_iter_no_change}
        Stop `fit` early if the second half of its passes makes hardly fewer mistakes (by less than
        a fifth) than the first half, as happens on inseparable rows. This is the minimum number of
        passes in each half, which has at least 100 000 rows. A warning reports what was proved: see
        `docs/noisy.md`. None disables the rule: on separable rows, `fit` converges, given enough
        `max_iter`.
    tol : float, default=None
        Stop `fit` as soon as the margin is certified to be at least ``1 - tol`` of the best
        possible one.
    shuffle : bool, default=True
        Shuffle the rows before each pass of `fit`.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling.
    warm_start : bool, default=False
        Start `fit` from the weights of the last fit.
    class_weight : dict or "balanced", default=None
        Class weights by label; "balanced" gives all classes the same total weight, on a stream that
        of the rows so far. They multiply sample weights. The effect of a weight s is described in
        `docs/weights.md`: with a soft margin, lambda becomes ``lambda / s``; without one, a step is
        that of the row repeated s times. Learners whose steps do not depend on weights refuse them.
    verbose : int, default=0
        Show a progress bar during `fit`, on a terminal.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights; one row for two classes, one row per class for more. Only with the linear kernel.
    support_, support_vectors_, dual_coef_
        With another kernel: the indices of the support vectors, the support vectors, and their
        coefficients, one line per problem.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    classes_ : ndarray of shape (n_classes,)
        The labels; for two classes the second is the positive one.
    certificate_ : Certificate
        The margin attained on the training data, and a proved bound on the best possible one.
    n_iter_ : int
        Number of passes of the last `fit`.
    n_updates_, n_mistakes_ : int
        Number of updates (of all problems together) and mistakes made while learning.
    converged_ : bool
        Whether `fit` ended with a pass without updates, or with the certificate that `tol` asks
        for.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    columns_ : dict
        Columns of the features that were named in dicts (see `learn_one`)."""
