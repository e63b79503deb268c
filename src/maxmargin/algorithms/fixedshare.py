"""A vote of learners whose weights are shared: moving targets without tuning."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from maxmargin._validation import Interval, Options, StrOptions
from maxmargin.algorithms.amira import AMIRA
from maxmargin.algorithms.bound_arguments import POSITIVE, bound, validates
from maxmargin.algorithms.movingtargets import Comparison
from maxmargin.algorithms.norma import NORMA, decaying_length
from maxmargin.algorithms.passiveaggressive import PassiveAggressive
from maxmargin.algorithms.perceptron import Perceptron
from maxmargin.algorithms.trackingalma import TrackingALMA, tracking_length
from maxmargin.estimator import KernelClassifier, RuleClassifier
from maxmargin.estimator.parameters import Budgeted, Facts, ScaledIntercept
from maxmargin.kernels.functions import KERNELS
from maxmargin.models.spec import LinearSpec, ModelSpec, VoteSpec, WeightsSpec
from maxmargin.models.vote_model import VoteModel, VoteRule
from maxmargin.training.online import OnlineTrainer
from maxmargin.training.passes import RunPasses
from maxmargin.training.protocol import Options as TrainingOptions
from maxmargin.training.state import State, online_model

# NORMA with w = 0 at first depends on rate * decay and margin / rate alone: rates are not tried.
DECAYS = (0.0, 1e-4, 1e-3, 3e-3, 0.01, 0.02, 0.03, 0.05, 0.1)
MARGINS = (0.0, 1.0, 4.0)
CAPS = (0.1, 0.3, 1.0, 10.0)
EPSILONS = (0.1, 0.5)
# Parameters that default experts have from the learner that holds them.
GIVEN_TO_EXPERTS = (
    *("fit_intercept", "intercept_scaling", "soft_margin", "kernel", "gamma", "degree", "coef0"),
    *("kernel_dtype", "device", "cache_size", "budget", "on_full"),
)


@dataclass(eq=False, repr=False, kw_only=True)
class FixedShare(Budgeted, ScaledIntercept, KernelClassifier):
    """Fixed-share vote of many learners, weighted by their recent mistakes.

    ::

        predict the class of the larger weight
        w_i <- w_i exp(-rate)                        of each expert that was wrong
        w_i <- (1 - share) w_i + share / (K - 1) * (sum of all others)

    The learners, called experts, learn from every row independently. Sharing weights lets an expert
    recover after a long series of mistakes, so the best rate, decay or margin need not be known in
    advance, and may change.

    Parameters
    ----------
    learners : list of learners, default=None
        The experts: any learners with a rule, without averages and without a soft margin. By
        default 34: `NORMA` with nine decays and three margins, `PassiveAggressive` with four C, two
        of `AMIRA` and the `Perceptron`; the other parameters then apply to them (`fit_intercept`,
        `kernel`, `budget`). The defaults suit rows of moderate norm: scale the features.
    share : float, default=0.001
        Share of its weight that an expert gives to the others in each trial, below 1; about the
        number of changes of the best expert divided by the number of trials.
    rate : float, default=0.5
        How much a mistake costs.
    <shared>
    weights_ : ndarray of shape (n_experts,)
        The weights of the experts, which add up to 1.
    experts_ : list
        The experts, as unfitted learners.
    expert_mistakes_ : ndarray of shape (n_experts,)
        Number of mistakes of each expert.

    Notes
    -----
    Guarantee: `mistake_bound`, for any sequence of experts that changes now and then. A vote has no
    single hyperplane: there is no margin, no `coef_` and no certificate.

    References
    ----------
    M. Herbster and M. Warmuth, "Tracking the best expert", Machine Learning 32, 1998; for votes
    Littlestone and Warmuth, "The weighted majority algorithm", Information and Computation 108,
    1994.

    Examples
    --------
    >>> from maxmargin import FixedShare, NORMA
    >>> grid = [NORMA(decay=decay) for decay in (0.0, 0.01, 0.1)]
    >>> clf = FixedShare(learners=grid)
    >>> clf = clf.partial_fit([[0.0, 1.0], [2.0, 1.0]] * 9, [0, 1] * 9, classes=[0, 1])
    >>> clf.predict([[5.0, 0.0]]).tolist(), float(clf.weights_.sum().round(6))
    ([1], 1.0)
    """

    learners: Any = None
    share: float = 0.001
    rate: float = 0.5
    max_iter: int = 20

    facts = Facts(
        guarantee="nearly the mistakes of the best sequence of experts",
        updates="-",
        drift=True,
        paper="Herbster & Warmuth 1998",
        cost="K·d for K experts",
        certificate=False,
    )
    _parameter_constraints = {
        "learners": [list, tuple, None],
        "share": [Interval(Real, 0, 1, closed="left")],
        "rate": [Interval(Real, 0, None, closed="neither")],
        "kernel": [StrOptions(set(KERNELS) - {"precomputed"}), callable],
        "soft_margin": [Options(Real, {0.0})],
        "tol": [None],
    }
    takes_several: ClassVar[bool] = False
    settles: ClassVar[bool] = False

    def _experts(self) -> Sequence[Any]:
        if self.learners is not None:
            check_experts(self.learners, RuleClassifier)
            return self.learners  # type: ignore[no-any-return]
        return default_experts(**{name: getattr(self, name) for name in GIVEN_TO_EXPERTS})

    def _spec(self) -> VoteSpec:
        return VoteSpec(tuple(spec_of(learner) for learner in self._experts()))

    def _rule(self, p: Any) -> VoteRule:
        pairs = zip(self._experts(), p, strict=True)
        rules = tuple(learner._rule(own) for learner, own in pairs)
        return VoteRule(rules, math.exp(-self.rate), float(self.share))

    def _uses_weights(self) -> bool:
        return True  # an expert that is wrong loses more of its share

    def _new_trainer(self) -> VoteTrainer:
        bare = self._bare()
        parts = bare._rule, bare._spec, bare._run_passes
        return VoteTrainer(bare._options(), *parts, experts=bare._experts)

    def __learned__(self) -> dict[str, Any]:
        if (state := self.__state__()) is not None:
            check_same_experts(self._spec(), state)  # by a file's parameters its model is built
        return super().__learned__()

    # ----------------------------------------------------------------------------- what was learned
    def _vote(self) -> VoteModel:
        model = self._fitted().model
        assert isinstance(model, VoteModel)
        return model

    @property
    def weights_(self) -> np.ndarray:
        return self._vote().votes.weights.copy()

    @property
    def experts_(self) -> list[Any]:
        return [clone(learner) for learner in self._experts()]

    @property
    def expert_mistakes_(self) -> np.ndarray:
        return self._vote().votes.wrong.copy()

    @property
    def certificate_(self) -> Any:
        raise AttributeError("A vote has no hyperplane, and so no certificate.")

    @classmethod
    @validates(radius=POSITIVE)
    def tracking(
        cls, radius: float, trials: int, *, p: float = 2.0, rate: float = 0.5, **parameters: Any
    ) -> FixedShare:
        """A vote for targets of unknown margin, drift and noise, with the bound `tracking_bound`.

        Its experts learn from mistakes: `TrackingALMA` in the unit ball with rates ``1 / ((p - 1)
        X)``, half of that, and so on down to ``1 / (2 X T)``, and `NORMA` with ``alpha' lambda`` =
        0, 2, 1, and so on down to ``1 / T``. Each pair of neighbours has the ratio 2. `share` is
        ``1 / (T + 1)``, which costs less than 1 in the logarithm of the weights.

        Parameters
        ----------
        radius : float
            ``X >= |x_t|_p``; with an intercept its coordinate counts, with a kernel X**2 is the
            largest ``K(x, x)``.
        trials : int
            The number T of trials.
        p, rate : float
            The norm of the rows, and how much a mistake costs.
        **parameters
            Any other parameters of the experts, such as `kernel` or `fit_intercept`.

        Examples
        --------
        >>> from maxmargin import FixedShare
        >>> clf = FixedShare.tracking(radius=1.0, trials=1000, fit_intercept=False)
        >>> len(clf.learners)
        25
        """
        alma = [
            TrackingALMA(rate=each, radius=1.0, margin=0.0, p=p, **parameters)
            for each in _rates(radius, trials, p)
        ]
        norma = [
            NORMA(rate=1.0, decay=a / (1.0 + a), margin=0.0, p=p, **parameters)
            for a in _decays(trials)
        ]
        return cls(learners=[*alma, *norma], share=1.0 / (trials + 1), rate=rate)

    @staticmethod
    @bound(radius=POSITIVE, norm=POSITIVE)
    def tracking_bound(
        radius: float,
        norm: float,
        margin: float,
        trials: int,
        *,
        drift: float = 0.0,
        squared_drift: float = 0.0,
        losses: float = 0.0,
        p: float = 2.0,
        rate: float = 0.5,
    ) -> float:
        """Bound on the mistakes of the vote that `tracking` makes, which knows X and T alone.

        It holds for every sequence of comparison vectors: with m the least of what Theorems 2 and 4
        give for the experts, ``(rate m + ln K + 1) / ln(2 / (1 + exp(-rate)))``. For margins up to
        ``X B``, m is at most 4/3 of Theorem 2's bound for the best tuning, or that is above T.
        Proof in ``docs/theory.md``.

        Parameters
        ----------
        radius, trials, p, rate
            As for `tracking`.
        norm, margin, drift, squared_drift, losses : float
            B, mu, D1, D2 and K of the comparison vectors, as for `NORMA.tuned`. Where the squared
            drift is not given, Theorem 4 is left out.

        Examples
        --------
        >>> from maxmargin import FixedShare, TrackingALMA
        >>> facts = {"radius": 1.0, "norm": 1.0, "margin": 0.3, "drift": 3.14}
        >>> print(round(TrackingALMA.mistake_bound(**facts)), "if all of this is known")
        81 if all of this is known
        >>> print(round(FixedShare.tracking_bound(**facts, trials=1000)), "if nothing is")
        209 if nothing is
        """
        if margin <= 0.0:
            return math.inf
        # By theorem 2 for u / B, which is as long as the ball of the experts.
        length = tracking_length(1.0, drift / norm)
        moving = Comparison(radius, 1.0, margin / norm, losses / norm, p, length).checked(trials)
        rates, decays = _rates(radius, trials, p), _decays(trials)
        found = [moving.errors_at_rate(each) for each in rates]
        if squared_drift > 0.0 or drift == 0.0:
            for a in decays:  # what such experts predict does not depend on their rate
                length = decaying_length(norm, trials, drift, squared_drift, a)
                known = Comparison(radius, norm, margin, losses, p, length)
                found.append(known.errors_below(0.0))
        paid = rate * min(found) + math.log(len(rates) + len(decays))
        paid -= (trials - 1) * math.log1p(-1.0 / (trials + 1))
        return paid / _fall(rate)

    @staticmethod
    @bound()
    def mistake_bound(
        mistakes: int, switches: int, experts: int, trials: int, *, share: float, rate: float
    ) -> float:
        """Bound on the mistakes of the vote.

        ::

            (rate m + ln K + s ln((K - 1) / share) - (T - 1 - s) ln(1 - share)) / c
            c = ln(2 / (1 + exp(-rate)))

        Parameters
        ----------
        mistakes : int
            m, those of any sequence of experts, one for each trial,
        switches : int
            that changes s times.
        experts, trials : int
            K and T.
        share, rate : float
            The parameters of the learner.
        """
        if switches > (trials - 1 if experts > 1 else 0):
            raise ValueError(
                f"The 'switches' parameter must be below trials={trials}, and 0 for a single "
                f"expert. Got {switches} instead."
            )
        paid = rate * mistakes + math.log(experts) - (trials - 1 - switches) * math.log1p(-share)
        if switches:
            paid += switches * math.log((experts - 1) / share) if share > 0.0 else math.inf
        return paid / _fall(rate)


def _fall(rate: float) -> float:
    """By how much the logarithm of all weights falls, at least, when the vote is wrong."""
    return math.log(2.0 / (1.0 + math.exp(-rate)))


def _rates(radius: float, trials: int, p: float) -> list[float]:
    """Those of `TrackingALMA` in the unit ball, for any target and so many trials."""
    largest = 1.0 / ((p - 1.0) * radius)
    halvings = math.ceil(math.log2(max(1.0, 2.0 * trials / (p - 1.0))))
    return [largest * 0.5**k for k in range(halvings + 1)]


def _decays(trials: int) -> list[float]:
    """The ``alpha' lambda`` of `NORMA` for any target and so many trials."""
    return [0.0, *(2.0 * 0.5**k for k in range(math.ceil(math.log2(2.0 * trials)) + 1))]


class VoteTrainer(OnlineTrainer):
    """Lets experts learn, and their votes; ``experts`` are the learners that they are."""

    def __init__(
        self,
        options: TrainingOptions,
        rule: Callable[[float], Any],
        spec: Callable[[], ModelSpec],
        run: RunPasses,
        *,
        experts: Callable[[], Sequence[RuleClassifier]],
    ) -> None:
        super().__init__(options, rule, spec, run)
        self._experts = experts

    def check_structure(self, state: State) -> None:
        if self._checked is not online_model(state).spec:
            check_same_experts(self.spec, state)
        super().check_structure(state)

    def check_can_stream(self) -> None:
        for learner in self._experts():
            learner.check_can_stream()


def check_same_experts(spec: ModelSpec, state: State) -> None:
    """Refuse to go on with a vote of others."""
    if spec != online_model(state).spec:
        raise ValueError(
            "The 'learners' parameter of FixedShare cannot change on a fitted model, but for "
            "numbers like the rate that its experts learn by. Fit anew."
        )


@lru_cache(maxsize=8)
def default_experts(**given: Any) -> tuple[Any, ...]:
    """The experts that there are by default, with these parameters."""
    norma = [NORMA(rate=1.0, decay=d, margin=m, **given) for d in DECAYS for m in MARGINS]
    aggressive = [PassiveAggressive(C=C, **given) for C in CAPS]
    amira = [AMIRA(epsilon=epsilon, multiclass="ovr", **given) for epsilon in EPSILONS]
    return (*norma, *aggressive, *amira, Perceptron(**given))


def spec_of(learner: Any) -> WeightsSpec:
    """The specification of the model of an expert, which keeps no vectors for a certificate."""
    spec: WeightsSpec = learner._spec()
    if not isinstance(spec, LinearSpec):
        return spec
    return replace(spec, certified=spec.multiclass != "ovr" or spec.has_pairs())


def check_experts(learners: Sequence[Any], base: type) -> None:
    """Raise unless all are learners, derived from ``base``, whose outputs the loop sees."""
    the = "The 'learners' parameter of FixedShare"
    if not learners:
        raise ValueError(f"{the} must name at least one learner.")
    for k, learner in enumerate(learners):
        if not isinstance(learner, base):
            raise ValueError(
                f"{the} must be a list of learners of maxmargin that have a rule, but learners[{k}]"
                f" is {learner!r}."
            )
        learner.check_parameters()  # type: ignore[attr-defined]
        cannot = {
            "it has no partial_fit": not hasattr(learner, "partial_fit"),
            "it is a vote itself": hasattr(learner, "learners"),
            "its class_weight would be ignored: set that of FixedShare": learner.class_weight  # type: ignore[attr-defined]
            is not None,
            "it predicts by averaged weights": getattr(learner, "average", False),
            "its soft margin gives each row a coordinate": learner.soft_margin > 0.0,  # type: ignore[attr-defined]
            "it sees no rows with kernel='precomputed'": learner.kernel == "precomputed",  # type: ignore[attr-defined]
        }
        for why in (why for why, holds in cannot.items() if holds):
            raise ValueError(f"{the} cannot hold learners[{k}], {learner!r}: {why}.")
