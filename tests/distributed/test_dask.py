"""`DaskClassifier` on a cluster of two processes."""

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from distributed_parts import evenly, noisy, same
from scipy import sparse
from sklearn.base import clone

from maxmargin import MaxMargin, load, save
from maxmargin.distributed import fit
from maxmargin.distributed.shards import ShardError

pytest.importorskip("distributed")

import dask
import dask.array as da
from distributed import Client, LocalCluster

from maxmargin.dask import ClusterError, DaskClassifier


@pytest.fixture(scope="module")
def data():
    return noisy(2000, 6)


def arrays(X, y, count):
    rows = -(-len(y) // count)
    return da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=rows)


def test_it_is_the_plain_executor(client, data):
    (X, y), clf = data, MaxMargin()
    far = DaskClassifier(clf, client).fit(*arrays(X, y, 10))
    assert same(far, fit(clf, evenly(X, y, 10)))
    assert far.n_iter_ == clf.n_iter_
    assert far.score(*arrays(X, y, 10)) == clf.score(X, y)
    assert not hasattr(clf, "estimator_")


def test_kinds_of_collections(client, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of versions that will plan queries
        import dask.dataframe as dd

    X, y = data
    weights = np.random.default_rng(0).integers(1, 3, size=2000).astype(float)
    near = fit(MaxMargin(), evenly(X, y, 4, weights))
    rows, labels = arrays(X, y, 4)
    given = da.from_array(weights, chunks=700)
    wide = rows.rechunk((500, 2))
    assert same(DaskClassifier(MaxMargin()).fit(wide, labels, given), near)
    blocks = [list(each.to_delayed().ravel()) for each in (rows, labels, given.rechunk(500))]
    assert same(DaskClassifier(MaxMargin()).fit(*blocks), near)
    csr = rows.map_blocks(sparse.csr_matrix)
    in_sparse = DaskClassifier(MaxMargin()).fit(csr, labels, given)
    np.testing.assert_allclose(in_sparse.coef_, near.coef_, rtol=1e-2, atol=1e-4)
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdef")).assign(y=y), npartitions=4)
    named = DaskClassifier(MaxMargin()).fit(frame[list("abcdef")], frame["y"])
    assert named.feature_names_in_.tolist() == list("abcdef")

    predicted = named.predict(frame[list("abcdef")])
    assert isinstance(predicted, dd.Series)
    local = named.to_local()
    table = pd.DataFrame(X, columns=list("abcdef"))
    np.testing.assert_array_equal(predicted.compute(), local.predict(table))
    scores = in_sparse.decision_function(csr)
    assert isinstance(scores, da.Array)
    assert scores.shape == (2000,)
    np.testing.assert_array_equal(
        scores.compute(), in_sparse.to_local().decision_function(sparse.csr_matrix(X))
    )
    (first, *_) = dask.compute(*in_sparse.predict(blocks[0]))
    np.testing.assert_array_equal(first, in_sparse.predict(X[:500]))
    with pytest.raises(ValueError, match="same partitions: 4 and 5"):
        DaskClassifier(MaxMargin()).fit(blocks[0], blocks[1] + blocks[1][:1])
    with pytest.raises(TypeError, match="X must be a Dask array"):
        DaskClassifier(MaxMargin()).fit(X, labels)


def test_several_classes(client):
    X, y = noisy(900, 4, 3)
    names = np.array(["ham", "spam", "egg"])[y]
    rows, labels = arrays(X, names, 3)
    far = DaskClassifier(MaxMargin()).fit(rows, labels)
    assert same(far, fit(MaxMargin(), evenly(X, names, 3)))
    scores = far.decision_function(rows)
    assert scores.shape == (900, 3)
    np.testing.assert_array_equal(scores.compute(), far.to_local().decision_function(X))
    assert far.predict(rows).compute().tolist() == far.predict(X).tolist()


def test_files_and_what_is_left_of_it(client, data, tmp_path):
    X, y = data
    for k in range(4):
        frame = pd.DataFrame(X[500 * k : 500 * (k + 1)], columns=list("abcdef"))
        frame.assign(spam=y[500 * k : 500 * (k + 1)]).to_parquet(tmp_path / f"{k}.parquet")
    far = DaskClassifier(MaxMargin()).fit(tmp_path / "*.parquet", label="spam")
    assert same(far, fit(MaxMargin(), evenly(X, y, 4)))
    assert far.score(str(tmp_path / "*.parquet"), label="spam") == far.to_local().score(X, y)
    save(far.to_local(), tmp_path / "model")
    assert same(load(tmp_path / "model"), far)
    with pytest.raises(ValueError, match="labels, and weights, of their own"):
        DaskClassifier(MaxMargin()).fit(tmp_path / "*.parquet", y)


# ------------------------------------------------------------------------------------------- faults
def test_a_broken_partition_is_named(client, data):
    X, y = data
    far = DaskClassifier(MaxMargin()).fit(*arrays(X, y, 10))
    before = far.estimator_
    broken = X.copy()
    broken[700, 3] = np.nan
    with pytest.raises(ShardError, match=r"^partition 3: Input X contains NaN"):
        far.fit(*arrays(broken, y, 10))

    def lost(k):
        raise OSError(f"disk {k} is gone")

    blocks = [dask.delayed(np.asarray)(X[:100]), dask.delayed(lost)(7)]
    with pytest.raises(ShardError, match=r"^partition 1: disk 7 is gone"):
        far.fit(blocks, [dask.delayed(np.asarray)(y[:100])] * 2)
    assert far.estimator_ is before


def test_what_is_refused_is_said_at_once(client, data):
    rows, labels = arrays(*data, 4)
    far = DaskClassifier(MaxMargin()).fit(rows, labels)
    before = far.estimator_
    with pytest.raises(TypeError, match="DaskClassifier cannot learn from rows in many places"):
        DaskClassifier(far).fit(rows, labels)
    for method in (far.predict, lambda X: far.fit(X, labels)):
        with pytest.raises(ValueError, match="two dimensions, got 1"):
            method(rows[:, 0])
    with pytest.raises(TypeError, match="predict takes rows, not files"):
        far.predict("rows.csv")
    nothing = [dask.delayed(np.zeros)((0, 6))], [dask.delayed(np.zeros)(0)]
    with pytest.raises(ValueError, match="no rows to score"):
        far.score(*nothing)
    with pytest.raises(
        ShardError, match=r"^partition 0: .*inconsistent numbers of samples: \[3, 2"
    ):
        far.score([dask.delayed(np.zeros)((3, 6))], [dask.delayed(np.zeros)(2)])
    assert far.estimator_ is before


def test_copies_leave_the_client_where_it_is(client, data):
    rows, labels = arrays(*data, 4)
    far = DaskClassifier(MaxMargin(soft_margin=0.5), client)
    copy = clone(far)
    assert copy.client is client
    assert copy.estimator.soft_margin == 0.5
    assert copy.estimator is not far.estimator
    far.fit(rows, labels)
    assert not hasattr(clone(far), "estimator_")
    back = pickle.loads(pickle.dumps(far))
    assert back.client is None
    assert far.client is client
    assert same(back, far)
    assert back.score(rows, labels) == far.score(rows, labels)  # by the current client


def test_clients(client, data):
    class Asynchronous:
        asynchronous = True

    with pytest.raises(TypeError, match="asynchronous"):
        DaskClassifier(MaxMargin(), Asynchronous()).fit(*arrays(*data, 2))
    with pytest.raises(TypeError, match=r"client must be a distributed\.Client, got str"):
        DaskClassifier(MaxMargin(), "tcp://scheduler:8786").fit(*arrays(*data, 2))
    with Client(client.scheduler.address, set_as_default=False) as gone:
        pass
    with pytest.raises(ClusterError, match="client is closed"):
        DaskClassifier(MaxMargin(), gone).fit(*arrays(*data, 2))


def test_without_a_client(data):
    with pytest.raises(ClusterError, match="none is started"):
        DaskClassifier(MaxMargin()).fit(*arrays(*data, 2))


def slowly(X):
    time.sleep(0.2)
    return X


class Processes:
    """A scheduler and workers without a nanny, each a process that can be killed."""

    def __init__(self, folder, workers):
        self.place = Path(folder) / "scheduler.json"
        self.scheduler = self.start("scheduler", "--port", "0", "--dashboard-address", ":0")
        while not self.place.exists():
            time.sleep(0.1)
        self.workers = [self.new_worker() for _ in range(workers)]

    def start(self, kind, *options):
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *options]
        return subprocess.Popen(
            [*command, "--scheduler-file", str(self.place)], stderr=subprocess.DEVNULL
        )

    def new_worker(self):
        folder = str(self.place.parent)
        return self.start("worker", "--no-nanny", "--nthreads", "1", "--local-directory", folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.mark.serial
def test_a_lost_scheduler_is_an_error(data, tmp_path, monkeypatch):
    rows, labels = arrays(*data, 20)
    (tmp_path / "only_here.py").write_text("def same(X):\n    return X\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    with (
        Processes(tmp_path, 0) as processes,
        Client(scheduler_file=str(processes.place), timeout=2) as client,
    ):
        with pytest.raises(ShardError, match=r"^partition 0: .*task graph"):
            DaskClassifier(MaxMargin(), client).fit(rows.map_blocks(only_here.same), labels)
        began = time.monotonic()
        stopping = threading.Timer(1.0, processes.scheduler.kill)
        stopping.start()
        with pytest.raises(ClusterError, match="scheduler of the Dask cluster was lost"):
            DaskClassifier(MaxMargin(), client).fit(rows, labels)
        assert time.monotonic() - began < 20.0


@pytest.mark.serial
def test_processes_that_come_and_go_during_a_fit(data, tmp_path):
    X, y = data
    rows, labels = arrays(X, y, 10)
    rows = rows.map_blocks(lambda block: time.sleep(0.2) or block, dtype=float)
    near = fit(MaxMargin(tol=1e-8), evenly(X, y, 10))
    with (
        Processes(tmp_path, 2) as processes,
        Client(scheduler_file=str(processes.place), timeout=20) as client,
    ):
        client.wait_for_workers(2)

        def replace_all():
            """One is killed; one comes; the other one of the first two is killed."""
            processes.workers[0].kill()
            processes.workers.append(processes.new_worker())
            processes.workers[1].kill()

        changing = threading.Timer(0.5, replace_all)
        changing.start()
        far = DaskClassifier(MaxMargin(tol=1e-8), client).fit(rows, labels)
        changing.join()
        assert same(far, near)
        before = far.estimator_
        stopping = threading.Timer(0.5, processes.scheduler.kill)
        stopping.start()
        with pytest.raises(ClusterError, match="scheduler of the Dask cluster was lost"):
            far.fit(rows, labels)
        assert far.estimator_ is before
        assert same(far, near)


@pytest.mark.serial
@pytest.mark.parametrize("seed", range(2))
def test_a_worker_that_is_killed_makes_no_difference(data, seed):
    X, y = data
    chance = random.Random(seed)
    rows, labels = arrays(X, y, 10)
    rows = rows.map_blocks(slowly)
    how = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**how) as cluster, Client(cluster) as client:
        victims = client.run(os.getpid)
        victim = victims[chance.choice(sorted(victims))]
        stopping = threading.Timer(chance.uniform(0.1, 1.5), os.kill, (victim, signal.SIGKILL))
        stopping.start()
        far = DaskClassifier(MaxMargin(tol=1e-8), client).fit(rows, labels)
        stopping.join()
    assert same(far, fit(MaxMargin(tol=1e-8), evenly(X, y, 10)))
