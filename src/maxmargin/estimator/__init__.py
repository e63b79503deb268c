"""The scikit-learn shell that all learners share."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._extras import Self
from maxmargin.estimator import serialization
from maxmargin.estimator.incremental import Incremental
from maxmargin.estimator.parameters import SHARED_CONSTRAINTS, Facts, completed_docstring
from maxmargin.estimator.stream_fit import Streamable
from maxmargin.models.base import Model
from maxmargin.models.build import on_device
from maxmargin.models.spec import STRUCTURAL, ModelSpec
from maxmargin.training.fit_warnings import warn_of
from maxmargin.training.online import OnlineTrainer
from maxmargin.training.options import SHARED, Options
from maxmargin.training.passes import Outcome, Plan, run_passes
from maxmargin.training.sample_weights import unused_class_weight
from maxmargin.training.types import Rows, Rule, Targets, Tree


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineClassifier(Incremental, Streamable):
    """Base of all learners that learn row by row: parameters that all have, and the trainer.

    A subclass is a dataclass whose fields are its hyper-parameters; it defines ``_rule``, ``_spec``
    and ``_parameter_constraints``.
    """

    fit_intercept: bool = True
    max_iter: int = 1000
    shuffle: bool = True
    random_state: Any = None
    warm_start: bool = False
    class_weight: Any = None
    verbose: int = 0

    facts: ClassVar[Facts]
    # After a pass without an update there is never another one.
    settles: ClassVar[bool] = True
    # Parameters that help with inseparable rows, and the values that disable them.
    against_noise: ClassVar[dict[str, Any]] = {}
    # Rows can have several labels.
    takes_several: ClassVar[bool] = True

    def _rule(self, p: float) -> Rule:
        """The rule for the present hyper-parameters in a p-norm."""
        raise AttributeError(f"{type(self).__name__} does not define a rule")

    @abc.abstractmethod
    def _spec(self) -> ModelSpec:
        """The specification of the model for the present hyper-parameters."""

    def _uses_weights(self) -> bool:
        """True if sample weights matter with the present hyper-parameters."""
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
        off = self.against_noise.items()
        return Options(
            type(self).__name__,
            incremental=hasattr(self, "partial_fit"),
            unset=tuple(name for name, value in off if getattr(self, name, name) == value),
            **{name: getattr(self, name) for name in SHARED if hasattr(self, name)},
        )

    def _run_passes(self, model: Model, rows: Rows, targets: Targets, plan: Plan) -> Outcome:
        return run_passes(model, rows, targets, self._rule(model.p), plan)

    def _model_from(self, found: Tree, classes: np.ndarray) -> Model:
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
    """Base of all learners with a rule for the weights of features or kernel expansions.

    A subclass defines ``_rule`` and ``_parameter_constraints``, and ``_spec`` if its model is not
    the default one. In its docstring, words in angle brackets are placeholders for common text, see
    `estimator.parameters`.
    """

    intercept_scaling: float | str = 1.0
    soft_margin: float = 0.0
    kernel: Any = "linear"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    cache_size: float = 200.0
    kernel_dtype: str = "auto"
    device: str = "cpu"
    n_iter_no_change: int | None = 5
    tol: float | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = SHARED_CONSTRAINTS
    against_noise: ClassVar[dict[str, Any]] = {"soft_margin": 0.0, "average": False}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__doc__ = completed_docstring(cls)

    def _spec(self) -> ModelSpec:
        given = {name: getattr(self, name) for name in STRUCTURAL if hasattr(self, name)}
        if given.get("budget") is None:
            given["on_full"] = None
        return ModelSpec(**given, cache_size=self.cache_size, device=self.device)

    def _uses_weights(self) -> bool:
        return self.soft_margin > 0.0 or self._rule(2.0).uses_weight()  # type: ignore[attr-defined]

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "device" and (state := self.__dict__.get("_state")) is not None:
            self._state = state._replace(model=on_device(state.model, value))
        super().__setattr__(name, value)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        is_linear = self.takes_several and self.kernel == "linear" and self.class_weight is None
        tags.classifier_tags.multi_label = is_linear and self._spec().multiclass == "ovr"
        return tags
