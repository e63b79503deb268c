"""One-vs-rest classes on several threads: the same model, to the bit, whatever happens."""

import contextlib
import pickle
import threading
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from tracer import Tracer

import maxmargin
from maxmargin import ALMA, AMIRA, PUMMA, ROMMA, Forgetron, Perceptron
from maxmargin.core import loop
from maxmargin.models import parallel_ovr
from maxmargin.persistence.model_tree import leaves_of
from maxmargin.training.protocol import state_of

random = np.random.default_rng(5)
X = random.normal(size=(1500, 8)) * random.lognormal(sigma=0.3, size=(1500, 1))
SCORES = X @ random.normal(size=(8, 5)) + 0.5 * random.normal(size=(1500, 5))
y = SCORES.argmax(axis=1)
BY_LENGTH = np.argsort((X**2).sum(axis=1))
WORTH = random.uniform(0.5, 3.0, size=y.size)

LEARNERS = {
    "plain": (Perceptron(max_iter=30), X, y),
    "in one pass": (Perceptron(max_iter=1), X, y),
    "sparse": (Perceptron(max_iter=8), sparse.csr_matrix(np.where(np.abs(X) > 1, X, 0)), y),
    "longer and longer": (Perceptron(max_iter=5, shuffle=False), X[BY_LENGTH], y[BY_LENGTH]),
    "averaged": (Perceptron(average=True, max_iter=5), X, y),
    # |w| grows until the longest row says that it is enough.
    "until float64 ends": (ROMMA(max_iter=60), X, y),
    "pairs": (PUMMA(delta=0.2, max_iter=20), X, y),
    "p-norm, all norms": (ALMA(p=4, max_iter=5), X, y),
    "soft margin": (Perceptron(soft_margin=1.0, max_iter=20), X, y),
    "several labels": (Perceptron(max_iter=5), X, (SCORES > 0).astype(int)),
}


def fitted(clf, X, y, n_jobs, **given):
    clf = clone(clf).set_params(random_state=0, n_jobs=n_jobs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clf.fit(X, y, **given)


def assert_same(one, other):
    known, found = (leaves_of(state_of(clf).model) for clf in (one, other))
    assert known.keys() == found.keys()
    for name, leaf in known.items():
        if name == "pair.members":  # whose last line is room to compute in
            leaf, found[name] = leaf[:-1], found[name][:-1]
        assert np.asarray(leaf).tobytes() == np.asarray(found[name]).tobytes(), name
    for name in ("n_iter_", "n_mistakes_", "n_updates_", "converged_"):
        assert getattr(one, name) == getattr(other, name)
    assert repr(one.certificate_) == repr(other.certificate_)


@pytest.fixture
def in_parts(monkeypatch):
    """The number of stretches that were learned in parts."""
    counted, presented = [], parallel_ovr.Parts._present_apart

    def counting(self, order, *given):
        counted.append(order.size)
        presented(self, order, *given)

    monkeypatch.setattr(parallel_ovr.Parts, "_present_apart", counting)
    return counted


@pytest.mark.parametrize("case", LEARNERS)
def test_bits(case, in_parts):
    clf, rows, labels = LEARNERS[case]
    alone = fitted(clf, rows, labels, None)
    assert not in_parts
    for n_jobs in (2, 3):
        assert_same(alone, fitted(clf, rows, labels, n_jobs))
    assert sum(in_parts) > X.shape[0] / 2


def test_weights_and_warm_start():
    clf = Perceptron(max_iter=3, warm_start=True)
    both = [fitted(clf, X, y, n_jobs, sample_weight=WORTH) for n_jobs in (None, 2)]
    assert_same(*both)
    pairs = PUMMA(delta=0.2, max_iter=3, warm_start=True)
    both = [fitted(pairs, X, y, n_jobs) for n_jobs in (None, 2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(*(clf.fit(X, np.roll(y, 1)) for clf in both))


def test_threads_end_with_the_fit():
    before = threading.active_count()
    fitted(Perceptron(max_iter=2), X, y, -1)
    fitted(Perceptron(max_iter=2), X, y, 50)  # more than there are classes
    assert threading.active_count() == before


def test_parameter():
    with pytest.raises(ValueError, match="n_jobs"):
        Perceptron(n_jobs=0, random_state=0).fit(X, y)
    assert "n_jobs" not in Forgetron().get_params()
    assert "n_jobs" not in Forgetron.__doc__
    clf = fitted(AMIRA(multiclass="ovr", max_iter=2), X, y, 2)
    assert pickle.loads(pickle.dumps(clf)).n_jobs == clone(clf).n_jobs == 2
    # Together, classes are one problem.
    assert_same(*(fitted(AMIRA(max_iter=2), X, y, n_jobs) for n_jobs in (None, 2)))


def test_file(tmp_path):
    clf = fitted(Perceptron(max_iter=2), X, y, 2)
    maxmargin.save(clf, tmp_path / "model")
    again = maxmargin.load(tmp_path / "model")
    assert again.n_jobs == 2
    assert_same(clf, again)


@pytest.mark.parametrize("where", [parallel_ovr.__file__, loop.__file__])
def test_ctrl_c(where):
    """What was learned is what one thread would have learned from as many rows."""
    clf = Perceptron(max_iter=3, shuffle=False, n_jobs=2)
    with Tracer(where=where) as tracer, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clone(clf).fit(X, y)
    lines = np.random.default_rng(0).choice(tracer.lines, 25, replace=False)
    for line in lines.tolist():
        stopped = clone(clf)
        # Which thread comes first, and so how many lines there are, is not always the same.
        with contextlib.suppress(KeyboardInterrupt), Tracer(line, KeyboardInterrupt, where):
            stopped.fit(X, y)
        if not hasattr(stopped, "classes_"):  # before anything was learned, or after all was
            continue
        learned = np.arange(state_of(stopped).model.trials()) % X.shape[0]
        same = Perceptron().partial_fit(X[learned], y[learned], classes=np.unique(y))
        assert stopped.coef_.tobytes() == same.coef_.tobytes()
        assert (stopped.n_mistakes_, stopped.n_updates_) == (same.n_mistakes_, same.n_updates_)
        known, found = (state_of(clf).model.linear.scalars.table for clf in (same, stopped))
        assert known.tobytes() == found.tobytes()


def test_a_thread_that_fails(monkeypatch):
    """The one that waits for it goes on, and gets the error if it has the same."""
    alone, learn = fitted(Perceptron(max_iter=3), X, y, None), parallel_ovr.Part.learn
    main = threading.main_thread()

    def failing(self, stretch):
        if threading.current_thread() is not main:
            raise MemoryError
        learn(self, stretch)

    monkeypatch.setattr(parallel_ovr.Part, "learn", failing)
    assert_same(alone, fitted(Perceptron(max_iter=3), X, y, 2))

    def always(self, stretch):
        raise MemoryError

    monkeypatch.setattr(parallel_ovr.Part, "learn", always)
    clf = Perceptron(n_jobs=2, random_state=0)
    with pytest.raises(MemoryError):
        clf.fit(X, y)
    assert not hasattr(clf, "classes_")
