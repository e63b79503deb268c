"""The scikit-learn shell that all learners share."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

from maxmargin.certificates import Certificate
from maxmargin.core.loop import NO_TRACE
from maxmargin.estimator import files, inputs
from maxmargin.estimator.one_row import OneRow, as_matrix, met
from maxmargin.estimator.parameters import SHARED_CONSTRAINTS, Facts, completed_docstring
from maxmargin.estimator.passes import Outcome, Plan, certified, run_passes
from maxmargin.estimator.state import State, Stateful, grown, problems_for, shown
from maxmargin.estimator.stream import Streamable
from maxmargin.models.base import Model
from maxmargin.models.build import build
from maxmargin.models.spec import STRUCTURAL, ModelSpec


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineClassifier(Stateful, Streamable, ClassifierMixin, BaseEstimator):
    """Base of all learners: a rule, plus this shell.

    A subclass is a dataclass whose fields are its hyper-parameters; it defines ``_rule`` and
    ``_parameter_constraints``, and ``_spec`` if its model is not the usual one for its parameters.
    In its docstring, words in angle brackets stand for what all have in common, see
    `estimator.parameters`.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = SHARED_CONSTRAINTS
    facts: ClassVar[Facts]
    # Does a pass without an update mean that there will never be one again?
    settles: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__doc__ = completed_docstring(cls)

    def _rule(self, p: float) -> Any:
        """The rule for the present hyper-parameters, in that norm."""
        raise AttributeError(f"{type(self).__name__} does not define a rule")

    def _spec(self) -> ModelSpec:
        """What the model is built from, by the present hyper-parameters."""
        given = {name: getattr(self, name) for name in STRUCTURAL if hasattr(self, name)}
        if given.get("budget") is None:
            given["on_full"] = None
        return ModelSpec(**given, cache_size=self.cache_size)

    # ------------------------------------------------------------------------------------ learning
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
        before = self._known() if self.warm_start else None
        X, features = inputs.check_X(self, X)
        y = inputs.check_y(y, X.shape[0])
        inputs.check_labels(y)
        radius, classes = inputs.check_values(X), inputs.classes_of(y)
        if before is None:
            problems, randomness = problems_for(classes, spare=False), self.random_state
            built = build(self._spec(), problems, X, radius=radius, random_state=randomness)
            model, rows, radius = built
            margins = np.full(model.verdicts(), np.nan)
            state = State(model, classes, features, margins)
        else:
            model = self._continued(before, classes, X)
            rows = model.fit_rows(X)
            columns = before.features.columns
            state = before._replace(model=model, features=features._replace(columns=columns))
        model.begin_fit(rows)
        # Something to say where too few updates were made to prove more.
        ceiling = model.ceiling(radius) if self.max_iter > 1 else np.inf
        targets = inputs.as_targets(inputs.class_codes(y, classes), classes.size, state.spare)
        plan = self._plan(X.size, ceiling, shown(state))
        outcome = self._run_passes(model, rows, targets, plan)
        if outcome.interrupted is not None and model.trials() == 0:
            raise outcome.interrupted
        self._state = state._replace(
            margins=outcome.margins,
            ceiling=ceiling,
            n_iter=outcome.n_iter,
            converged=outcome.converged,
            more=outcome.more,
        )
        if outcome.interrupted is not None:
            raise outcome.interrupted
        if outcome.warning:
            warnings.warn(outcome.warning, ConvergenceWarning, stacklevel=2)
        return self

    def _plan(self, values: int, ceiling: float, shown: slice) -> Plan:
        return Plan(
            name=type(self).__name__,
            max_iter=self.max_iter,
            tol=self.tol,
            shuffle=self.shuffle,
            random_state=self.random_state,
            verbose=bool(self.verbose),
            settles=self.settles,
            separable=self.soft_margin > 0.0,
            values=values,
            ceiling=ceiling,
            shown=shown,
        )

    def _run_passes(self, model: Model, rows: Any, targets: Any, plan: Plan) -> Outcome:
        return run_passes(model, rows, targets, self._rule(model.p), plan)

    def _continued(self, before: State, classes: np.ndarray, X: Any) -> Model:
        """The model of the last fit, for one with rows of the same kind."""
        self._check_structure(before)
        # With a kernel, the soft margin is part of it.
        private = X.shape[0] if self.soft_margin > 0.0 and self.kernel == "linear" else 0
        model, width = before.model, before.features.count
        old = before.classes.tolist(), width, model.private_coordinates()
        if old != (now := (classes.tolist(), X.shape[1], private)):
            raise ValueError(
                "warm_start needs the classes, the number of features and, with a soft margin, "
                f"the number of rows of the last fit: {old}, got {now}."
            )
        model = grown(before, width, classes).model  # without room for more columns
        return model.continued()

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
        self._state, _ = self._learnt(self._known(), X, y, classes, grow=grow)
        return self

    def foretell(
        self, X: Any, y: Any, order: np.ndarray, classes: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """`partial_fit` of the rows ``order``, which says what was seen before each was learnt.

        Parameters
        ----------
        X, y, classes
            As in `partial_fit`.
        order : array of int32
            A row i that stands there as ``-1 - i`` is only looked at.

        Returns
        -------
        outputs : ndarray of shape (n_places, n_outputs)
            The scores of each row of the order, before it was learnt from.
        updates : ndarray of shape (n_places,)
            Made since the call began, after each row of the order.
        """
        self._state, history = self._learnt(
            self._known(), X, y, classes, order=order, foretell=True
        )
        return history[:, :-1][:, shown(self._state)], history[:, -1]

    def _learnt(
        self,
        state: State | None,
        X: Any,
        y: Any,
        classes: Any,
        *,
        grow: bool = False,
        order: np.ndarray | None = None,
        foretell: bool = False,
    ) -> tuple[State, np.ndarray]:
        """The state after each row was learnt from once, and what was seen; see `core.loop.Trace`."""
        self._check_parameters()
        features = None if state is None else state.features
        if features is None:
            X, features = inputs.check_X(self, X)
        elif grow:
            X, features = inputs.check_wider_X(self, X, features)
        else:
            X, features = inputs.check_X(self, X, features)
        y = inputs.check_y(y, X.shape[0])
        before = None if state is None else state.classes
        known = (
            inputs.more_classes(classes, before, y)
            if grow
            else inputs.known_classes(classes, before)
        )
        if state is not None:
            self._check_structure(state)
        codes = inputs.class_codes(y, known)
        inputs.check_values(X)
        if state is None:
            self.check_can_stream()
            model = build(
                self._spec(),
                problems_for(known, spare=grow),
                X,
                spare=grow,
                random_state=self.random_state,
            ).model
            state = State(model, known, features, np.empty(0), spare=grow)
        else:
            state = grown(state, X.shape[1], known)._replace(features=features)
        model = state.model.streaming()
        rows, targets = model.rows(X), inputs.as_targets(codes, known.size, state.spare)
        if order is None:
            order = np.arange(X.shape[0], dtype=np.int32)
        history = np.empty((order.size, model.problems() + 1)) if foretell else NO_TRACE.history
        trace = NO_TRACE._replace(history=history)
        model.present(rows, targets, order, self._rule(model.p), trace)
        margins = np.full(model.verdicts(), np.nan)
        return state._replace(model=model, margins=margins), history

    def _check_parameters(self) -> None:
        """Validate the hyper-parameters, unless they are those of the last time."""
        values = [getattr(self, name) for name in self._parameter_constraints]
        if values != self.__dict__.get("_checked_parameters"):
            self._validate_params()
            self._checked_parameters = values

    def _check_structure(self, state: State) -> None:
        """Refuse to go on with a model that was built for other parameters."""
        if found := state.model.spec.difference(self._spec()):
            name, before, now = found
            raise ValueError(
                f"The '{name}' parameter of {type(self).__name__} cannot change on a fitted model: "
                f"it was {before!r}, got {now!r}. Fit anew without warm_start."
            )

    def check_can_stream(self) -> None:
        """Raise if a parameter is one that only all rows together can tell."""
        if self.fit_intercept and self.intercept_scaling == "max":
            raise ValueError(
                "intercept_scaling='max' needs all rows at once, as fit has them: pass a number."
            )
        if self.kernel in ("poly", "rbf") and self.gamma == "scale":
            raise ValueError(
                "gamma='scale' needs all rows at once, as fit has them: pass a number."
            )

    # ---------------------------------------------------------------------------------- single rows
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
        if grow or one is None or one.state is not self._state or not one.learn(x, y):
            self._learn_one_slowly(x, y, classes, grow)
        return self

    def _learn_one_slowly(self, x: Any, y: Any, classes: Any, grow: bool) -> None:
        """The slow path: of a row that may be the first, or have new names or a new label."""
        self._check_parameters()
        state = self._known()
        features = None if state is None else state.features
        if isinstance(x, dict):
            state, features = met(x, state)
        one = self._one_row_for(state)
        if one is None or (grow and y not in one.targets):
            row = as_matrix(x, features)
            # The row has no names of its own.
            bare = state and state._replace(features=inputs.Features(row.shape[1]))
            state, _ = self._learnt(bare, row, np.array([y]), classes, grow=grow)
            if features is not None:
                state = state._replace(features=features)
            self._state = state
            return
        assert state is not None
        self._check_structure(state)
        one.state = state._replace(margins=np.full(state.model.verdicts(), np.nan))
        one.rule = self._rule(state.model.p)
        one.learn(x, y)
        self._state, self._one_row = one.state, one

    def predict_one(self, x: Any) -> Any:
        """The class of a single row, as `learn_one` takes it; names without columns count as 0."""
        one = self.__dict__.get("_one_row")
        if one is None or one.state is not self._state:
            one = self._one_row_for(state := self._fitted())
            if one is None:
                row = as_matrix(x, state.features)
                inputs.check_values(row)
                return self._classes_for(self._scores(state, row)).tolist()[0]
            self._one_row = one
        return one.predict(x)

    def _one_row_for(self, state: State | None) -> OneRow | None:
        """The fast path for this state, if there is one."""
        one = self.__dict__.get("_one_row")
        if state is None or not OneRow.is_possible(state):
            return None
        if one is not None and one.can_follow(state):
            return one.followed(state)
        return OneRow(state, shown(state))

    # --------------------------------------------------------------------------------- predicting
    def decision_function(self, X: Any) -> np.ndarray:
        """``w.x + b`` for each row; of shape (n_samples,) for two classes, else one column each."""
        state = self._fitted()
        return self._scores(state, inputs.check_new_X(self, X, state.features))

    def _scores(self, state: State, X: Any) -> np.ndarray:
        scores = state.model.outputs(X)[:, shown(state)]
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row; a score of exactly 0 counts as positive."""
        return self._classes_for(self.decision_function(X))

    def _classes_for(self, scores: np.ndarray) -> np.ndarray:
        if self.classes_.size == 1:
            return np.repeat(self.classes_, scores.size)
        codes = (scores >= 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    # ------------------------------------------------------------------------------ what was learnt
    @property
    def coef_(self) -> np.ndarray:
        state = self._fitted()
        return state.model.coefficients()[shown(state), : state.features.count]

    @property
    def intercept_(self) -> np.ndarray:
        state = self._fitted()
        return state.model.intercepts()[shown(state)]

    @property
    def support_(self) -> np.ndarray:
        return self._kernel_model().support_numbers()

    @property
    def support_vectors_(self) -> Any:
        return self._kernel_model().support_rows()

    @property
    def dual_coef_(self) -> np.ndarray:
        return self._kernel_model().weights()[shown(self._fitted())]

    def _kernel_model(self) -> Any:
        model = self._fitted().model
        if not model.has_supports:
            raise AttributeError("There are supports only with a kernel; see coef_.")
        return model

    @property
    def n_updates_(self) -> int:
        return self._fitted().model.updates()

    @property
    def certificate_(self) -> Certificate:
        state = self._fitted()
        return certified(state.model, state.margins, state.ceiling, shown(state), evidence=True)

    @property
    def converged_(self) -> bool:
        return self._fitted().converged

    @property
    def columns_(self) -> dict[Any, int]:
        features = self._fitted().features
        if features.columns is None:
            raise AttributeError("No row came as a dict.")
        return features.named_columns()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in self._parameter_constraints:
            self.__dict__.pop("_one_row", None)  # it was made for other parameters

    # --------------------------------------------------------------------------------------- files
    def __learnt__(self) -> dict[str, Any]:
        """What learning has given it, for a file."""
        state = self._known()
        return {} if state is None else files.learnt(state, self.get_params(deep=False))

    def __relearn__(self, found: dict[str, Any]) -> None:
        """Know what a file says; raises unless it fits together."""
        self._state = files.relearnt(
            found, lambda found, classes: files.model_from(found, classes, self._spec_for)
        )

    def _spec_for(self, structure: dict[str, Any]) -> ModelSpec:
        """What a model was built from, by the parameters that it had then."""
        wanted = STRUCTURAL & self.get_params(deep=False).keys() - {"on_full"}
        if structure.keys() - {"on_full"} != wanted:
            raise ValueError("the model is one for other parameters")
        then = type(self)(**structure)
        then._validate_params()
        return then._spec()

    def __summary__(self) -> dict[str, Any]:
        """What there is to say about it in few words."""
        state = self._known()
        return {} if state is None else files.summary(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
