"""NOCA: a mixture of Gaussians with a probability margin, in fixed memory."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from maxmargin._terminal import bar, quiet
from maxmargin._validation import Interval
from maxmargin.algorithms.bound_arguments import bound
from maxmargin.core.array_fields import Saved, own_buffers
from maxmargin.core.rows import NO_TAIL
from maxmargin.core.trace import NO_TRACE
from maxmargin.estimator.learner import Streamable
from maxmargin.estimator.parameters import Facts
from maxmargin.models.linear_model import as_rows
from maxmargin.models.model_formulas import Densities
from maxmargin.models.spec import ModelSpec
from maxmargin.persistence import model_tree
from maxmargin.spaces.gaussian_mixture import Mixture, class_logs, learn_mixture, new_mixture
from maxmargin.training import inputs
from maxmargin.training.online import known_classes
from maxmargin.training.outputs import Decision, check_new_X
from maxmargin.training.protocol import Batch, Fitted, Learned, Options
from maxmargin.training.recipes import prepared, recipe_of
from maxmargin.training.sample_weights import check_any, check_weights
from maxmargin.training.state import Features, State

# One call of the compiled loop looks at about so many numbers, and can then be interrupted.
VALUES_PER_CALL = 2**24

# As the norms of rows: no square over- or underflows.
MAGNITUDES = Interval(Real, 1e-50, 1e50, closed="both")


NO_LOGS = np.empty((0, 0))


class NOCARule(NamedTuple):
    tau: float
    rho_min: float
    epsilon: float
    width: float
    least: float


class MixtureModel:
    """Components, and the mistakes made while they were learned."""

    mixture: Annotated[Mixture, Saved()]
    errors: Annotated[int, Saved()]

    has_supports = False
    outputs_are_odds = True  # those of its trace

    def __init__(self, mixture: Mixture) -> None:
        self.mixture = mixture
        self.errors = 0

    def learn(
        self,
        X: Any,
        codes: np.ndarray,
        order: np.ndarray,
        rule: NOCARule,
        advance: Any,
        logs: np.ndarray = NO_LOGS,
    ) -> None:
        """Learn from the rows ``order``; `logs` as in `learn_mixture`."""
        rows, mixture = as_rows(X, NO_TAIL), self.mixture
        step = max(1, VALUES_PER_CALL // (X.shape[1] * mixture.owners.size))
        for start in range(0, order.size, step):
            part = order[start : start + step]
            seen = logs[start : start + step]
            self.errors += int(learn_mixture(rows, codes, part, rule, mixture, seen))
            advance(part.size / order.size, note=f"{self.used()} components")

    def outputs(self, X: Any) -> np.ndarray:
        """Logarithms of the densities of classes."""
        logs = np.empty((X.shape[0], self.mixture.outputs.size))
        class_logs(as_rows(X, NO_TAIL), own_buffers(self.mixture), logs)
        return logs

    def formula(self, features: int) -> Densities:
        mixture, used = self.mixture, slice(0, self.used())
        levels = mixture.levels[used] + np.log(self.shares())
        parts = mixture.means[used].copy(), mixture.variances[used].copy(), levels
        return Densities(*parts, mixture.owners[used].copy(), mixture.outputs.size)

    def shares(self) -> np.ndarray:
        """The weights of the components."""
        sizes = self.mixture.sizes[: self.used()]
        return sizes / sizes.sum()

    def used(self) -> int:
        return int(self.mixture.state.components[0])

    def width(self) -> int:
        return self.mixture.row.size

    def mistakes(self) -> int:
        return self.errors

    def trials(self) -> int:
        """Not needed: there are no margins."""
        return 0

    def updates(self) -> int:
        return 0

    def n_margins(self) -> int:
        """There are no margins."""
        return 0

    def problems(self) -> int:
        """As of log-odds: one for two classes."""
        classes = self.mixture.outputs.size
        return 1 if classes == 2 else classes


@dataclass(eq=False, repr=False, kw_only=True)
class NOCA(Streamable):
    """NOCApm: a Gaussian mixture with a probability margin, in bounded memory.

    ::

        f = (P(own class) - max P(other class)) / 2        by the densities of all components
        if f < rho:                          rho <- tau * rho,  a new component at x
        elif the nearest component of x's class is farther than epsilon:  a new component at x
        else:                                that component takes x into its mean and its variance

    Components move, so there is no margin in a fixed space, and no certificate. Memory and the time
    for a row are bounded by `max_components`; when that is reached, x joins the nearest component
    in any case.

    Parameters
    ----------
    rho : float, default=0.1
        Margin at first: half the difference of two probabilities, between 0 and 1/2.
    tau : float, default=0.9
        Factor by which each margin error lowers it, between 0 and 1.
    rho_min : float, default=0.0
        When margin errors have lowered rho below this, rows join the nearest component of their
        class, and only the first row of a class founds one: see `max_founding_errors`.
    epsilon : float, default=1.0
        Distance within which a row joins a component. It is about the scale of the data: scale the
        features first.
    width : float, default=None
        Standard deviation of a new component; half of `epsilon` by default.
    floor : float, default=0.7
        Standard deviations never fall below this part of `width`.
    max_components : int, default=100
        Components kept at most.
    max_iter : int, default=1
        Passes over the data that `fit` makes.
    shuffle : bool, default=True
        Learn from the rows in a new random order in each pass of `fit`.
    random_state : int, RandomState instance or None, default=None
        Determines the orders.
    verbose : int, default=0
        Show a progress bar during `fit` on a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels; for two classes the second is the positive one.
    components_ : ndarray of shape (n_components,)
        The label of each component.
    means_, variances_ : ndarray of shape (n_components, n_features)
        Their means, and their variances by feature.
    weights_ : ndarray of shape (n_components,)
        Their weights, which add up to 1.
    rho_ : float
        The margin now.
    n_mistakes_, n_margin_errors_ : int
        Mistakes and margin errors made while learning.
    n_iter_ : int
        Passes made by the last `fit`.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Guarantee: at most ``ln(r / rho) / ln(tau)`` margin errors that leave `rho_` at r or above. With
    `rho_min` r, no others found components, except the first row of each class. The last hypothesis
    swings more from order to order than the mistakes made on the way.

    The paper prints the difference of densities for f, without a weight for their rows, mean
    squares for variances, and lets a row join the nearest component of any class. Its theorems are
    about that f (`docs/theory.md`). Here f is a difference of probabilities, variances are about
    the mean, and a component has rows of its own class, so that neither the scale of the data nor
    their origin matters.

    References
    ----------
    M. Chi, H. He and W. Zhang, "Nonlinear online classification algorithm with probability margin".

    Examples
    --------
    >>> from maxmargin import NOCA
    >>> X, y = [[0.0, 0.0], [3.0, 0.0], [0.1, 0.0], [3.1, 0.0]], ["left", "right"] * 2
    >>> clf = NOCA(shuffle=False).fit(X, y)
    >>> clf.predict([[0.5, 0.0]]).tolist(), clf.components_.tolist()
    (['left'], ['left', 'right'])
    >>> clf.predict_proba([[1.55, 0.0]]).round(2).tolist()
    [[0.5, 0.5]]
    """

    rho: float = 0.1
    tau: float = 0.9
    rho_min: float = 0.0
    epsilon: float = 1.0
    width: float | None = None
    floor: float = 0.7
    max_components: int = 100
    max_iter: int = 1
    shuffle: bool = True
    random_state: Any = None
    verbose: int = 0

    _components: ClassVar[type[Mixture]] = Mixture
    facts: ClassVar[Facts] = Facts(
        guarantee="few margin errors before ρ is small",
        updates="-",
        drift=False,
        paper="Chi, He & Zhang 2011",
        cost="K·d for K components",
        kernel=False,
        certificate=False,
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "rho": [Interval(Real, 0, 0.5, closed="both")],
        "tau": [Interval(Real, 0, 1, closed="neither")],
        "rho_min": [Interval(Real, 0, 0.5, closed="both")],
        "epsilon": [MAGNITUDES],
        "width": [MAGNITUDES, None],
        "floor": [MAGNITUDES],
        "max_components": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # ------------------------------------------------------------------------------------ learning
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> NOCA:
        """Learn from ``X``, ``y`` in `max_iter` passes.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), default=None
            How often each row is learned in a pass; whole numbers.

        Returns
        -------
        self
        """
        self._validate_params()
        self._state = self.__trainer__().fit(None, X, y, sample_weight).state
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> NOCA:
        """Learn from each row of ``X``, ``y`` once, in the order given.

        Any way of cutting a stream into calls gives the same components, to the bit.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        classes : array of shape (n_classes,), default=None
            All labels that can occur; needed in the first call.
        sample_weight : array of shape (n_samples,), default=None
            How often each row is learned, one time after another; whole numbers.

        Returns
        -------
        self
        """
        self._validate_params()
        batch = Batch(X, y, classes, sample_weight)
        self._state = self.__trainer__().learn(self.__state__(), batch).state
        return self

    def _new_trainer(self) -> MixtureTrainer:
        return MixtureTrainer(
            Options(
                type(self).__name__,
                max_iter=self.max_iter,
                shuffle=self.shuffle,
                random_state=self.random_state,
                verbose=self.verbose,
            ),
            self._rule(),
            self._components,
            most=int(self.max_components),
            rho=float(self.rho),
        )

    def _rule(self) -> NOCARule:
        width = float(self.epsilon / 2 if self.width is None else self.width)
        return NOCARule(
            tau=float(self.tau),
            rho_min=float(self.rho_min),
            epsilon=float(self.epsilon),
            width=width,
            least=(self.floor * width) ** 2,
        )

    # --------------------------------------------------------------------------------- predicting
    def _class_logs(self, X: ArrayLike) -> np.ndarray:
        state = self._fitted()
        return self.__trainer__().outputs(state, prepared(state, X))

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Probability of each class, by the densities of its components."""
        return class_shares(self._class_logs(X))

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """``f = P(positive) - 1/2`` for two classes, else the probability of each class."""
        probabilities = self.predict_proba(X)
        return probabilities[:, 1] - 0.5 if self.classes_.size == 2 else probabilities

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The class of each row; of two equally likely ones the positive."""
        logs = self._class_logs(X)
        if self.classes_.size == 2:
            return self.classes_[(logs[:, 1] >= logs[:, 0]).astype(int)]
        return self.classes_[logs.argmax(axis=1)]

    def __decision__(self) -> Decision:
        """What all of these come from."""
        state = self._fitted()
        if not self._used().stop:
            raise NotFittedError("This NOCA instance has not learned from any row yet.")
        return Decision(
            formula=state.model.formula(state.features.count),
            shown=slice(None),
            classes=state.classes,
            multilabel=False,
            features=state.features.count,
            by_density=True,
            recipe=recipe_of(state),
        )

    # -------------------------------------------------------------------------------- the theorems
    @staticmethod
    @bound()
    def max_founding_errors(rho_min: float, *, rho: float = 0.1, tau: float = 0.9) -> float:
        """``log(rho_min / rho) / log(tau)``: bound on errors that create components (section 3.1).

        The first row of each class is not counted: it always founds a component. Add the number of
        classes for a bound on all such errors; `max_components` must have room for one component of
        each class. Rows far from all components of their class found components without an error.

        Examples
        --------
        >>> from maxmargin import NOCA
        >>> round(NOCA.max_founding_errors(0.001), 1)
        43.7
        """
        if rho_min == 0.0:
            return math.inf
        if rho <= rho_min:
            return 0.0
        return (math.log(rho_min) - math.log(rho)) / math.log(tau) if tau > 0.0 else 1.0

    # ----------------------------------------------------------------------------- what was learned
    def _mixture(self) -> Mixture:
        return mixture_of(self._fitted()).mixture

    def _used(self) -> slice:
        return slice(0, mixture_of(self._fitted()).used())

    @property
    def components_(self) -> np.ndarray:
        return self.classes_[self._mixture().owners[self._used()]]

    @property
    def means_(self) -> np.ndarray:
        return self._mixture().means[self._used()].copy()

    @property
    def variances_(self) -> np.ndarray:
        return self._mixture().variances[self._used()].copy()

    @property
    def weights_(self) -> np.ndarray:
        return mixture_of(self._fitted()).shares()

    @property
    def rho_(self) -> float:
        return float(self._mixture().state.rho[0])

    @property
    def n_margin_errors_(self) -> int:
        return int(self._mixture().state.errors[0])

    def _model_from(self, found: dict[str, Any], classes: np.ndarray) -> MixtureModel:
        leaves = found.pop("model")
        components, width = leaves["mixture.means"].shape
        blank = MixtureModel(new_mixture(Mixture, classes.size, width, components, 0.0))
        model: MixtureModel = model_tree.filled(blank, leaves, classes=classes.size)
        if leaves or model.used() > components:
            raise model_tree.Misfit("the parts of mixture do not fit together")
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class MixtureTrainer:
    """Moves the components of a mixture.

    Parameters
    ----------
    options : Options
    rule : NOCARule
    kind : of components
    most : components at most
    rho : the margin at first
    """

    can_grow = False

    def __init__(
        self, options: Options, rule: NOCARule, kind: type[Mixture], *, most: int, rho: float
    ) -> None:
        self.options, self.rule, self.kind = options, rule, kind
        self.most, self.rho = most, rho

    @property
    def spec(self) -> ModelSpec:
        raise TypeError("NOCA has components in place of weights: no model is built for it.")

    def fit(
        self,
        state: State | None,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> Fitted:
        options = self.options
        rows, labels, features, _ = inputs.check_fit(options, X, y)
        order = row_numbers(sample_weight, labels.size)
        check_any(order.size)
        classes = inputs.classes_of(labels[np.unique(order)])
        state = self._begun(classes, features)
        random = np.random.default_rng(check_random_state(options.random_state).randint(2**31 - 1))
        codes = np.zeros(labels.size, np.int32)
        codes[order] = inputs.class_codes(labels[order], classes)
        model = mixture_of(state)
        with bar("NOCA", options.max_iter, "passes", enabled=bool(options.verbose)) as advance:
            for _ in range(options.max_iter):
                if options.shuffle:
                    random.shuffle(order)
                model.learn(rows, codes, order, self.rule, advance)
        return Fitted(state._replace(n_iter=options.max_iter))

    def learn(
        self,
        state: State | None,
        batch: Batch,
        *,
        owned: bool = False,
    ) -> Learned:
        X, features = inputs.check_X(
            self.options, batch.X, None if state is None else state.features
        )
        y = inputs.check_y(batch.y, X.shape[0])
        before = None if state is None else state.classes
        known = known_classes(batch.classes, before, can_grow=False)
        codes, order = inputs.class_codes(y, known), row_numbers(batch.weight, y.size)
        inputs.check_values(X, features)
        if state is None:
            state = self._begun(known, features)
        elif mixture_of(state).mixture.owners.size != self.most:
            raise ValueError(
                "The 'max_components' parameter of NOCA cannot change on a fitted model."
            )
        model = mixture_of(state) if owned else copy.deepcopy(mixture_of(state))
        logs = np.empty((order.size if batch.traced else 0, known.size))
        model.learn(X, codes, order, self.rule, quiet, logs)
        learned = state._replace(model=model)
        odds = log_odds_of(class_shares(logs))
        trace = NO_TRACE._replace(history=np.pad(odds, ((0, 0), (0, 1))))  # there are no updates
        return Learned(learned, trace, codes, order)

    def outputs(self, state: State, X: ArrayLike) -> np.ndarray:
        """Logarithms of the densities of classes."""
        return state.model.outputs(check_new_X(self.options, X, state.features))

    def check_can_stream(self) -> None:
        """Nothing has to be known of all rows."""

    def _begun(self, classes: np.ndarray, features: Features) -> State:
        """A state without components."""
        mixture = new_mixture(self.kind, classes.size, features.count, self.most, self.rho)
        model = MixtureModel(mixture)
        return State(model, classes, features, margins=np.empty(0))


def class_shares(logs: np.ndarray) -> np.ndarray:
    """The probabilities of classes by the logarithms of their densities."""
    logs = np.where(np.isfinite(logs).any(axis=1, keepdims=True), logs, 0.0)  # nothing is known
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def log_odds_of(shares: np.ndarray) -> np.ndarray:
    """The log-odds of each class; of two classes, of the second."""
    with np.errstate(divide="ignore"):
        return logit(shares[:, 1:] if shares.shape[1] == 2 else shares)


def mixture_of(state: State) -> MixtureModel:
    assert isinstance(state.model, MixtureModel)
    return state.model


def row_numbers(sample_weight: ArrayLike | None, rows: int) -> np.ndarray:
    """The numbers of the rows, each as often as its weight says."""
    times = check_weights(sample_weight, rows)
    if (odd := np.flatnonzero(times != np.floor(times))).size:
        raise ValueError(
            "NOCA counts rows: sample_weight must be whole numbers, got "
            f"{times[odd[0]]} (row {odd[0]})."
        )
    return np.repeat(np.arange(rows, dtype=np.int64), times.astype(np.int64))
