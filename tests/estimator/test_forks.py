"""A process that forks while another of its threads learns: the child has a whole learner."""

import os
import pickle
import signal
import threading
import time
import traceback

import numba
import numpy as np
import pytest
from numba.core.compiler_lock import global_compiler_lock

from maxmargin import AMIRA, Perceptron
from maxmargin.estimator.locks import access_to
from maxmargin.training.protocol import state_of

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

TRIES = 12
# Of a child that hangs, after which it is killed.
SECONDS = 60
random = np.random.default_rng(0)
X = random.normal(size=(200, 4))
y = (X[:, 0] > 0.0).astype(int)
NAMED = [dict(zip("abcd", row, strict=True)) for row in X.tolist()]


def in_a_fork(job):
    """How a child that does this ends: "done", what it raised, or "killed" because it hung."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)  # the default is to be killed
        try:
            job()
            said = "done"
        except BaseException:
            said = traceback.format_exc()
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        said = file.read().decode()
    os.waitpid(child, 0)
    return said or "killed"


class Learning:
    """A thread that learns for as long as this lasts."""

    def __init__(self, learn):
        self.learn, self.ended, self.begun = learn, threading.Event(), threading.Event()

    def run(self):
        while not self.ended.is_set():
            self.learn()
            self.begun.set()

    def __enter__(self):
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        assert self.begun.wait(SECONDS)

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def rows_of(clf):
    for row, label in zip(NAMED[:50], y.tolist(), strict=False):
        clf.learn_one(row, label)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("way", ["rows", "blocks", "fits", "kernel"])
def test_a_child_can_go_on(way):
    given = {"kernel": "rbf", "gamma": 1.0} if way == "kernel" else {}
    clf = AMIRA(random_state=0, max_iter=3, **given)
    if way == "rows":
        clf = Perceptron().learn_one(NAMED[0], 0, classes=[0, 1])
    else:
        clf.partial_fit(X, y, classes=[0, 1])

    def learn():
        if way == "rows":
            rows_of(clf)
        elif way == "fits":
            clf.fit(X, y)
        else:
            clf.partial_fit(X, y)

    def job():
        whole = pickle.loads(pickle.dumps(clf))
        if way == "rows":
            assert clf.predict_one(NAMED[0]) == whole.predict_one(NAMED[0])
            # The norm that is kept along is that of the weights, after a whole number of rows.
            model = state_of(whole).model
            table, weights = model.linear.scalars.table, model.weights()
            assert table.norm2[0] == pytest.approx((weights**2).sum(), rel=1e-9)
            rows_of(clf)
        else:
            assert clf.predict(X).tolist() == whole.predict(X).tolist()
            learn()
        pickle.dumps(clf)

    with Learning(learn):
        for number in range(TRIES):
            assert in_a_fork(job) == "done", number


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_learner_that_was_being_changed_is_refused(monkeypatch):
    monkeypatch.setattr("maxmargin.estimator.locks.FORK_SECONDS", 0.0)
    clf = Perceptron().learn_one(NAMED[0], 0, classes=[0, 1])
    changed, ended = threading.Event(), threading.Event()

    def change():
        with access_to(clf).changing:
            changed.set()
            ended.wait(SECONDS)

    def job():
        for use in (lambda: clf.learn_one(NAMED[0], 0), lambda: clf.predict_one(NAMED[0])):
            with pytest.raises(RuntimeError, match="forked while another thread changed the"):
                use()
        with pytest.raises(RuntimeError, match="forked while another thread changed the"):
            pickle.dumps(clf)

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    changed.wait()
    assert in_a_fork(job) == "done"
    ended.set()
    thread.join()
    clf.learn_one(NAMED[1], 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_can_compile_although_another_thread_did():
    held = threading.Event()

    def compile_slowly():
        with global_compiler_lock:
            held.set()
            time.sleep(0.5)

    def job():
        assert numba.njit(lambda number: number + 1)(1) == 2

    thread = threading.Thread(target=compile_slowly)
    thread.start()
    held.wait()
    assert in_a_fork(job) == "done"
    thread.join()
    assert numba.njit(lambda number: number + 2)(1) == 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_by_the_thread_that_learns():
    """As in a callback: its own locks stay its own."""
    clf = Perceptron(random_state=0).fit(X, y)
    locks = access_to(clf)

    def job():
        clf.partial_fit(X, y)
        clf.predict(X)

    with locks.writing, locks.changing:
        assert in_a_fork(job) == "done"
    assert not locks.busy
