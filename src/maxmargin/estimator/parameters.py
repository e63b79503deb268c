"""Groups of parameters, what is allowed for them, and what docstrings say about them."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

from maxmargin._validation import Interval, Options, StrOptions
from maxmargin.core.loop import LARGEST_XX, SMALLEST_XX
from maxmargin.kernels.functions import KERNELS


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


# Of learners that need no smooth norm.
ALL_EXPONENTS = Interval(Real, 1, LARGEST_P, closed="right")
# Coordinates behind the features are as long as rows may be.
NORMS = Interval(Real, SMALLEST_XX**0.5, LARGEST_XX**0.5, closed="both")
SOFT_MARGINS: list[Any] = [
    Options(Real, {0.0}),
    Interval(Real, SMALLEST_XX, LARGEST_XX, closed="both"),
]

ATTRIBUTES = """
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


def completed_docstring(cls: type) -> str | None:
    """The docstring of a learner, where ``<shared>`` stands for what its bases document.

    These are all parameters of its bases that it does not describe itself, with its own defaults,
    and the attributes that learners have in common.
    """
    if not cls.__doc__ or "<shared>" not in cls.__doc__:
        return cls.__doc__
    completed = inspect.cleandoc(cls.__doc__)  # Python 3.13 removes what is left of it, too
    known, shared = set(_entries(completed)), []
    for base in cls.__mro__[1:]:
        for name, text in _entries(inspect.cleandoc(base.__doc__ or "")).items():
            if name not in known:
                known.add(name)
                value = getattr(cls, name)
                default = f'"{value}"' if isinstance(value, str) else repr(value)
                shared.append(re.sub("default=.*", f"default={default}", text, count=1))
    return completed.replace("<shared>", "".join(shared) + ATTRIBUTES)


def _entries(docstring: str) -> dict[str, str]:
    """The texts of the parameters in a docstring, by name."""
    _, _, section = docstring.partition("Parameters\n----------\n")
    section = re.split(r"^\w+\n-+\n|^<shared>|\Z", section, maxsplit=1, flags=re.MULTILINE)[0]
    entries = re.split(r"^(\w+)(?= : )", section.rstrip() + "\n", flags=re.MULTILINE)
    return {name: name + text for name, text in zip(entries[1::2], entries[2::2], strict=True)}


class ParameterGroup:
    """Base of groups of parameters that learners combine: fields, constraints and documentation."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = (vars(base).get("_parameter_constraints", {}) for base in reversed(cls.__mro__))
        cls._parameter_constraints = {k: v for each in own for k, v in each.items()}
        cls.__doc__ = completed_docstring(cls)


@dataclass(eq=False, repr=False, kw_only=True)
class ScaledIntercept(ParameterGroup):
    """The intercept is the weight of a coordinate of this size.

    Parameters
    ----------
    intercept_scaling : float or "max", default=1.0
        The value of the coordinate whose weight is the intercept, from 1e-50 to 1e50. "max" is the
        largest norm of the training rows, in `fit` only.
    """

    intercept_scaling: float | str = 1.0

    _parameter_constraints = {"intercept_scaling": [NORMS, StrOptions({"max"})]}


@dataclass(eq=False, repr=False, kw_only=True)
class Kernels(ParameterGroup):
    """Weights of the features, or of supports in a kernel's space.

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "laplacian", "precomputed"} or callable, default="linear"
        As in :class:`~sklearn.svm.SVC`; "linear" learns the weights of the features. With
        "precomputed", `fit` takes the square matrix of kernel values, and predictions take the
        kernel values with all training rows. A callable takes two arrays of rows. Both must satisfy
        Mercer's condition: be symmetric and positive semidefinite. Certificates presuppose it;
        "poly" with a negative `coef0` violates it.
    gamma : {"scale", "first", "auto"} or float, default="scale"
        For "poly", ``(gamma x.x' + coef0)**degree``, "rbf", ``exp(-gamma |x - x'|**2)``, and
        "laplacian", ``exp(-gamma sum_j |x_j - x'_j|)``. "auto" is ``1 / n_features``; "scale"
        divides that by the variance of X, in `fit` only; "first", which works on streams, divides
        it by ``(n_features v + 1) / (n_features + 1)`` for the variance v of the first row's values
        (1 if they are all equal).
    degree : int, default=3
        For "poly".
    coef0 : float, default=0.0
        For "poly".
    cache_size : float, default=200.0
        Maximum memory for kernel values in `fit`, in MB.
    device : {"cpu", "cuda"}, default="cpu"
        Where kernel values are computed. "cuda" needs a GPU and CuPy, a kernel other than "linear"
        (except on a budget), and dense rows; CuPy arrays stay on the device. ``set_params``
        moves a model from one device to the other.
    """

    kernel: Any = "linear"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    cache_size: float = 200.0
    device: str = "cpu"

    _parameter_constraints = {
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [
            StrOptions({"scale", "first", "auto"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "device": [StrOptions({"cpu", "cuda"})],
    }


@dataclass(eq=False, repr=False, kw_only=True)
class Patience(ParameterGroup):
    """`fit` stops early on rows that cannot be separated.

    Parameters
    ----------
    n_iter_no_change : int, default=5
        Stop `fit` early if the second half of its passes makes hardly fewer mistakes (by less than
        a fifth) than the first half, as happens on inseparable rows. This is the minimum number of
        passes in each half, which has at least 100 000 rows. A warning reports what was proved: see
        `docs/noisy.md`. None disables the rule: on separable rows, `fit` converges, given enough
        `max_iter`.
    """

    n_iter_no_change: int | None = 5

    _parameter_constraints = {
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None]
    }


@dataclass(eq=False, repr=False, kw_only=True)
class Averaged(ParameterGroup):
    """Predictions by averaged weights.

    Parameters
    ----------
    average : bool, default=False
        Predict with the mean of the weights over all trials, at the cost of one more vector. On
        inseparable rows it is far better than the last weights: with 5 % wrong labels, the accuracy
        is 94 instead of 86 to 89 % (Perceptron, PassiveAggressive, AMIRA, Relaxation,
        DirectionalPerceptron, NORMA on 20 000 Gaussian rows), and on Adult 84.4 instead of 81.4 to
        83.3 %. It does not help where steps shrink by themselves (ALMA). Needs p = 2, no budget and
        no pairs.
    """

    average: bool = False

    _parameter_constraints = {"average": ["boolean"]}


@dataclass(eq=False, repr=False, kw_only=True)
class SmoothNorms(ParameterGroup):
    """Rows are measured in a p-norm.

    Parameters
    ----------
    p : float or "log", default=2.0
        The norm in which examples are measured, 2 to 1000. Large p suits targets that depend on
        few of many features; "log" is 2 ln(n_features), to the nearest quarter.
    """

    p: float | str = 2.0

    _parameter_constraints = {"p": [Exponents(), StrOptions({"log"})]}


@dataclass(eq=False, repr=False, kw_only=True)
class MulticlassChoice(ParameterGroup):
    """Several classes can be learned jointly.

    Parameters
    ----------
    multiclass : {"ovr", "1-best"}, default="ovr"
        With more than two classes: one independent problem per class against the rest, or one
        weight vector per class, learned jointly from the lead of a row's class over its highest
        rival.
    """

    multiclass: str = "ovr"

    _parameter_constraints = {"multiclass": [StrOptions({"ovr", "1-best"})]}


@dataclass(eq=False, repr=False, kw_only=True)
class Budgeted(ParameterGroup):
    """Memory for supports can be limited.

    Parameters
    ----------
    budget : int, default=None
        Maximum number of support vectors, with any kernel (also the linear one). Memory is
        allocated once and does not grow. The budget holds for each class: with it, several classes
        are always learned one-vs-rest. See `docs/budgets.md`.
    on_full : {"oldest", "random", "project"}, default="oldest"
        What to do when the budget is exceeded. "oldest": all coefficients shrink and the oldest
        support vector is removed, as in `Forgetron`. "random": a random one is removed. "project":
        the new row is projected onto the span of the others, as in `Projectron`.
    """

    budget: int | None = None
    on_full: str = "oldest"

    _parameter_constraints = {
        "budget": [Interval(Integral, 1, None, closed="left"), None],
        "on_full": [StrOptions({"oldest", "random", "project"})],
    }


@dataclass(eq=False, repr=False, kw_only=True)
class ColumnScaling(ParameterGroup):
    """Columns can be measured by their largest values.

    Parameters
    ----------
    scaling : {"columns"} or None, default="columns"
        With "columns", each column is divided by its largest absolute value so far, including the
        current row: the units of a column do not change predictions, up to rounding. With None,
        columns are used as they are.
    """

    scaling: str | None = "columns"

    _parameter_constraints = {"scaling": [StrOptions({"columns"}), None]}
