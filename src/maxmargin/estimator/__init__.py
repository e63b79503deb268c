"""The scikit-learn shell that all learners share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from maxmargin._extras import Self
from maxmargin.estimator.callbacks import Watched, reported
from maxmargin.estimator.incremental import Incremental
from maxmargin.estimator.locks import writing
from maxmargin.estimator.one_row import RowByRow
from maxmargin.estimator.parameters import SHARED_CONSTRAINTS, Facts, completed_docstring
from maxmargin.estimator.predicting import Predicting
from maxmargin.estimator.state_access import Stateful
from maxmargin.estimator.stream_fit import Streamable
from maxmargin.models import devices
from maxmargin.models.base import Model
from maxmargin.models.build import build
from maxmargin.models.spec import STRUCTURAL, ModelSpec
from maxmargin.training import inputs, multilabel, stopping
from maxmargin.training.calibration import in_one_pass
from maxmargin.training.messages import diverged
from maxmargin.training.passes import Outcome, Plan, run_passes
from maxmargin.training.sample_weights import counted, unused_class_weight
from maxmargin.training.state import State, problems_for, shown


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineClassifier(
    Predicting, Incremental, RowByRow, Streamable, Stateful, Watched, ClassifierMixin, BaseEstimator
):
    """Base of all learners: a rule, plus this shell; what it can do beside `fit`, its bases give.

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
    device: str = "cpu"
    max_iter: int = 1000
    tol: float | None = None
    shuffle: bool = True
    random_state: Any = None
    warm_start: bool = False
    class_weight: Any = None
    n_jobs: int | None = None
    verbose: int = 0
    calibration: str | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = SHARED_CONSTRAINTS
    facts: ClassVar[Facts]
    # Does a pass without an update mean that there will never be one again?
    settles: ClassVar[bool] = True
    # Parameters that help where rows cannot be separated, and the values that switch them off.
    against_noise: ClassVar[dict[str, Any]] = {"soft_margin": 0.0, "average": False}
    # Can rows have several labels?
    takes_several: ClassVar[bool] = True

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
        return ModelSpec(**given, cache_size=self.cache_size, device=self.device)

    def _uses_weights(self) -> bool:
        """Do sample weights change what is learnt, by the present hyper-parameters?"""
        return self.soft_margin > 0.0 or self._rule(2.0).uses_weight()

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.class_weight is not None and not self._uses_weights():
            raise unused_class_weight(type(self).__name__)

    # ------------------------------------------------------------------------------------ learning
    @writing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from ``X``, ``y`` until nothing is left to learn, or for `max_iter` passes.

        Ctrl-C ends the fit after the rows in work; the model keeps what it has learnt so far.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            float32 and float64 are read in place.
        y : array of shape (n_samples,)
            Class labels, at least two different ones. Or, for rows with several labels, of shape
            (n_samples, n_labels): 0 and 1, learnt one-vs-rest, by linear models.
        sample_weight : array of shape (n_samples,), default=None
            How often each row counts, see `docs/weights.md`; a row of weight 0 is none. By default
            each counts once.

        Returns
        -------
        self
        """
        self._validate_params()
        before = self._known() if self.warm_start else None
        X, y, features, radius = inputs.check_fit(self, X, y, several=True)
        if (several := y.ndim == 2) or before is not None:
            multilabel.check_number_of_labels(self, y, before)
        worth = totals = None
        if sample_weight is not None or self.class_weight is not None:
            X, y, worth, totals = counted(X, y, sample_weight, self.class_weight, self.kernel)
            radius = inputs.check_values(X)
        classes = inputs.classes_of(y)
        codes = inputs.class_codes(y, classes)
        if before is None:
            problems, randomness = problems_for(classes, multilabel=several), self.random_state
            model, rows, radius = build(
                self._spec(), problems, X, radius=radius, worth=worth, random_state=randomness
            )
            state = State(model, classes, features, margins=np.empty(0), multilabel=several)
        else:
            model = self._continued(before, classes, X, worth)
            rows = model.fit_rows(X, worth)
            columns = before.features.columns
            state = before._replace(model=model, features=features._replace(columns=columns))
        model.begin_fit(rows)
        # Something to say where too few updates were made to prove more.
        ceiling = model.ceiling(rows, radius) if self.max_iter > 1 else np.inf
        by_steps = worth if self.soft_margin == 0.0 else None
        targets = inputs.as_targets(codes, classes.size, state.spare, by_steps)
        plan = self._plan(X, ceiling, state, sample_weight)
        run: Any = self._run_passes
        if "_skl_callbacks" in vars(self):
            run = reported(self, run, state, (X, y, sample_weight))
        outcome = run(model, rows, targets, plan)
        model = outcome.model if worth is by_steps else outcome.model.apart_from_rows()
        if not model.is_finite():
            raise ValueError(diverged(type(self).__name__))
        if model.trials() == 0 and outcome.interrupted is not None:
            raise outcome.interrupted
        self._state = state._replace(
            model=model,
            margins=outcome.margins,
            measured=model.trials(),
            ceiling=ceiling,
            n_iter=outcome.n_iter,
            converged=outcome.converged,
            more=outcome.more,
            totals=totals,
            calibration=plan.calibrating and plan.calibrating.maps,
        )
        if outcome.interrupted is not None:
            raise outcome.interrupted
        if outcome.warning:
            stopping.warn(outcome.warning)
        return self

    def _plan(self, X: Any, ceiling: float, state: State, sample_weight: Any) -> Plan:
        calibrating = self.calibration and in_one_pass(self, state, sample_weight, X.shape[0])
        given = "max_iter", "tol", "shuffle", "random_state", "settles", "n_jobs"
        return Plan(
            **{name: getattr(self, name) for name in given},
            name=type(self).__name__,
            verbose=bool(self.verbose),
            separable=self.soft_margin > 0.0,
            values=X.size,
            ceiling=ceiling,
            shown=shown(state),
            unset=tuple(
                name for name, off in self.against_noise.items() if getattr(self, name, name) == off
            ),
            calibrating=calibrating,
        )

    def _run_passes(self, model: Model, rows: Any, targets: Any, plan: Plan) -> Outcome:
        return run_passes(model, rows, targets, self._rule(model.p), plan)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "device" and (state := self.__dict__.get("_state")) is not None:
            self._state = state._replace(model=devices.on_device(state.model, value))
        super().__setattr__(name, value)
        if name in self._parameter_constraints:
            for made_for_others in ("_one_row", "_checked_spec"):
                self.__dict__.pop(made_for_others, None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        is_linear = self.takes_several and self.kernel == "linear" and self.class_weight is None
        tags.classifier_tags.multi_label = is_linear and self._spec().multiclass == "ovr"
        return tags
