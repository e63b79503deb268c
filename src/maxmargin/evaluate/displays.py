"""Pictures, made as scikit-learn's displays are: of a stream, a fit, weights and a path."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from maxmargin._extras import plotting
from maxmargin.algorithms.conformalclassifier import ConformalClassifier
from maxmargin.algorithms.maxmargin import MaxMargin
from maxmargin.certificates.directed_rounding import text_down, text_up
from maxmargin.evaluate.certification import last_step, last_step_of_copy
from maxmargin.evaluate.margin_trace import HEADROOM, Moment, draw_run, replay
from maxmargin.evaluate.progressive_run import STEP, Progress, StreamLearner, progressive
from maxmargin.solvers.regularization_path import RegularizationPath
from maxmargin.training import inputs
from maxmargin.training.protocol import trainer_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Of more classes, weights are shown one by one.
MOST_PANELS = 9
PANELS_PER_ROW = 3
LONGEST_NAME = 40
# Bounds are drawn up to this multiple of the best margin, far above what is shown.
FAR = 1e6
COVERAGES = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)


class Display:
    """What all displays have once they are drawn."""

    ax_: Any
    figure_: Figure
    lines_: list[Any]


class ProgressiveDisplay(Display):
    """Mistakes of learners along a stream, and the accuracy in a window that slides along.

    Make it with `from_estimator`, or with `from_results` from what `progressive` returns.

    Parameters
    ----------
    results : list of Progress
    names : list of str, default=None
        In the legend; those of the learners by default.

    Attributes
    ----------
    ax_ : matplotlib axes, or an array of two
    figure_ : matplotlib figure

    Examples
    --------
    >>> from maxmargin import NORMA, Perceptron
    >>> from maxmargin.datasets import make_drifting
    >>> from maxmargin.evaluate import ProgressiveDisplay
    >>> X, y = make_drifting(2000, random_state=0)
    >>> learners = [Perceptron(), NORMA(rate=0.3, decay=0.1)]
    >>> display = ProgressiveDisplay.from_estimator(learners, X, y, window=500)
    >>> [result.name for result in display.results]
    ['Perceptron', 'NORMA']
    """

    def __init__(self, results: Sequence[Progress], *, names: Sequence[str] | None = None) -> None:
        self.results = list(results)
        self.names = [each.name for each in results] if names is None else list(names)
        if len(self.names) != len(self.results):
            raise ValueError(f"names has {len(self.names)} of {len(self.results)} results.")

    @classmethod
    def from_estimator(
        cls,
        estimator: StreamLearner | Sequence[StreamLearner],
        X: Any,
        y: Any = None,
        *,
        names: Sequence[str] | None = None,
        window: int = STEP,
        ax: Any = None,
        **options: Any,
    ) -> ProgressiveDisplay:
        """Let copies of learners predict each row before they learn from it, and draw that.

        Parameters
        ----------
        estimator : estimator or list of estimators
            Copies go on from what they know; they themselves stay as they are. Of a pipeline, the
            last step learns, from ``X`` as the fitted steps before it transform it.
        X, y : the stream, as `progressive` takes it; for pipelines, a matrix and its labels
        names, window, ax
            As in `plot`, and above.
        **options
            As `progressive` takes them: ``step``, ``delay``, ``classes``, ``sample_weight``.
        """
        estimators = list(estimator) if isinstance(estimator, Sequence) else [estimator]
        learners = copy.deepcopy(estimators)
        if any(isinstance(each, Pipeline) for each in learners):
            if y is None:
                raise ValueError(
                    "ProgressiveDisplay needs X and y for pipelines. For a stream, pass their last "
                    "steps, and streams.open(rows, recipe=...) with the steps before them."
                )
            results = [progressive(*last_step(each, X), y, **options) for each in learners]
        else:
            results = progressive(learners, X, y, **options)
        return cls(results, names=names).plot(ax, window=window)

    @classmethod
    def from_results(
        cls,
        results: Progress | Sequence[Progress],
        *,
        names: Sequence[str] | None = None,
        window: int = STEP,
        ax: Any = None,
    ) -> ProgressiveDisplay:
        """Draw what `progressive` has returned, for one learner or several; see `plot`."""
        estimators = [results] if isinstance(results, Progress) else results
        return cls(estimators, names=names).plot(ax, window=window)

    def plot(self, ax: Any = None, *, window: int = STEP) -> ProgressiveDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, or a pair of them, default=None
            A pair (the default) has mistakes above and recent accuracy below; one has the accuracy
            alone.
        window : int, default=1000
            Rows that the accuracy is about.
        """
        pair = _axes(ax, 2, (8, 6))
        recent = pair[-1]
        for result, name in zip(self.results, self.names, strict=True):
            accuracy = 100.0 * result.recent_accuracy(window)
            (line,) = recent.plot(result.trials, accuracy, label=name)
            for row in result.drifts:
                recent.axvline(row, color=line.get_color(), linestyle=":", linewidth=1)
            if pair.size == 2:
                label = f"{name}: {int(result.wrong.sum()):,} mistakes"
                pair[0].plot(result.trials, result.mistakes, label=label)
        recent.set(xlabel="rows", ylabel=f"right among the last {window:,}, %")
        if pair.size == 2:
            pair[0].set_ylabel("mistakes so far")
        pair[0].legend(loc="upper left" if pair.size == 2 else "best", frameon=False)
        for axes in pair:
            axes.grid(alpha=0.3)
        self.ax_, self.figure_ = (pair if pair.size == 2 else pair[0]), pair[0].figure
        return self


class MarginDisplay(Display):
    """Margin reached, and what no hyperplane can exceed, against the updates of a fit.

    Make it with `from_estimator`. Between the two lines is what is not known yet: where they meet,
    the largest margin is found and proved.

    Parameters
    ----------
    moments : list of Moment
        ``updates``, ``margin`` and ``bound`` in the course of the fit.
    name : str
        Of the learner.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure
    lines_ : list of the lines of bound and margin

    Examples
    --------
    >>> from maxmargin import PUMMA
    >>> from maxmargin.datasets import make_separable
    >>> from maxmargin.evaluate import MarginDisplay
    >>> X, y = make_separable(200, 5, gap=1.0, random_state=0)
    >>> display = MarginDisplay.from_estimator(PUMMA(delta=0.1), X, y)
    >>> last = display.moments[-1]
    >>> last.margin >= 0.9 * last.bound
    True
    """

    def __init__(self, moments: Sequence[Moment], *, name: str) -> None:
        self.moments, self.name = list(moments), name

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, X: Any, y: Any, *, name: str | None = None, ax: Any = None
    ) -> MarginDisplay:
        """Fit a copy of the learner twice, the second time in slow motion, and draw that.

        Rows are learned in the order given, pass after pass, with ``shuffle=False``: only such a
        fit can be followed from outside. It ends as any fit of the learner ends, by ``max_iter``,
        ``tol``, or when nothing is left to learn.

        Parameters
        ----------
        estimator : estimator
            A linear learner of this library with `partial_fit` and certificates, without a soft
            margin. Or a pipeline that ends with one: its first steps are fitted to ``X``, and
            margins are those in the space that the last step sees. Of more than two classes,
            one-vs-rest, the weakest is drawn.
        X : array or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        name : str, default=None
            In the legend; that of the learner by default.
        ax : matplotlib axes, default=None
            Where to draw; new ones by default, and those of another learner to compare the two.
        """
        estimator, X = last_step_of_copy(estimator, X, y)
        kind = type(estimator).__name__
        refused = TypeError(
            "MarginDisplay needs a learner with partial_fit and a certificate, such as PUMMA; "
            f"got {kind}."
        )
        if not (hasattr(estimator, "partial_fit") and hasattr(estimator, "shuffle")):
            raise refused
        for parameter, needed in (("kernel", "linear"), ("soft_margin", 0.0)):
            if (given := getattr(estimator, parameter, needed)) != needed:
                raise ValueError(f"MarginDisplay needs {parameter}={needed!r}, got {given!r}.")
        slow = clone(estimator).set_params(shuffle=False)
        X, _ = inputs.check_X(trainer_of(slow).options, X)
        y = inputs.check_y(y, X.shape[0])
        if np.unique(y).size > 2 and getattr(slow, "multiclass", "ovr") != "ovr":
            raise ValueError(
                "MarginDisplay needs multiclass='ovr' for several classes, got "
                f"{slow.multiclass!r}."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the picture says it
            slow.fit(X, y)
        if not hasattr(slow, "certificate_"):
            raise refused
        return cls(list(replay(slow, X, y)), name=name or kind).plot(ax)

    def plot(self, ax: Any = None) -> MarginDisplay:
        """Draw, on new axes by default."""
        (ax,) = _axes(ax, 1, (7, 4.2))
        alone = not ax.lines
        top = np.inf if alone else ax.get_ylim()[1]
        bottom = 0.0 if alone else ax.get_ylim()[0]
        last = self.moments[-1]
        best = last.bound if np.isfinite(last.bound) else max(last.margin, 0.0)
        (probe,) = ax.plot([], [])
        color = probe.get_color()
        probe.remove()
        reached = {
            "color": color,
            "label": f"{self.name}: margin, {text_down(last.margin, 3)} in the end",
        }
        proved = {
            "color": color,
            "label": f"{self.name}: at most {text_up(last.bound, 3)}",
            "ls": "--",
        }
        self.lines_ = draw_run(ax, self.moments, FAR * best, reached, proved)
        ax.set_xlabel("updates")
        ax.set_xscale("log")
        ends = [line.get_ydata()[-1] for line in ax.lines]
        top = max(min(top, HEADROOM * best), 1.15 * max(ends))
        ax.set_ylim(min(bottom, 1.5 * min(ends)), top)
        ax.set_ylabel("margin")
        ax.grid(alpha=0.3)
        ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class WeightsDisplay(Display):
    """The largest weights of a linear classifier, with the names of their features.

    Make it with `from_estimator`.

    Parameters
    ----------
    weights : array of shape (n_features,), or (n_classes, n_features)
        One row for two classes, else one for each.
    names : array of str of shape (n_features,)
    classes : array
        All labels.

    Attributes
    ----------
    ax_ : matplotlib axes, or an array with those of each class
    figure_ : matplotlib figure

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import AMIRA
    >>> from maxmargin.evaluate import WeightsDisplay
    >>> X, y = np.eye(3), ["ham", "spam", "spam"]
    >>> clf = AMIRA(random_state=0).fit(X, y)
    >>> display = WeightsDisplay.from_estimator(clf, feature_names=["hello", "cheap", "winner"])
    >>> [text.get_text() for text in display.ax_.get_yticklabels()][-1]
    'hello'
    """

    def __init__(self, weights: np.ndarray, *, names: Any, classes: Any) -> None:
        self.weights = np.atleast_2d(weights)
        self.names, self.classes = np.asarray(names), np.asarray(classes)
        width = self.weights.shape[1]
        if self.names.size != width:
            raise ValueError(f"There are {self.names.size:,} names of {width:,} features.")

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        n: int = 20,
        class_: Any = None,
        feature_names: Any = None,
        ax: Any = None,
    ) -> WeightsDisplay:
        """Draw the weights of a fitted classifier.

        Parameters
        ----------
        estimator : estimator
            Any with ``coef_`` and ``classes_``, an `AutoMargin`, whose ``mean_coef_`` is drawn, or
            a pipeline that ends with one.
        n, class_, ax
            As in `plot`.
        feature_names : array of str, default=None
            By default the names that a table or dicts had, those that a pipeline gives, or else
            x0, x1, ...
        """
        check_is_fitted(estimator)
        clf = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        coef = getattr(clf, "coef_", None)
        coef = getattr(clf, "mean_coef_", None) if coef is None else coef
        if coef is None:
            raise TypeError(
                f"WeightsDisplay needs a linear classifier with coef_, got {type(clf).__name__}."
            )
        weights = coef.toarray() if sparse.issparse(coef) else np.asarray(coef)
        names = feature_names
        if names is None:
            names = _feature_names(estimator, clf, np.atleast_2d(weights).shape[1])
        return cls(weights, names=names, classes=clf.classes_).plot(ax, n=n, class_=class_)

    def plot(self, ax: Any = None, *, n: int = 20, class_: Any = None) -> WeightsDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, or an array of them, default=None
            Where to draw: one for two classes or one ``class_``, else one for each class.
        n : int, default=20
            So many weights at most, the largest by size; those that are 0 are left out.
        class_ : label, default=None
            Whose weights to draw; by default those of all classes, if there are up to nine.
        """
        if not isinstance(n, (int, np.integer)) or n < 1:
            raise ValueError(f"n must be a whole number of at least 1, got {n!r}.")
        rows = self._rows(class_)
        panels = self._panels(ax, len(rows), min(n, self.weights.shape[1]))
        for axes, (title, weights) in zip(panels, rows, strict=True):
            self._draw(axes, weights, n)
            axes.set_title(title, fontsize="medium")
        self.ax_ = panels[0] if panels.size == 1 else panels
        self.figure_ = panels[0].figure
        return self

    def _rows(self, class_: Any) -> list[tuple[str, np.ndarray]]:
        """Weights to draw, and what stands above them."""
        labels = self.classes.tolist()
        if class_ is not None and class_ not in labels:
            raise ValueError(f"class_ must be one of {labels[:10]}, got {class_!r}.")
        if self.weights.shape[0] == 1:
            first, second = labels if class_ != labels[0] else labels[::-1]
            sign = 1.0 if class_ != labels[0] else -1.0
            return [(f"← {first}     weights     {second} →", sign * self.weights[0])]
        chosen = labels if class_ is None else [class_]
        if len(chosen) > MOST_PANELS:
            raise ValueError(f"There are {len(chosen)} classes: choose one of them by class_.")
        return [(f"{label}", self.weights[labels.index(label)]) for label in chosen]

    @staticmethod
    def _panels(ax: Any, count: int, bars: int) -> np.ndarray:
        if ax is None:
            across = min(count, PANELS_PER_ROW)
            down = -(-count // across)
            size = (max(6.0, 4.2 * across), down * (1.2 + 0.24 * bars))
            pyplot = plotting("matplotlib.pyplot")
            _, grid = pyplot.subplots(
                down, across, figsize=size, layout="constrained", squeeze=False
            )
            for unused in grid.ravel()[count:]:
                unused.set_axis_off()
            return grid.ravel()[:count]
        panels = np.ravel(ax)
        if panels.size != count:
            raise ValueError(f"ax must have {count} axes, one for each class, got {panels.size}.")
        return panels

    def _draw(self, axes: Any, weights: np.ndarray, n: int) -> None:
        _draw_bars(axes, weights, self.names, n)
        axes.axvline(0.0, color="0.5", linewidth=0.8)


def _draw_bars(axes: Any, values: np.ndarray, names: np.ndarray, n: int) -> None:
    """Bars with names, the largest by size on top."""
    largest = np.argsort(-np.abs(values), kind="stable")[:n]
    largest = largest[values[largest] != 0.0][::-1]
    shown, places = values[largest], np.arange(largest.size)
    axes.barh(places, shown, color=np.where(shown > 0.0, "C0", "C1"), height=0.7)
    labels = [str(name) for name in names[largest]]
    labels = [f"{n[: LONGEST_NAME - 1]}…" if len(n) > LONGEST_NAME else n for n in labels]
    axes.set_yticks(places, labels)
    axes.margins(y=0.01)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)


class ScalesDisplay(Display):
    """Which columns matter to ``MaxMargin(kernel="auto")``: their scales.

    Make it with `from_estimator`.

    Parameters
    ----------
    scales : array of shape (n_features,)
        Scales of standardized columns, the largest 1.
    names : array of str of shape (n_features,)

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import MaxMargin
    >>> from maxmargin.evaluate import ScalesDisplay
    >>> clf = MaxMargin(kernel="auto").fit(*load_iris(return_X_y=True, as_frame=True))
    >>> display = ScalesDisplay.from_estimator(clf)
    >>> [text.get_text() for text in display.ax_.get_yticklabels()][-1]
    'petal length (cm)'
    """

    def __init__(self, scales: np.ndarray, *, names: Any) -> None:
        self.scales, self.names = np.asarray(scales), np.asarray(names)
        if self.names.size != self.scales.size:
            raise ValueError(
                f"There are {self.names.size:,} names of {self.scales.size:,} columns."
            )

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, n: int = 20, feature_names: Any = None, ax: Any = None
    ) -> ScalesDisplay:
        """Draw the scales of a fitted classifier.

        Parameters
        ----------
        estimator : estimator
            ``MaxMargin(kernel="auto")``, or a pipeline that ends with it.
        n, ax
            As in `plot`.
        feature_names : array of str, default=None
            By default as in :class:`WeightsDisplay`.
        """
        check_is_fitted(estimator)
        clf = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        if (scales := getattr(clf, "column_scales_", None)) is None:
            raise TypeError(
                "ScalesDisplay needs column_scales_, which MaxMargin(kernel='auto') has, got "
                f"{type(clf).__name__}."
            )
        names = feature_names
        if names is None:
            names = _feature_names(estimator, clf, scales.size)
        return cls(scales, names=names).plot(ax, n=n)

    def plot(self, ax: Any = None, *, n: int = 20) -> ScalesDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None
        n : int, default=20
            So many columns at most, those with the largest scales.
        """
        if not isinstance(n, (int, np.integer)) or n < 1:
            raise ValueError(f"n must be a whole number of at least 1, got {n!r}.")
        if ax is None:
            size = 6.0, 1.2 + 0.24 * min(n, self.scales.size)
            _, ax = plotting("matplotlib.pyplot").subplots(figsize=size, layout="constrained")
        _draw_bars(ax, self.scales, self.names, n)
        ax.set_xlabel("scale of the standardized column")
        self.ax_, self.figure_ = ax, ax.figure
        return self


class PathDisplay(Display):
    """Leave-one-out error and loss against lambda, the `soft_margin` of `MaxMargin`.

    Make it with `from_estimator`, or with `from_path` from what `MaxMargin.path` returns. A dotted
    line marks the lambda with the smallest loss, which ``soft_margin="auto"`` takes.

    Parameters
    ----------
    path : RegularizationPath

    Attributes
    ----------
    ax_ : matplotlib axes, or an array of two
    figure_ : matplotlib figure
    lines_ : list of the lines of error and loss, or of error

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import MaxMargin
    >>> from maxmargin.evaluate import PathDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = PathDisplay.from_estimator(MaxMargin(), X, y)
    >>> display.path.soft_margin
    0.01
    """

    def __init__(self, path: RegularizationPath) -> None:
        self.path = path

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        lambdas: Any = None,
        ax: Any = None,
    ) -> PathDisplay:
        """Follow the path of a copy of the learner, and draw it.

        Parameters
        ----------
        estimator : MaxMargin, or a pipeline that ends with one
            The steps before it are fitted to all of ``X``.
        X, y, sample_weight, lambdas
            As `MaxMargin.path` takes them.
        ax
            As in `plot`.
        """
        learner, X = last_step_of_copy(estimator, X, y)
        if not isinstance(learner, MaxMargin):
            raise TypeError(f"PathDisplay needs MaxMargin, got {type(learner).__name__}.")
        path = clone(learner).path(X, y, sample_weight, lambdas=lambdas)
        return cls(path).plot(ax)

    @classmethod
    def from_path(cls, path: RegularizationPath, *, ax: Any = None) -> PathDisplay:
        """Draw what `MaxMargin.path` has returned, or the attribute `path_`; see `plot`."""
        return cls(path).plot(ax)

    def plot(self, ax: Any = None) -> PathDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, or a pair of them, default=None
            A pair (the default) has errors above and losses below; one has the errors alone.
        """
        pair, path = _axes(ax, 2, (7, 5.5)), self.path
        how = "leave-one-out" if path.method == "leave-one-out" else "cross-validated"
        shown = [(100.0 * path.loo_error, f"{how} error, %"), (path.loo_loss, f"{how} loss")]
        self.lines_ = []
        for axes, (values, label) in zip(pair, shown, strict=False):
            self.lines_ += axes.plot(path.lambdas, values, marker="o", markersize=4)
            axes.axvline(path.soft_margin, color="0.4", linestyle=":")
            axes.set(xscale="log", ylabel=label)
            axes.grid(alpha=0.3)
        pair[0].set_title(
            f"soft_margin={path.soft_margin:.3g}: {100.0 * path.loo_error[path.best]:.3g} % wrong"
        )
        pair[-1].set_xlabel("soft_margin (lambda)")
        self.ax_, self.figure_ = (pair if pair.size == 2 else pair[0]), pair[0].figure
        return self


class AbstentionDisplay(Display):
    """The accuracy on the rows that a learner answers, and the share of these rows.

    A row is answered if its prediction set has exactly one class. A higher coverage means larger
    sets, so fewer answers, which are right more often.

    Make it with `from_estimator`, or from results of `progressive` with several coverages.

    Parameters
    ----------
    coverages : array of shape (n_points,)
    answered : array of shape (n_points,)
        The shares of rows that were answered.
    accuracies : array of shape (n_points,)
        The shares of answered rows whose class was right.
    accuracy : float
        Of all rows.

    Attributes
    ----------
    ax_ : matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import PassiveAggressive
    >>> from maxmargin.evaluate import AbstentionDisplay
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(3000, 2))
    >>> y = X[:, 0] + random.logistic(size=3000) > 0.0
    >>> clf = PassiveAggressive(C=0.01)
    >>> display = AbstentionDisplay.from_estimator(clf, X, y, coverages=[0.8, 0.95])
    >>> bool(display.answered[0] > display.answered[1])
    True
    >>> bool(display.accuracies[0] < display.accuracies[1])
    True
    """

    def __init__(
        self,
        coverages: Sequence[float],
        answered: Sequence[float],
        accuracies: Sequence[float],
        accuracy: float,
    ) -> None:
        self.coverages, self.answered = np.asarray(coverages), np.asarray(answered)
        self.accuracies, self.accuracy = np.asarray(accuracies), float(accuracy)

    @classmethod
    def from_estimator(
        cls,
        estimator: StreamLearner,
        X: Any,
        y: Any = None,
        *,
        coverages: Sequence[float] = COVERAGES,
        ax: Any = None,
        **options: Any,
    ) -> AbstentionDisplay:
        """Let copies of an online learner predict each row before they learn from it.

        Parameters
        ----------
        estimator : online learner, or a fitted pipeline that ends with one
            Copies go on from what it knows, one for each coverage.
        X, y : the stream, as `progressive` takes it
            It is read once.
        coverages : list of float
        ax : matplotlib axes, default=None
        **options
            As `progressive` takes them.
        """
        learner, X = last_step(estimator, X)
        if isinstance(learner, ConformalClassifier):
            learner = learner.clf
        if not hasattr(learner, "partial_fit"):
            raise TypeError(
                "AbstentionDisplay needs a learner with partial_fit, such as AutoMargin; got "
                f"{type(learner).__name__}."
            )
        learners = [ConformalClassifier(learner, coverage=each) for each in coverages]
        return cls.from_results(progressive(learners, X, y, **options), coverages, ax=ax)

    @classmethod
    def from_results(
        cls, results: Sequence[Progress], coverages: Sequence[float], *, ax: Any = None
    ) -> AbstentionDisplay:
        """Draw the results of `progressive` for `ConformalClassifier` of these coverages."""
        answered = [each.answered for each in results]
        accuracies = [each.answered_accuracy for each in results]
        return cls(coverages, answered, accuracies, results[0].accuracy).plot(ax)

    def plot(self, ax: Any = None) -> AbstentionDisplay:
        """Draw, on new axes by default."""
        (ax,) = _axes(ax, 1, (6, 4))
        ax.plot(self.answered, self.accuracies, marker="o")
        for coverage, x, y in zip(self.coverages, self.answered, self.accuracies, strict=True):
            ax.annotate(f"{coverage:g}", (x, y), textcoords="offset points", xytext=(4, 4))
        ax.axhline(self.accuracy, color="gray", linestyle=":", label="all rows answered")
        ax.set(xlabel="share of rows answered", ylabel="accuracy on these")
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _feature_names(estimator: BaseEstimator, clf: BaseEstimator, width: int) -> Any:
    """Names of features as a pipeline, a table or dicts gave them, or else numbers."""
    if estimator is not clf and len(estimator) > 1:
        try:
            return estimator[:-1].get_feature_names_out()
        except (AttributeError, ValueError):  # some step cannot tell
            return [f"x{k}" for k in range(width)]
    if hasattr(clf, "feature_names_in_"):
        return clf.feature_names_in_
    columns = getattr(clf, "columns_", None) or {}
    by_place = {place: name for name, place in columns.items()}
    return [by_place.get(k, f"x{k}") for k in range(width)]


def _axes(ax: Any, count: int, size: tuple[float, float]) -> np.ndarray:
    """The given axes, at most ``count``, or so many new ones, one above the other.

    New figures are made by pyplot, so that notebooks show them.
    """
    if ax is None:
        pyplot = plotting("matplotlib.pyplot")
        _, ax = pyplot.subplots(count, 1, sharex=True, figsize=size, layout="constrained")
    found = np.ravel(ax)
    if not 1 <= found.size <= count:
        wanted = "axes or a pair of them" if count == 2 else "axes"
        raise ValueError(f"ax must be {wanted}, got {found.size}.")
    return found
