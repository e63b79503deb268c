"""The scikit-learn shell that all online learners share."""

from __future__ import annotations

import abc
import warnings
from collections.abc import Hashable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._extras import Self
from maxmargin._interrupts import uninterrupted
from maxmargin._validation import Interval, StrOptions
from maxmargin.estimator import serialization
from maxmargin.estimator.learner import Predicting, Streamable, as_scores, if_calibrated
from maxmargin.estimator.parameters import SOFT_MARGINS, Facts, Kernels, ParameterGroup
from maxmargin.models.base import OnlineModel
from maxmargin.models.kernel_model import on_device
from maxmargin.models.spec import (
    BudgetSpec,
    ExpansionSpec,
    KernelSpec,
    LinearSpec,
    ModelSpec,
    WeightsSpec,
    filled,
)
from maxmargin.training.one_row import OneRow, fast_route_for
from maxmargin.training.online import (
    OnlineTrainer,
    default_label,
    outputs_of_one,
    score_then_learn,
)
from maxmargin.training.passes import FitPlan, Outcome, run_passes, warn_of
from maxmargin.training.protocol import SHARED, Batch, Options
from maxmargin.training.recipes import learned_along
from maxmargin.training.row_reading import (
    Row,
    are_dicts,
    named_features,
    warning_of_names,
    warning_of_recipe,
)
from maxmargin.training.sample_weights import unused_class_weight
from maxmargin.training.state import Columns, Rows, Rule, State, Targets, Tree


class Incremental(Predicting):
    """A learner with `partial_fit`, `learn_one`, `predict_one` and the like."""

    _one_row: OneRow | None = None
    _has_warned = False  # of a row without known columns

    @abc.abstractmethod
    def __trainer__(self) -> OnlineTrainer:
        """The trainer, which learns by a rule."""

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        grow: bool = False,
    ) -> Self:
        """Learn from each row of ``X``, ``y`` once, in the given order.

        The model does not depend on how a stream is split into calls.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        classes : array of shape (n_classes,), default=None
            All possible labels; required in the first call.
        sample_weight : array of shape (n_samples,), default=None
            Sample weights, see `docs/weights.md`; rows of weight 0 are ignored. By default all
            are 1.
        grow : bool, default=False
            Accept new columns, whose weights start at 0, and, if the first call was made with it,
            new labels. One spare weight vector, that of a class which never occurs, is then learned
            as well, and a new class starts from it: the model is the one that would have known all
            columns and classes from the start. Multiclass problems must be one-vs-rest.

        Returns
        -------
        self
        """
        is_usual = classes is None and sample_weight is None and not grow
        if not (is_usual and self._learn_plain_row(X, y)):
            self._learn_rows(Batch(X, y, classes, sample_weight, grow=grow))
        return self

    def _learn_rows(self, batch: Batch) -> None:
        before = state = self.__state__()
        X: Any = batch.X
        features = None
        if state is not None and state.recipe is not None:
            if batch.grow and are_dicts(X):
                self._warn_once(warning_of_recipe({name for row in X for name in row}, state))
            state, features, X = learned_along(state, X, batch.weight)
        self.check_parameters()
        state = self.__trainer__().learn(state, batch._replace(X=X)).state
        self._state = state if features is None else state._replace(features=features)
        if self._state is before and np.shape(X)[0] == 1:
            self._prepare_for_rows()  # rows seem to come one by one

    def score_then_learn(
        self,
        X: ArrayLike,
        y: ArrayLike,
        order: np.ndarray,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """`partial_fit` with the rows ``order``, which returns their scores before learning.

        Parameters
        ----------
        X, y, classes, sample_weight
            As in `partial_fit`; rows may also be a list of dicts, as in `learn_one`.
        order
            As in `training.protocol.Batch`.

        Returns
        -------
        outputs : ndarray of shape (n_places, n_outputs)
            The scores of each row of the order, before it was learned.
        updates : ndarray of shape (n_places,)
            The number of updates in this call after each row of the order.
        """
        self.check_parameters()
        batch = Batch(X, y, classes, sample_weight, order)
        self._state, scores, made = score_then_learn(self.__trainer__(), self.__state__(), batch)
        return scores, made

    # ---------------------------------------------------------------------------------- one by one
    def learn_one(
        self,
        x: Row,
        y: Hashable,
        *,
        w: float = 1.0,
        classes: ArrayLike | None = None,
        grow: bool = False,
    ) -> Self:
        """Learn from a single row, as `partial_fit` would, in a few microseconds.

        Parameters
        ----------
        x : dict, pair (indices, values), or array of shape (n_features,)
            Names in dicts are assigned columns in order of appearance (`columns_`); a text value is
            an entry 1 in the column "name=text". With a kernel and no budget, this is
            `partial_fit`.
        y : label
        w : float, default=1.0
            Sample weight, see `docs/weights.md`; a row of weight 0 is ignored.
        classes : array of shape (n_classes,), default=None
            All possible labels; required in the first call, unless ``grow`` is set.
        grow : bool, default=False
            Accept new labels, see `partial_fit`.

        Returns
        -------
        self
        """
        one = self._one_row
        usable = one is not None and one.state is self._state and (not grow or y in one.targets)
        if not (usable and one.learn(x, y, w)):  # type: ignore[union-attr]
            self._learn_one(Batch(x, y, classes, w, grow=grow))  # type: ignore[arg-type]
        return self

    def _learn_one(self, batch: Batch) -> None:
        """The complete route, for first rows, new names and new labels."""
        self.check_parameters()
        # A route with new names must not remain if the row turns out to be invalid.
        state, route = self.__state__(), self.__dict__.pop("_one_row", None)
        self._warn_of_names(batch.X, state, route, learning=True)
        if batch.grow and state is not None and isinstance(batch.X, dict):
            self._warn_once(warning_of_recipe(batch.X, state))
        with uninterrupted():
            self._state, self._one_row = self.__trainer__().learn_one(state, batch, route)

    def _learn_plain_row(self, X: ArrayLike, y: ArrayLike) -> bool:
        """Learn from a matrix of one row by the fast route; False if it does not apply.

        Then the complete route learns the row, or raises the error.
        """
        one = self._one_row
        if one is None or type(X) is not np.ndarray or type(y) is not np.ndarray:
            return False
        if X.shape != one.plain_shape or X.dtype != np.float64 or y.shape != (1,):
            return False
        try:
            return one.state is self._state and one.learn(X, y.item(), 1.0)
        except ValueError:
            return False

    def _prepare_for_rows(self) -> None:
        """Make the fast route for single rows, unless there is one."""
        one, state = self._one_row, self._fitted()
        if (one is None or one.state is not state) and (one := self._fast_route()) is not None:
            one.rule = self.__trainer__().rule(one.model.p)

    def _fast_route(self) -> OneRow | None:
        """The fast route for the current state, if any, cached for the next row."""
        options = self.__trainer__().options
        if (one := fast_route_for(options, self._fitted(), self._one_row)) is not None:
            self._one_row = one
        return one

    def predict_one(self, x: Row, *, classes: ArrayLike | None = None, grow: bool = False) -> Any:
        """Predict the class of a single row, as in `learn_one`; unknown names count as 0.

        Parameters
        ----------
        x : dict, pair (indices, values), or array of shape (n_features,)
        classes : array of shape (n_classes,), default=None
            As in `learn_one`, for rows that are predicted before any was learned: these have the
            class of a score of 0.
        grow : bool, default=False
            As in `learn_one`: before any row was learned no class is known, and the answer is None.

        Returns
        -------
        label

        Examples
        --------
        >>> from maxmargin import Perceptron
        >>> clf = Perceptron()
        >>> stream = [({"height": 2.0}, "tall"), ({"height": -1.0}, "small")]
        >>> for x, y in stream:
        ...     print(clf.predict_one(x, grow=True))
        ...     clf = clf.learn_one(x, y, grow=True)
        None
        tall
        """
        one = self._one_row
        if one is None or one.state is not self._state:
            if self.__state__() is None and (grow or classes is not None):
                return default_label(classes)
            if (one := self._fast_route()) is None:
                return self._classes_for(self._scores_of_one(x)).tolist()[0]
        return one.predict(x)

    def decision_one(self, x: Row) -> Any:
        """The score of a single row, as in `learn_one`; see `decision_function`.

        Parameters
        ----------
        x : dict, pair (indices, values), or array of shape (n_features,)

        Returns
        -------
        float for two classes, else ndarray of shape (n_classes,)

        Examples
        --------
        >>> from maxmargin import Perceptron
        >>> clf = Perceptron().learn_one({"height": 2.0}, "tall", classes=["small", "tall"])
        >>> clf.decision_one({"height": -1.0})
        -1.0
        """
        one = self._one_row
        if one is None or one.state is not self._state:
            one = self._fast_route()
        scores = self._scores_of_one(x).ravel() if one is None else one.scores(x)
        return scores if scores.size > 1 else scores.item()

    @if_calibrated
    def predict_proba_one(self, x: Row) -> dict[Hashable, float]:
        """The probability of each class of a single row.

        Parameters
        ----------
        x : dict, pair (indices, values), or array of shape (n_features,)

        Returns
        -------
        dict of label to probability
        """
        state, scores = self._fitted(), np.reshape(self.decision_one(x), (1, -1))
        probabilities = self._probabilities(state, scores)[0]
        return dict(zip(state.classes.tolist(), probabilities.tolist(), strict=True))

    def _warn_of_names(
        self, x: Any, state: State | None, route: OneRow | None = None, *, learning: bool = False
    ) -> None:
        """Warn once of a row without any known column."""
        if state is None or self._has_warned or (route is not None and route.has_warned):
            return
        if message := warning_of_names(x, state, learning=learning):
            if route is not None:
                route.has_warned = True
            self._warn_once(message)

    def _warn_once(self, message: str) -> None:
        if message and not self._has_warned:
            self._has_warned = True
            warnings.warn(message, stacklevel=5)

    def _scores_of_one(self, x: Row) -> np.ndarray:
        """The scores of a single row without a fast route."""
        state = self._fitted()
        self._warn_of_names(x, state)
        if state.recipe is not None:
            return self.decision_function([x])
        return as_scores(outputs_of_one(state, x))

    @property
    def columns_(self) -> Columns:
        features = named_features(self._fitted())
        if features.columns is None:
            raise AttributeError("The learner has not seen any dicts.")
        return features.named_columns() or {}


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineClassifier(ParameterGroup, Incremental, Streamable):
    """Base of all learners that learn row by row: parameters that all have, and the trainer.

    A subclass is a dataclass whose fields are its hyper-parameters, with what is allowed for them
    in ``_parameter_constraints``; it defines ``_rule`` and ``_spec``. Groups of parameters that
    several learners have are bases, see `estimator.parameters`. In its docstring ``<shared>``
    stands for what the bases document.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Learn an intercept, by default as the weight of a constant coordinate of every row.
    max_iter : int, default=1000
        Maximum number of passes over the data in `fit`; 1 is one plain pass.
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
    """

    fit_intercept: bool = True
    max_iter: int = 1000
    shuffle: bool = True
    random_state: Any = None
    warm_start: bool = False
    class_weight: Any = None
    verbose: int = 0

    _parameter_constraints = {
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "verbose": ["verbose"],
    }
    facts: ClassVar[Facts]
    # After a pass without an update there is never another one.
    settles: ClassVar[bool] = True
    # Parameters that help with inseparable rows, and the values that disable them.
    against_noise: ClassVar[dict[str, Any]] = {}
    # Rows can have several labels.
    takes_several: ClassVar[bool] = True

    def _rule(self, p: float) -> Rule:
        """The rule for the current hyper-parameters in a p-norm."""
        raise AttributeError(f"{type(self).__name__} does not define a rule")

    @abc.abstractmethod
    def _spec(self) -> ModelSpec:
        """The specification of the model for the current hyper-parameters."""

    def _uses_weights(self) -> bool:
        """True if sample weights matter with the current hyper-parameters."""
        return True

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.class_weight is not None and not self._uses_weights():
            raise unused_class_weight(type(self).__name__)

    # ------------------------------------------------------------------------------------ learning
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the learner to ``X``, ``y``: pass by pass, until convergence or `max_iter`.

        If it is interrupted, the learner keeps the model that it had before.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            float32 and float64 are read in place.
        y : array of shape (n_samples,)
            Labels of at least two classes. For multilabel targets, an array of 0 and 1 of shape
            (n_samples, n_labels), which linear models learn one-vs-rest.
        sample_weight : array of shape (n_samples,), default=None
            Sample weights, see `docs/weights.md`; rows of weight 0 are ignored. By default all
            are 1.

        Returns
        -------
        self
        """
        self._validate_params()
        before = self.__state__() if self.warm_start else None
        trainer = self._trainer = self._new_trainer()  # parameters may have changed in place
        self._state, warning = trainer.fit(before, X, y, sample_weight)
        warn_of(warning)
        return self

    def __trainer__(self) -> OnlineTrainer:
        """The trainer, cached until a parameter changes."""
        if (trainer := self.__dict__.get("_trainer")) is None:
            trainer = self._trainer = self._new_trainer()
        return trainer

    def _new_trainer(self) -> OnlineTrainer:
        bare = self._bare()
        return OnlineTrainer(bare._options(), bare._rule, bare._spec, bare._run_passes)

    def _bare(self) -> Self:
        """A copy of the parameters without the state, which a trainer must not keep alive."""
        bare = object.__new__(type(self))
        bare.__dict__.update((name, value) for name, value in vars(self).items() if name[0] != "_")
        return bare

    def _options(self) -> Options:
        """The hyper-parameters that training reads."""
        parameters = self._values()
        off = self.against_noise.items()
        return Options(
            type(self).__name__,
            settles=self.settles,
            takes_several=self.takes_several,
            unset=tuple(name for name, value in off if parameters.get(name, name) == value),
            **{name: parameters[name] for name in parameters.keys() & SHARED},
        )

    def _values(self) -> Tree:
        """The hyper-parameters, by name."""
        return {name: getattr(self, name) for name in self._parameter_constraints}

    def _run_passes(
        self, model: OnlineModel, rows: Rows, targets: Targets, plan: FitPlan
    ) -> Outcome:
        return run_passes(model, rows, targets, self._rule(model.p), plan)

    def _model_from(self, found: Tree, classes: np.ndarray) -> OnlineModel:
        return serialization.model_by(self, found, classes)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name[0] != "_":  # a parameter
            for cached in ("_one_row", "_trainer"):
                self.__dict__.pop(cached, None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class RuleClassifier(OnlineClassifier):
    """Base of all learners with a rule for weights.

    Parameters
    ----------
    tol : float, default=None
        Stop `fit` as soon as the margin is certified to be at least ``1 - tol`` of the best
        possible one.
    """

    tol: float | None = None

    _parameter_constraints = {"tol": [Interval(Real, 0, 1, closed="both"), None]}
    against_noise: ClassVar[dict[str, Any]] = {"soft_margin": 0.0, "average": False}

    def _uses_weights(self) -> bool:
        return self._rule(2.0).uses_weight()  # type: ignore[attr-defined, no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        needs = self.takes_several, self.class_weight is None, self._options().multiclass == "ovr"
        tags.classifier_tags.multi_label = all(needs)
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class KernelClassifier(Kernels, RuleClassifier):
    """Base of all learners with a rule for the weights of features or kernel expansions.

    Parameters
    ----------
    soft_margin : float, default=0.0
        The lambda of the 2-norm soft margin, added to the diagonal of the Gram matrix (it equals
        ``1 / (2 C)`` for the C of the squared hinge loss). Each training row gets a coordinate of
        its own, sqrt(lambda), which makes any data separable; margins and certificates concern the
        rows with that coordinate. In `fit`, a row keeps its coordinate in every pass; `partial_fit`
        treats each row as a new one. 0, or from 1e-100 to 1e100.
    kernel_dtype : {"auto", "float32", "float64"}, default="auto"
        Precision of kernel values; coefficients and outputs are float64. "auto" is float32 for
        float32 rows and from 5000 training rows on. That rounds kernel values by about 1e-7 of the
        largest, which may decide borderline updates.
    """

    soft_margin: float = 0.0
    kernel_dtype: str = "auto"

    _parameter_constraints = {
        "soft_margin": SOFT_MARGINS,
        "kernel_dtype": [StrOptions({"auto", "float32", "float64"})],
    }

    def _spec(self) -> ModelSpec:
        return self._weights_spec()

    def _weights_spec(self, *, on_budget: bool = False, **own: Any) -> WeightsSpec:
        """The specification of weights, of features or in a kernel's space.

        Parameters
        ----------
        on_budget : there is a budget in any case
        **own : fields that are not parameters
        """
        given = self._values() | own
        kernel = filled(KernelSpec, given)
        if on_budget or given.get("budget") is not None:
            return filled(BudgetSpec, given | {"kernel": kernel})
        if self.kernel != "linear":
            return filled(ExpansionSpec, given | {"kernel": kernel})
        kernel.check_device()
        return filled(LinearSpec, given)

    def _uses_weights(self) -> bool:
        return self.soft_margin > 0.0 or super()._uses_weights()

    def set_params(self, **params: Any) -> Self:
        """Set hyper-parameters; a new `device` takes over the model, if there is one."""
        if "device" in params and (state := self.__state__()) is not None:
            self._state = state._replace(model=on_device(state.model, params["device"]))
        return super().set_params(**params)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.classifier_tags.multi_label &= self.kernel == "linear"
        return tags
