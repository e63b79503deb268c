"""Callbacks of a fit, which scikit-learn has from version 1.9 on."""

import pickle
import sys
from importlib.metadata import metadata
from importlib.util import find_spec, module_from_spec, spec_from_file_location

import numpy as np
import pytest
from sklearn.base import clone

from maxmargin import NORMA, PUMMA, PassiveAggressive, Perceptron, load, save
from maxmargin.datasets import make_separable
from maxmargin.estimator import callbacks
from maxmargin.evaluate import CertificateMonitor, certify

needs_callbacks = pytest.mark.skipif(
    find_spec("sklearn.callback") is None, reason="scikit-learn has callbacks from 1.9 on"
)


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


@needs_callbacks
def test_every_full_pass_is_a_task(rows):
    diary = Diary()
    clf = PassiveAggressive(max_iter=3, shuffle=False).set_callbacks(diary)
    clf.fit(*rows, sample_weight=np.ones(300))
    passes = [f"{what} pass {k}" for k in range(clf.n_iter_) for what in ("begin", "end")]
    assert diary.events == ["setup", "begin fit 0", *passes, "end fit 0", "teardown"]
    X, y, metadata = diary.given
    assert X.shape == rows[0].shape
    assert y.shape == rows[1].shape
    assert metadata["sample_weight"].sum() == 300


@needs_callbacks
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
def test_the_monitor_changes_nothing_and_ends_where_the_fit_ends(rows, learner):
    monitor = CertificateMonitor()
    clf = clone(learner).set_callbacks(monitor).fit(*rows)
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


@needs_callbacks
def test_several_classes_and_several_fits():
    random = np.random.default_rng(0)
    centres = 4.0 * np.eye(3)
    y = np.arange(150) % 3
    X = centres[y] + random.uniform(-0.5, 0.5, (150, 3))
    monitor = CertificateMonitor()
    clf = Perceptron(margin=1.0, random_state=0).set_callbacks(monitor)
    for seed in range(2):
        clf.set_params(random_state=seed).fit(X, y)
    assert len(monitor.runs) == 2
    assert monitor.passes[-1].margin == clf.certificate_.margin > 0.0
    assert certify(clf, X, y).margin == pytest.approx(monitor.passes[-1].margin)


@needs_callbacks
def test_a_callback_can_end_a_fit(rows):
    diary = Diary(stop_after=1)
    clf = PUMMA(random_state=0).set_callbacks(diary).fit(*rows)  # and nobody is warned
    assert diary.events[-4:] == ["begin pass 1", "end pass 1", "end fit 0", "teardown"]
    assert not clf.converged_


class Faulty(Diary):
    def on_fit_task_end(self, estimator, context):
        raise self.fault


@needs_callbacks
@pytest.mark.parametrize("fault", [ValueError("no more"), KeyboardInterrupt()])
def test_what_goes_wrong_leaves_a_whole_learner(rows, fault):
    clf = PUMMA(random_state=0).fit(*rows)
    before = clf.coef_.copy()
    faulty = Faulty()
    faulty.fault = fault
    with pytest.raises(type(fault)):
        clf.set_callbacks(faulty).fit(*rows)
    assert faulty.events[-1] == "teardown"
    if isinstance(fault, ValueError):
        assert np.array_equal(clf.coef_, before)
    assert clf.set_callbacks().fit(*rows).converged_


@needs_callbacks
def test_files_and_pickles(rows, tmp_path):
    clf = PUMMA(random_state=0).set_callbacks(CertificateMonitor()).fit(*rows)
    save(clf, tmp_path / "model.mm")
    assert np.array_equal(load(tmp_path / "model.mm").coef_, clf.coef_)
    assert np.array_equal(pickle.loads(pickle.dumps(clf)).coef_, clf.coef_)


@needs_callbacks
def test_refusals():
    with pytest.raises(TypeError, match="FitCallback"):
        Perceptron().set_callbacks(3)
    monitor = CertificateMonitor()
    with pytest.raises(ValueError, match="No fit has been monitored"):
        monitor.plot()
    monitor.setup(Perceptron(), object())
    with pytest.raises(ValueError, match="before its first pass"):
        monitor.plot()


def test_earlier_versions_of_scikit_learn_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    spec = spec_from_file_location("callbacks_without_sklearn_callback", callbacks.__file__)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    learner = module.Watched()
    assert learner.set_callbacks() is learner
    with pytest.raises(ImportError, match=r"callbacks need scikit-learn 1\.9 or later"):
        learner.set_callbacks(Diary())


@needs_callbacks
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

    site = dict(each.split(", ") for each in metadata("maxmargin").get_all("Project-URL"))
    site = site["Documentation"]
    assert site.startswith("https://")
    for clf in (PUMMA(), MaxMargin(), NOCA()):
        assert f"{site}/api/maxmargin.{type(clf).__name__}.html" in clf._repr_html_()

    class Mine(Perceptron):
        __module__ = "mine"

    assert site not in Mine()._repr_html_()
