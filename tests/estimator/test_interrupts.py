"""Ctrl-C waits while rows are learned in place."""

import signal
import threading

import numpy as np
import pytest

from maxmargin import Forgetron, Perceptron
from maxmargin._interrupts import uninterrupted
from maxmargin.models import budget_model, linear_model
from maxmargin.models.linear_model import MOST_COPIED_WEIGHTS


@pytest.fixture
def sigint():
    """Lets a test say what is done on Ctrl-C, which the tests themselves may have been told."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda handler: signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGINT, before)


@pytest.mark.serial
def test_ctrl_c_waits_for_the_end(sigint):
    sigint(signal.default_int_handler)
    done = []

    def work():
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.serial
def test_ignored_ctrl_c_stays_ignored(sigint):
    sigint(signal.SIG_IGN)
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_never_hear_it():
    def work():
        with uninterrupted():
            done.append(True)

    done = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done


@pytest.mark.serial
@pytest.mark.parametrize("module", [linear_model, budget_model], ids=["wide", "budget"])
def test_rows_in_place_are_learned_to_the_end(module, sigint, monkeypatch):
    sigint(signal.default_int_handler)
    width = MOST_COPIED_WEIGHTS + 1 if module is linear_model else 3
    X = np.random.default_rng(0).normal(size=(4, width))
    first, labels = (X[:2], [0, 1]), [1, 0]
    make = Perceptron if module is linear_model else lambda: Forgetron(budget=2, gamma=0.5)
    clf, whole = (make().partial_fit(*first, classes=[0, 1]) for _ in range(2))
    run_loop = module.run_loop

    def interrupted(*arguments):
        signal.raise_signal(signal.SIGINT)
        run_loop(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, "run_loop", interrupted)
        for row, label in zip(X[2:], labels, strict=True):
            with pytest.raises(KeyboardInterrupt):
                clf.partial_fit([row.tolist()], [label])
    whole.partial_fit(X[2:3], labels[:1]).partial_fit(X[3:], labels[1:])
    np.testing.assert_array_equal(clf.decision_function(X), whole.decision_function(X))
    assert clf.n_mistakes_ == whole.n_mistakes_
