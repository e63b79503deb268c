"""The scikit-learn shell that all learners share."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from maxmargin import examples
from maxmargin.assembly import Model, assemble, radius_of
from maxmargin.certificates import Certificate
from maxmargin.core.loop import NO_NOTES
from maxmargin.core.rows import Tail
from maxmargin.facts import Facts
from maxmargin.growing import check_wider_X, grow_model
from maxmargin.guard import keeps_state_on_error
from maxmargin.handover import packed, unpacked
from maxmargin.keepers import Keeper, new_keeper
from maxmargin.kernelmodel import KernelModel
from maxmargin.kernels import KERNELS
from maxmargin.onerow import as_matrix, learn_with_care, prepared
from maxmargin.passes import run_passes
from maxmargin.shareddocs import BUDGET, MULTICLASS, SHARED_PARAMETERS
from maxmargin.spaces.pnorm import exponent_for
from maxmargin.streamable import Streamable
from maxmargin.structure import check_stream_can_start, check_structure, structure_of


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineClassifier(Streamable, ClassifierMixin, BaseEstimator):
    """Base of all learners: a rule, plus this shell.

    A subclass is a dataclass whose fields are its hyper-parameters; it defines ``_rule`` and
    ``_parameter_constraints``. In its docstring, ``<shared>`` stands for the parameters below and
    the attributes, ``<multiclass>`` for the parameter of that name where it can be "1-best".
    """

    fit_intercept: bool = True
    intercept_scaling: float | str = 1.0
    soft_margin: float = 0.0
    kernel: Any = "linear"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    cache_size: float = 200.0
    kernel_dtype: str = "auto"
    max_iter: int = 1000
    tol: float | None = None
    shuffle: bool = True
    random_state: Any = None
    warm_start: bool = False
    verbose: int = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither"), StrOptions({"max"})],
        "soft_margin": [Interval(Real, 0, None, closed="left")],
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "kernel_dtype": [StrOptions({"auto", "float32", "float64"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, 1, closed="both"), None],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
    }
    facts: ClassVar[Facts]
    # Does a pass without an update mean that there will never be one again?
    _settles: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__doc__:
            shared = SHARED_PARAMETERS.format(
                max_iter=cls.max_iter,
                fit_intercept=cls.fit_intercept,
                kernel=f'"{cls.kernel}"',
                gamma=f'"{cls.gamma}"',
            )
            if "intercept_scaling" not in cls._parameter_constraints:
                shared = re.sub(r"    intercept_scaling : (.*\n)+?(?=    \w+ : )", "", shared)
            cls.__doc__ = cls.__doc__.replace("<multiclass>", MULTICLASS)
            cls.__doc__ = cls.__doc__.replace("<budget>", BUDGET)
            cls.__doc__ = cls.__doc__.replace("<shared>", shared)

    def _rule(self) -> Any:
        """The rule for the present hyper-parameters."""
        raise AttributeError(f"{type(self).__name__} does not define a rule")

    def _exponent(self) -> float:
        """The parameter `p` as a number, for learners that have it."""
        if self._is_fitted():
            return self._model.p
        p = getattr(self, "p", 2.0)
        return exponent_for(p, self.n_features_in_) if p == "log" else float(p)

    def _in_pairs(self) -> bool:
        """Is the intercept learnt from pairs of examples?"""
        return False

    def _smallest_coefficient(self) -> float:
        """Supports with smaller coefficients are dropped."""
        return 0.0

    def _keeper(self) -> Keeper | None:
        """What to do when all that a budget allows is stored; None for no limit."""
        if getattr(self, "budget", None) is None:
            return None
        return new_keeper(self.on_full, self.random_state)

    def _new_model(self, X: Any, problems: int, private: int, tail: Tail, whole: bool) -> Model:
        """The model at w = 0 that the rule works on."""
        return assemble(
            self,
            X,
            problems,
            private,
            tail,
            in_pairs=self._in_pairs(),
            smallest=self._smallest_coefficient(),
            whole=whole,
        )

    # ------------------------------------------------------------------------------------ learning
    @keeps_state_on_error
    def fit(self, X: Any, y: Any) -> Any:
        """Learn from ``X``, ``y`` until nothing is left to learn, or for `max_iter` passes.

        Ctrl-C ends the fit after the rows in work; the model keeps what it has learnt so far.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            float32 and float64 are read in place.
        y : array of shape (n_samples,)
            Class labels, at least two different ones.

        Returns
        -------
        self
        """
        self._check_parameters()
        X = examples.check_X(self, X, reset=True)
        y = examples.check_y(y, X.shape[0])
        examples.check_labels(y)
        radius = examples.check_values(X)
        classes = examples.classes_of(y)
        private = X.shape[0] if self.soft_margin > 0.0 else 0
        if self.intercept_scaling == "max":
            radius = radius_of(self, X)
        self._half_done = True  # until there is a model that works
        if not self.warm_start:
            self.__dict__.pop("columns_", None)
        self._start(classes, X, private, radius, keep=self.warm_start)
        rows: Any = self._model.rows(X)
        self._model.begin_fit(rows)
        if self.max_iter > 1:
            # Something to say where too few updates were made to prove more.
            self._ceiling = 1.000001 * self._model.largest_margin(radius)
        targets = self._targets(examples.class_numbers(y, classes))
        self._run_passes(rows, targets, X.size)
        return self

    @keeps_state_on_error
    def partial_fit(self, X: Any, y: Any, classes: Any = None, *, grow: bool = False) -> Any:
        """Learn from each row of ``X``, ``y`` once, in the order given.

        Any way of cutting a stream into calls gives the same model, to the bit.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        classes : array of shape (n_classes,), default=None
            All labels that can occur; needed in the first call.
        grow : bool, default=False
            Accept columns that were not there before, whose weights start at 0, and, if the first
            call was made with it, labels that were not known before. One more weight vector, of a
            class that never occurs, is then learnt along, and a new class continues it: so the
            model is the one that would have known all columns and classes from the start. Several
            classes must be learnt one-vs-rest.

        Returns
        -------
        self
        """
        self._learn_in_order(X, y, classes, grow=grow)
        return self

    def learn_one(self, x: Any, y: Any, *, classes: Any = None, grow: bool = False) -> Any:
        """Learn from a single row, as `partial_fit` would, in a few microseconds.

        Parameters
        ----------
        x : dict, pair (indices, values), or array of shape (n_features,)
            The names in dicts get columns in the order in which they appear (`columns_`), and new
            names new ones. With a kernel, or averaged weights, this is `partial_fit`.
        y : label
        classes : array of shape (n_classes,), default=None
            All labels that can occur; needed in the first call, unless ``grow`` is set.
        grow : bool, default=False
            Accept new labels, see `partial_fit`.

        Returns
        -------
        self
        """
        one = self.__dict__.get("_one_row")
        if grow or one is None or not one.is_of(self) or not one.learn(x, y):
            self._learn_with_care(x, y, classes, grow)
        return self

    @keeps_state_on_error
    def _learn_with_care(self, x: Any, y: Any, classes: Any, grow: bool) -> None:
        self._check_parameters()
        learn_with_care(self, x, y, classes, grow)

    def predict_one(self, x: Any) -> Any:
        """The class of a single row, as `learn_one` takes it; names without columns count as 0."""
        one = self.__dict__.get("_one_row")
        if one is None or not one.is_of(self):
            check_is_fitted(self)
            one = prepared(self)
            if one is None:
                examples.check_values(row := as_matrix(self, x, first=False))
                return self._classes_for(self._scores(row)).tolist()[0]
        return one.predict(x)

    @keeps_state_on_error
    def _foretell(self, X: Any, y: Any, order: np.ndarray, classes: Any = None) -> np.ndarray:
        """Learn from the rows ``order``; the journal of `core.loop.Notes`, line by line.

        As in `core.loop.learn`, a row i that stands there as ``-1 - i`` is only looked at.
        """
        return self._learn_in_order(X, y, classes, order=order, foretell=True)

    def _learn_in_order(
        self,
        X: Any,
        y: Any,
        classes: Any,
        *,
        grow: bool = False,
        order: np.ndarray | None = None,
        foretell: bool = False,
    ) -> np.ndarray:
        self._check_parameters()
        first = not self._is_fitted()
        before = None if first else self.classes_
        X = check_wider_X(self, X) if grow and not first else examples.check_X(self, X, reset=first)
        y = examples.check_y(y, X.shape[0])
        if first:
            check_stream_can_start(self)
        else:
            self._fitted_model()
            check_structure(self)
        if grow:
            known = examples.more_classes(classes, before, y)
        else:
            known = examples.known_classes(classes, before)
        numbers = examples.class_numbers(y, known)
        examples.check_values(X)
        if first:
            self._start(known, X, private=0, radius=None, keep=False, spare=grow)
        else:
            grow_model(self, X.shape[1], known)
        model, targets = self._model, self._targets(numbers)
        model.begin_stream()
        rows: Any = model.rows(X)
        if order is None:
            order = np.arange(X.shape[0], dtype=np.int32)
        journal = np.empty((order.size, model.problems() + 1)) if foretell else NO_NOTES.journal
        model.present(rows, targets, order, self._rule(), NO_NOTES._replace(journal=journal))
        self._margins = np.full(model.verdicts(), np.nan)
        return journal

    def _check_parameters(self) -> None:
        """Validate the hyper-parameters, unless they are those of the last time."""
        values = [getattr(self, name) for name in self._parameter_constraints]
        if values != self.__dict__.get("_checked_parameters"):
            self._validate_params()
            self._checked_parameters = values

    def _targets(self, numbers: np.ndarray) -> examples.Targets:
        return examples.as_targets(numbers, self.classes_.size, self._spare)

    def _shown(self) -> slice:
        """The problems that users see."""
        if not self._spare:
            return slice(None)
        return slice(1, 2) if self.classes_.size == 2 else slice(0, self.classes_.size)

    def _start(
        self,
        classes: np.ndarray,
        X: Any,
        private: int,
        radius: float | None,
        keep: bool,
        spare: bool = False,
    ) -> None:
        """Set the state to w = 0, or keep the one there is; a stream has no radius.

        With a ``spare`` problem there is one of a class that never occurs.
        """
        self._ceiling = np.inf
        if keep and self._is_fitted():
            check_structure(self)
            old = self._fitted_model()
            before = self.classes_.tolist(), old.width(), old.private_coordinates()
            if self.kernel != "linear":
                private = 0  # the soft margin is part of the kernel
            if before != (now := (classes.tolist(), X.shape[1], private)):
                raise ValueError(
                    "warm_start needs the classes, the number of features and, with a soft margin, "
                    f"the number of rows of the last fit: {before}, got {now}."
                )
            # A copy: the old one stays whole if something fails.
            self._model: Model = copy.deepcopy(self._fitted_model())
            self._model.begin_again()
            return
        offset = 0.0
        if self.fit_intercept:
            scaling = self.intercept_scaling
            offset = (radius or 1.0) if scaling == "max" else float(scaling)
        tail = Tail(offset, float(np.sqrt(self.soft_margin)))
        problems = 1 if classes.size == 2 else classes.size
        if spare:
            problems = classes.size + 1
        self._spare = spare
        self.classes_: np.ndarray = classes
        self.n_iter_ = 0
        self.converged_ = False
        self._model = self._new_model(X, problems, private, tail, whole=radius is not None)
        self._structure = structure_of(self)

    def _run_passes(self, rows: Any, targets: Any, size: int) -> None:
        run_passes(self, rows, targets, size)

    def _measure(self, rows: Any, targets: Any) -> None:
        self._margins = self._model.margins(rows, targets)

    # --------------------------------------------------------------------------------- predicting
    def decision_function(self, X: Any) -> np.ndarray:
        """``w.x + b`` for each row; of shape (n_samples,) for two classes, else one column each."""
        check_is_fitted(self)
        X = examples.without_names(self, X)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        return self._scores(X)

    def _scores(self, X: Any) -> np.ndarray:
        examples.check_columns(X)
        scores = self._fitted_model().outputs(X)[:, self._shown()]
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row; a score of exactly 0 counts as positive."""
        return self._classes_for(self.decision_function(X))

    def _classes_for(self, scores: np.ndarray) -> np.ndarray:
        if self.classes_.size == 1:
            return np.repeat(self.classes_, scores.size)
        numbers = (scores >= 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[numbers]

    # ------------------------------------------------------------------------------ what was learnt
    @property
    def coef_(self) -> np.ndarray:
        return self._fitted_model().coefficients()[self._shown()]

    @property
    def intercept_(self) -> np.ndarray:
        return self._fitted_model().intercepts()[self._shown()]

    @property
    def support_(self) -> np.ndarray:
        return self._kernel_model().numbers

    @property
    def support_vectors_(self) -> Any:
        return self._kernel_model().support_rows()

    @property
    def dual_coef_(self) -> np.ndarray:
        return self._kernel_model().weights()[self._shown()]

    def _kernel_model(self) -> KernelModel:
        model = self._fitted_model()
        if not isinstance(model, KernelModel):
            raise AttributeError("There are supports only with a kernel; see coef_.")
        return model

    @property
    def n_updates_(self) -> int:
        return self._fitted_model().updates()

    @property
    def n_mistakes_(self) -> int:
        return int(self._fitted_model().tally.mistakes[0])

    @property
    def certificate_(self) -> Certificate:
        bounds, shown = self._fitted_model().bounds(), self._shown()
        bounds = np.where(bounds < np.inf, bounds, self._ceiling)
        return Certificate.weakest(self._margins[shown], bounds[shown])

    def _fitted_model(self) -> Model:
        if not self._is_fitted():
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet.")
        columns = self.__dict__.get("columns_")
        if columns is not None and self._model.width() > len(columns):  # room for more names
            grow_model(self, len(columns), self.classes_)
        return self._model

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in self._parameter_constraints:
            self.__dict__.pop("_one_row", None)  # it was made for other parameters

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return packed({name: value for name, value in state.items() if name != "_one_row"})

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(unpacked(state))

    def _is_fitted(self) -> bool:
        return "_model" in self.__dict__

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_fitted()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
