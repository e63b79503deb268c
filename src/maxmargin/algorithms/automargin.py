"""A mixture of experts that need no scaling and no tuning: the learner for streams."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from maxmargin._validation import Interval, StrOptions
from maxmargin.algorithms.bound_arguments import bound
from maxmargin.estimator import OnlineClassifier
from maxmargin.estimator.parameters import Facts
from maxmargin.experts.expert_table import MIXTURES, TABLES, ExpertTable
from maxmargin.experts.landmark_features import NEAR_LANDMARKS
from maxmargin.experts.random_features import BY_JOINED_RANGES, BY_RANGES, FIRST_ROWS
from maxmargin.models.expert_model import ExpertModel
from maxmargin.models.model_formulas import Planes
from maxmargin.models.spec import MixtureSpec
from maxmargin.training.inputs import shown
from maxmargin.training.platt import Sigmoids
from maxmargin.training.protocol import Options
from maxmargin.training.state import State

# Their matrix takes 8 MB for each class.
MOST_FULL_COLUMNS = 1000


@dataclass(eq=False, repr=False, kw_only=True)
class AutoMargin(OnlineClassifier):
    """A mixture of experts that need no scaling of features and no tuning, for streams.

    ::

        p = sum_e w_e p_e                                predict the likelier class
        w_e <- w_e p_e(y) / p(y)                         experts that expected the label gain
        w_e <- (1 - 1 / (t + 1)) w_e + 1 / ((t + 1) N)   and all keep a share, at trial t

    The N = 17 experts are passive-aggressive learners, AROW, logistic regression by implicit steps
    of Newton's method, and AdaGrad, with several parameters each. Nine of them see standardized
    columns: values less the mean of the column so far, in units of its standard deviation. (Sparse
    columns are not centered, so that sparse rows stay sparse, and without an intercept no column
    is.) Others divide each column by its largest value so far, or all columns by the largest value
    of all, and one uses columns as they are. So the units of columns do not matter to most experts,
    nor do their offsets to those on standardized columns. The probability ``p_e`` of an expert is a
    sigmoid of its output; the sigmoid is learned as well. All experts read a row in one pass.

    Sixteen experts have a step size for each column. One has a matrix for all pairs of columns, for
    columns that act together: an extended Kalman filter for logistic regression, on standardized
    columns within 10 deviations of their means, whose predictions are the more cautious the less
    it knows about a row like this. Its time and memory grow with the square of the columns, so that
    it leaves the mixture after the first row with a value beyond the first `full_matrix_columns`
    columns; the others take over its weight in proportion to theirs. So rows of many columns are
    learned as without it, and a stream whose names never end does not need ever more memory.

    Labels of streams often depend on those before them, which no feature shows. So the argument of
    each sigmoid has one more term, the surprise of the row learned from last (1 if it was of the
    positive class, else 0, less its probability in the mixture), times a coefficient that begins
    with 0 and is learned as well. All predictions, also those of many rows at once and of exported
    models, are for a row that comes next. Where labels do not depend on each other, as in shuffled
    data, the coefficients stay near 0.

    Several classes are learned one-vs-rest, by one mixture each.

    With ``kernel="rbf"`` there are 32 more experts, for boundaries that are not linear: 4 rules, in
    8 widths of a Gaussian kernel. Four are the median distance of the first 32 rows, a half, a
    quarter and an eighth of it, where columns are measured by their ranges in these rows. The
    others are a half and a quarter, and a half and the whole of that distance, where a column of
    range ``r_j`` is measured by ``sqrt(r_j**2 + r**2)``, with the root mean square r of all ranges.
    In the last two widths the features of a row are its kernel values with landmarks, projected:
    rows from the 33rd on that differ from the landmarks before them, as many as `n_components`, at
    most 512. They need no more of them where there are many columns. All others are random Fourier
    features. Until the 33rd row the rows are kept and the linear experts predict; the others learn
    from these rows together with it. Columns that do not vary in the first 32 rows, or come later,
    have no part in the features, only in the linear experts. Memory is constant: it does not depend
    on the number of rows.

    Parameters
    ----------
    kernel : {"linear", "rbf"}, default="linear"
        With "rbf" there are experts on random features, too. A linear problem loses no more by
        them than `max_log_loss` says, but a row takes longer: each class has `n_components` weights
        for each of 32 experts.
    n_components : int, default=256
        With ``kernel="rbf"``, the number of features of each width: random ones, cosines and sines
        of half as many directions, or those of landmarks.
    full_matrix_columns : int, default=64
        The number of columns up to which there is the expert with a full matrix, at most 1000; 0
        for none. With 8 columns a row takes 1.2 times as long as without it, with 64 columns 1.5
        times.
    fit_intercept : bool, default=True
        Learn an intercept, as the weight of one more column that is always 1.
    max_iter : int, default=1
        Passes of `fit` over the data. From the second pass on, experts are weighted by rows that
        they have already learned, which makes probabilities overconfident: for data in memory use
        `MaxMargin` instead.
    shuffle : bool, default=True
        Learn from the rows in a new random order in each pass of `fit`.
    random_state : int, RandomState instance or None, default=None
        Determines the orders, and the random features.
    warm_start : bool, default=False
        Let `fit` continue from the current model.
    class_weight : dict or "balanced", default=None
        Weights of classes, by label, which multiply sample weights. "balanced" gives all classes
        the same total weight, on a stream by the rows so far. Experts learn from a row of weight s
        according to their rules (`docs/weights.md`), and the weights of experts use its likelihood
        raised to the power s.
    verbose : int, default=0
        Show a progress bar during `fit` on a terminal.

    Attributes
    ----------
    weights_ : ndarray of shape (1, n_experts) or (n_classes, n_experts)
        The weights of the experts in the mixture of each class, with sum 1; 0 for an expert that
        has left.
    experts_ : list of str
        Descriptions of the experts.
    mean_coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        With ``kernel="linear"``: the mean of the experts' weights of columns, by `weights_`, as
        log-odds per unit of a column (of the full matrix's expert at the mean of all columns). It
        shows which columns matter, but does not predict:
        `decision_function` is the log-odds of the mean probability, and follows the last label.
    mean_intercept_ : ndarray of shape (1,) or (n_classes,)
        The mean of the experts' intercepts, in the same way.
    widths_ : ndarray of shape (8,)
        With ``kernel="rbf"``, after 32 rows: the widths of the kernels, in the units of columns
        that are described above.
    classes_ : ndarray of shape (n_classes,)
        The labels; for two classes the second is the positive one.
    n_iter_ : int
        Passes made by the last `fit`.
    n_updates_, n_mistakes_ : int
        Updates (summed over problems; each row is one) and mistakes during learning.
    converged_ : bool
        Always False.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    columns_ : dict
        The columns of features named in dicts (see `learn_one`).

    Notes
    -----
    Guarantee: `max_log_loss`. `decision_function` gives the log-odds of the mixture, and
    `predict_proba` its probabilities, for more than two classes those of one class against the
    rest, normalised. There is no hyperplane, and so no `coef_` and no certificate, but a
    `mean_coef_`.

    References
    ----------
    M. Herbster and M. Warmuth, "Tracking the best expert", Machine Learning 32, 1998; experts:
    K. Crammer et al., "Online passive-aggressive algorithms", JMLR 7, 2006; K. Crammer, A. Kulesza
    and M. Dredze, "Adaptive regularization of weight vectors", NIPS 2009; J. Duchi, E. Hazan and
    Y. Singer, "Adaptive subgradient methods", JMLR 12, 2011; Kalman filter: J. de Vilmarest and
    O. Wintenberger, "Stochastic online optimization using Kalman recursion", JMLR 22, 2021;
    scales: S. Ross, P. Mineiro and J. Langford, "Normalized online learning", UAI 2013; random
    features: A. Rahimi and B. Recht, "Random features for large-scale kernel machines", NIPS 2007;
    in one pass, with a width and a rate to be tuned: J. Lu, S. Hoi, J. Wang, P. Zhao and Z.-Y. Liu,
    "Large scale online kernel learning", JMLR 17, 2016.

    Examples
    --------
    >>> from maxmargin import AutoMargin
    >>> clf = AutoMargin()
    >>> for _ in range(20):
    ...     clf = clf.learn_one({"size": 2.0, "price": 9000.0}, "large", grow=True)
    ...     clf = clf.learn_one({"size": 1.0, "price": 4000.0}, "small", grow=True)
    >>> clf.predict_one({"size": 2.1, "price": 8000.0})
    'large'
    >>> clf.predict_proba_one({"size": 2.1, "price": 8000.0})["large"] > 0.8
    True

    A chessboard of nine squares, each row predicted before it is learned:

    >>> import numpy as np
    >>> from maxmargin.evaluate import progressive
    >>> X = np.random.default_rng(0).uniform(size=(4000, 2))
    >>> y = np.floor(3 * X).sum(axis=1) % 2
    >>> for kernel in ("linear", "rbf"):
    ...     result = progressive(AutoMargin(kernel=kernel, random_state=0), X, y)
    ...     print(kernel, result.accuracy > 0.8)
    linear False
    rbf True
    """

    kernel: str = "linear"
    n_components: int = 256
    full_matrix_columns: int = 64
    max_iter: int = 1

    facts = Facts(
        guarantee="nearly the log loss of the best sequence of experts",
        updates="-",
        drift=True,
        paper="Herbster & Warmuth 1998",
        cost="16·d + d² up to 64 columns",
        kernel=False,
        certificate=False,
    )
    _parameter_constraints = {
        "kernel": [StrOptions(set(MIXTURES))],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "full_matrix_columns": [Interval(Integral, 0, MOST_FULL_COLUMNS, closed="both")],
    }
    takes_several: ClassVar[bool] = False
    settles: ClassVar[bool] = False

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.kernel == "rbf" and self.n_components % 2:
            raise ValueError(
                "The 'n_components' parameter of AutoMargin must be even, for cosines and sines. "
                f"Got {self.n_components!r} instead."
            )

    def _spec(self) -> MixtureSpec:
        return MixtureSpec(
            fit_intercept=self.fit_intercept,
            kernel=self.kernel,
            n_components=self.n_components,
            full_matrix_columns=self.full_matrix_columns,
            mixture=tuple(one.kind for one in MIXTURES[self.kernel]),
        )

    def _rule(self, p: float) -> ExpertTable:
        return TABLES[self.kernel]

    def _options(self) -> Options:
        """Random features are linear, so that nothing is asked of a kernel."""
        return replace(super()._options(), kernel="linear")

    # ------------------------------------------------------------------------------- probabilities
    def _has_probabilities(self) -> bool:
        return True

    def _log_odds(self, state: State, scores: np.ndarray) -> np.ndarray:
        return scores

    def _sigmoids(self, state: State) -> Sigmoids:
        problems = np.ones(state.model.problems())[shown(state)]
        return Sigmoids(0.0 * problems, problems, problems)

    # ----------------------------------------------------------------------------- what was learned
    def _model(self) -> ExpertModel:
        model = self._fitted().model
        assert isinstance(model, ExpertModel)
        return model

    @property
    def weights_(self) -> np.ndarray:
        return self._model().experts.mixture.weights[shown(self._fitted())].copy()

    @property
    def experts_(self) -> list[str]:
        return [one.name for one in MIXTURES[self.kernel]]

    @property
    def mean_coef_(self) -> np.ndarray:
        state = self._fitted()
        return self._mean().weights[shown(state), : state.features.count]

    @property
    def mean_intercept_(self) -> np.ndarray:
        return self._mean().intercepts[shown(self._fitted())]

    def _mean(self) -> Planes:
        if self.kernel != "linear":
            raise AttributeError("Only the experts of kernel='linear' have weights of columns.")
        return self._model().pooled()

    @property
    def widths_(self) -> np.ndarray:
        model = self._model()
        if not model.has_features():
            raise AttributeError("Only kernel='rbf' has widths.")
        first, second = model.experts.curves.medians
        if first == 0.0:
            raise AttributeError(
                f"The widths depend on the first {FIRST_ROWS} rows: fewer have been learned."
            )
        joined = BY_JOINED_RANGES + NEAR_LANDMARKS
        return np.concatenate([first * np.array(BY_RANGES), second * np.array(joined)])

    @property
    def certificate_(self) -> Any:
        raise AttributeError("A mixture has no hyperplane, and so no certificate.")

    @staticmethod
    @bound()
    def max_log_loss(log_loss: float, switches: int, experts: int, trials: int) -> float:
        """Bound on the log loss of a mixture, summed over all trials.

        ::

            L + ln N + ln T                  with the best expert, k = 0
            L + (k + 1) ln(N T)              with any sequence of experts that changes k times

        Parameters
        ----------
        log_loss : float
            L, that of the sequence of experts, by their probabilities.
        switches, experts, trials : int
            k, N and T.
        """
        if switches > (trials - 1 if experts > 1 else 0):
            raise ValueError(
                f"The 'switches' parameter must be below trials={trials}, and 0 for a single "
                f"expert. Got {switches} instead."
            )
        return log_loss + (switches + 1) * (math.log(experts) + math.log(trials))
