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
    "n_jobs": [
        None,
        Interval(Integral, 1, None, closed="left"),
        Interval(Integral, None, -1, closed="right"),
    ],
    "verbose": ["verbose"],
    "calibration": [StrOptions({"online"}), None],
    "coverage": [Interval(Real, 0, 1, closed="neither"), None],
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
    "probability": {
        "calibration": "use calibration='online' ('loo' for MaxMargin), which gives predict_proba"
    },
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
        With "columns", each column is measured by its largest absolute value so far, the present
        row included: a column in other units then gives the same predictions, up to rounding. With
        None columns are taken as they are."""

AVERAGE = """\
average : bool, default=False
        Predict by the mean of the weights over all trials, at the cost of one more vector. On rows
        that cannot be separated it is far better than any weights on the way: with 5 % of wrong
        labels 94 instead of 86 to 89 % right (Perceptron, PassiveAggressive, AMIRA, Relaxation,
        DirectionalPerceptron, NORMA on 20 000 Gaussian rows), on Adult 84.4 instead of 81.4 to
        83.3. It is no better where steps shrink by themselves (ALMA). With p = 2, without a budget
        and without pairs."""

MULTICLASS = """\
multiclass : {"ovr", "1-best"}, default="ovr"
        With more than two classes: one independent problem per class against the rest, or one
        weight vector per class, all learned together from the lead of a row's class over its
        highest rival."""

BUDGET = """\
budget : int, default=None
        How many rows are kept at most, in a kernel's space (also that of the linear kernel).
        Memory is then allocated once and does not grow. Several classes have so many rows each
        where they are learned one-vs-rest, and in all where they are learned together. See
        `docs/budgets.md`.
    on_full : {"oldest", "random", "project"}, default="oldest"
        What happens to a row that is one too many. "oldest": all coefficients shrink and the oldest
        row is forgotten, as in `Forgetron`. "random": any row is forgotten. "project": the row is
        projected onto the span of those that are kept, as in `Projectron`."""

SHARED_PARAMETERS = """\
fit_intercept : bool, default={fit_intercept}
        Learn an intercept, unless said otherwise as the weight of one more coordinate that every
        example has.
    intercept_scaling : float or "max", default=1.0
        The value of that coordinate, from 1e-50 to 1e50. "max" takes the largest norm of the
        training rows, in `fit` only.
    soft_margin : float, default=0.0
        The lambda of the 2-norm soft margin, added to the diagonal of the Gram matrix (it is
        ``1 / (2 C)`` for the C of the squared hinge loss). Each training row gets a coordinate of
        its own, sqrt(lambda), which makes any data separable; margins and certificates are about
        the rows with that coordinate. In `fit` a row stays itself in every pass; `partial_fit`
        takes each row for a new one. 0, or from 1e-100 to 1e100.
    kernel : {{"linear", "poly", "rbf", "precomputed"}} or callable, default={kernel}
        As in :class:`~sklearn.svm.SVC`; "linear" learns weights for the features themselves. With
        "precomputed", `fit` takes the square matrix of kernel values, and predictions take those
        with all training rows. A callable gets two arrays of rows. Both must satisfy Mercer's
        condition: be symmetric, and positive semidefinite. Certificates presuppose it, and so they
        do of "poly" with a negative `coef0`, which violates it.
    gamma : {{"scale", "first", "auto"}} or float, default={gamma}
        For "poly", ``(gamma x.x' + coef0)**degree``, and "rbf", ``exp(-gamma |x - x'|**2)``. "auto"
        is ``1 / n_features``; "scale" divides that by the variance of X, in `fit` only; "first"
        divides it by the variance v of the first row's values (1 if they are all the same), as
        ``(n_features v + 1) / (n_features + 1)``, which a stream has, too.
    degree : int, default=3
        For "poly".
    coef0 : float, default=0.0
        For "poly".
    cache_size : float, default=200.0
        The most memory for kernel values that `fit` keeps, in MB.
    kernel_dtype : {{"auto", "float32", "float64", "tf32", "bfloat16"}}, default="auto"
        How kernel values are computed; coefficients and outputs are float64. "auto" is float32 for
        float32 rows and from 5000 training rows on. That rounds kernel values by some 1e-7 of the
        largest, so an update that is nearly due may come or not. On a GPU "tf32" and "bfloat16"
        round rows to 11 and 8 bits, for speed.
    device : {{"cpu", "cuda"}}, default="cpu"
        Where kernel values are computed. "cuda" needs a GPU and CuPy, another kernel than "linear"
        (but on a budget), and dense rows; arrays of CuPy stay where they are. What was learned on
        one device can go on on the other; where there is nothing to compute on it, `fit` refuses
        it, and a fitted learner to be told of it.
    max_iter : int, default={max_iter}
        Passes over the data that `fit` makes at most; 1 is one plain pass.
    n_iter_no_change : int, default={n_iter_no_change}
        Let `fit` give up when the second half of its passes makes hardly fewer mistakes (by less
        than a fifth) than the first half, as it is on rows that cannot be separated. This is the
        least number of passes in each half; each has 100 000 rows at least. A warning says what was
        proved: see `docs/noisy.md`. With None it never gives up: on separable rows it ends by
        itself, given enough `max_iter`.
    tol : float, default=None
        Stop `fit` as soon as the margin is certified to be at least ``1 - tol`` of the best
        possible one.
    shuffle : bool, default=True
        Present the rows in a new random order in each pass of `fit`.
    random_state : int, RandomState instance or None, default=None
        Determines the orders.
    warm_start : bool, default=False
        Let `fit` start from the weights of the last fit.
    class_weight : dict or "balanced", default=None
        How often rows of each class count, by its label; "balanced" gives all classes the same
        total, in a stream by the rows so far. Weights of rows are multiplied by it. What a weight
        means is in `docs/weights.md`: with a soft margin lambda, that of a row of weight s is
        ``lambda / s``; without, its step is that of the row s times. A learner whose steps do not
        depend on weights refuses it.
    n_jobs : int, default=None
        On how many threads `fit` learns the problems of several classes, one-vs-rest, or of several
        labels, with the linear kernel and without a budget or calibration. None is 1, unless a
        :obj:`joblib.parallel_config` says otherwise, and -1 is all processors. The model is the
        same, to the bit.
    verbose : int, default=0
        Show a progress bar during `fit`, if on a terminal.
    calibration : {{"online"}}, default=None
        With "online" there are probabilities, `predict_proba`: a sigmoid of the score, learned
        from the scores that rows had before they were learned from. No row is held out. It is for
        streams, and for `fit` with ``max_iter=1``: see `docs/probabilities.md`.
    coverage : float, default=None
        The share of rows whose label is to be in its prediction set, such as 0.9: then there is
        `predict_set`. The share is kept on any stream, drift included, up to a bound that is
        proved (`coverage_`). For streams, and for `fit` with ``max_iter=1``: see
        `docs/guarantees.md`.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights; one row for two classes, one row per class for more. Only with the linear kernel.
    support_, support_vectors_, dual_coef_
        With another kernel: the numbers of the rows that count, these rows, and their coefficients,
        one line for each problem.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.
    classes_ : ndarray of shape (n_classes,)
        The labels; for two classes the second is the positive one.
    certificate_ : Certificate
        The margin reached on the training data, and a proved bound on the best possible one.
    n_iter_ : int
        Passes made by the last `fit`.
    n_updates_, n_mistakes_ : int
        Updates (of all problems together) and mistakes made while learning.
    converged_ : bool
        Did `fit` end with a pass without an update, or with the certificate that `tol` asks for?
    n_features_in_, feature_names_in_
        As in scikit-learn.
    coverage_ : Coverage
        With `coverage`: the target, the share of rows so far whose label was in its set, and the
        proved bound on their distance.
    columns_ : dict
        The columns of features that came by their names, in dicts (see `learn_one`)."""
