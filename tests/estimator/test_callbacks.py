"""Callbacks of a fit: scikit-learn's where it has them, and the same hooks where it has not."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from maxmargin import NORMA, PUMMA, PassiveAggressive, Perceptron, load, save
from maxmargin.datasets import make_separable
from maxmargin.estimator import hooks
from maxmargin.evaluate import CertificateMonitor, certify


class Diary:
    """Writes down what it is told of."""

    def __init__(self, stop_after=None):
        self.events, self.stop_after, self.given = [], stop_after, None

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name} {context.task_id}")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None):
        self.events.append(f"end {context.task_name} {context.task_id}")
        self.given = X, y, metadata
        return context.task_name == "pass" and context.task_id == self.stop_after


@pytest.fixture(scope="module")
def rows():
    return make_separable(300, 5, gap=0.2, random_state=0)


@pytest.fixture(params=["as installed", "before 1.9"])
def hooked(request, monkeypatch):
    """Learners as they are, and as they are with a scikit-learn without callbacks."""
    if request.param == "as installed" or issubclass(Perceptron, hooks.CallbackSupportMixin):
        return lambda learner: learner
    monkeypatch.setattr("maxmargin.estimator.callbacks.with_callbacks", hooks.with_callbacks)

    def without(learner):
        kind = type(learner)
        names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        made = type(kind.__name__, (hooks.CallbackSupportMixin, kind), names)
        return made(**learner.get_params())

    return without


def test_every_full_pass_is_a_task(rows, hooked):
    diary = Diary()
    clf = hooked(PassiveAggressive(max_iter=3, shuffle=False)).set_callbacks(diary)
    clf.fit(*rows, sample_weight=np.ones(300))
    passes = [f"{what} pass {k}" for k in range(clf.n_iter_) for what in ("begin", "end")]
    assert diary.events == ["setup", "begin fit 0", *passes, "end fit 0", "teardown"]
    X, y, metadata = diary.given
    assert X.shape == rows[0].shape
    assert y.shape == rows[1].shape
    assert metadata["sample_weight"].sum() == 300


@pytest.mark.parametrize(
    "learner",
    [
        PUMMA(random_state=0),
        PUMMA(random_state=0, soft_margin=1.0),
        Perceptron(kernel="rbf", random_state=0),
        NORMA(max_iter=3, random_state=0),
    ],
    ids=["pairs", "soft margin", "kernel", "restless"],
)
def test_the_monitor_changes_nothing_and_ends_where_the_fit_ends(rows, hooked, learner):
    monitor = CertificateMonitor()
    clf = hooked(learner).set_callbacks(monitor).fit(*rows)
    alone = clone(learner).fit(*rows)
    X = rows[0]
    assert np.array_equal(clf.decision_function(X), alone.decision_function(X))
    last = monitor.passes[-1]
    assert (last.n_iter, last.updates) == (alone.n_iter_, alone.n_updates_)
    assert last.margin == pytest.approx(alone.certificate_.margin, rel=1e-12)
    assert last.bound == pytest.approx(alone.certificate_.bound, rel=1e-12)
    assert np.diff([each.updates for each in monitor.passes]).min() >= 0
    # Each bound is proved, so none is below the margin that was reached in the end.
    assert min(each.bound for each in monitor.passes) >= last.margin


def test_several_classes_and_several_fits(hooked):
    random = np.random.default_rng(0)
    centres = 4.0 * np.eye(3)
    y = np.arange(150) % 3
    X = centres[y] + random.uniform(-0.5, 0.5, (150, 3))
    monitor = CertificateMonitor()
    clf = hooked(Perceptron(margin=1.0, random_state=0)).set_callbacks(monitor)
    for seed in range(2):
        clf.set_params(random_state=seed).fit(X, y)
    assert len(monitor.runs) == 2
    assert monitor.passes[-1].margin == clf.certificate_.margin > 0.0
    assert certify(clf, X, y).margin == pytest.approx(monitor.passes[-1].margin)


def test_a_callback_can_end_a_fit(rows, hooked):
    diary = Diary(stop_after=1)
    clf = hooked(PUMMA(random_state=0)).set_callbacks(diary).fit(*rows)  # and nobody is warned
    assert diary.events[-4:] == ["begin pass 1", "end pass 1", "end fit 0", "teardown"]
    assert not clf.converged_


class Faulty(Diary):
    def on_fit_task_end(self, estimator, context):
        raise self.fault


@pytest.mark.parametrize("fault", [ValueError("no more"), KeyboardInterrupt()])
def test_what_goes_wrong_leaves_a_whole_learner(rows, hooked, fault):
    clf = hooked(PUMMA(random_state=0)).fit(*rows)
    before = clf.coef_.copy()
    faulty = Faulty()
    faulty.fault = fault
    with pytest.raises(type(fault)):
        clf.set_callbacks(faulty).fit(*rows)
    assert faulty.events[-1] == "teardown"
    if isinstance(fault, ValueError):
        assert np.array_equal(clf.coef_, before)
    assert clf.set_callbacks().fit(*rows).converged_


def test_files_and_pickles(rows, tmp_path):
    clf = PUMMA(random_state=0).set_callbacks(CertificateMonitor()).fit(*rows)
    save(clf, tmp_path / "model.mm")
    assert np.array_equal(load(tmp_path / "model.mm").coef_, clf.coef_)
    assert np.array_equal(pickle.loads(pickle.dumps(clf)).coef_, clf.coef_)


def test_refusals(hooked):
    with pytest.raises(TypeError, match="FitCallback"):
        hooked(Perceptron()).set_callbacks(3)
    monitor = CertificateMonitor()
    with pytest.raises(ValueError, match="No fit has been monitored"):
        monitor.plot()
    monitor.setup(Perceptron(), object())
    with pytest.raises(ValueError, match="before its first pass"):
        monitor.plot()


def test_it_draws(rows):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    monitor = CertificateMonitor()
    PUMMA(random_state=0).set_callbacks(monitor).fit(*rows)
    ax = Figure().subplots()
    display = monitor.plot(ax)
    bound, margin = (line.get_ydata() for line in display.lines_)
    assert margin[-1] == monitor.passes[-1].margin
    assert bound[-1] == monitor.passes[-1].bound
    assert ax.get_xlabel() == "passes"


def test_callbacks_of_scikit_learn(rows):
    callback = pytest.importorskip("sklearn.callback")
    from sklearn.model_selection import GridSearchCV

    scores = callback.ScoringMonitor(scoring="accuracy")
    clf = PUMMA(random_state=0).set_callbacks(scores, callback.ProgressBar()).fit(*rows)
    data = scores.get_logs().data
    assert [each["task_name"] for each in data] == ["pass"] * len(data)
    assert data[-1]["accuracy"] == clf.score(*rows)
    monitor = CertificateMonitor()
    search = GridSearchCV(PUMMA(random_state=0).set_callbacks(monitor), {"delta": [0.5, 0.1]}, cv=2)
    search.fit(*rows)
    assert len(monitor.runs) == 5  # two by two, and the best one once more
    assert monitor.passes[-1].margin == search.best_estimator_.certificate_.margin


def test_names_in_pictures_link_to_the_docs():
    from maxmargin import NOCA, MaxMargin

    for clf in (PUMMA(), MaxMargin(), NOCA()):
        page = f"https://maxmargin.example.invalid/docs/api/maxmargin.{type(clf).__name__}.html"
        assert page in clf._repr_html_()

    class Mine(Perceptron):
        __module__ = "mine"

    assert "maxmargin.example.invalid" not in Mine()._repr_html_()
