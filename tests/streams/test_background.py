"""A background thread keeps the order, hands on errors, and ends when its user leaves."""

import threading

import pytest

from maxmargin import AMIRA, streams
from maxmargin.streams import background
from maxmargin.streams.background import ahead, map_ahead


@pytest.fixture(autouse=True)
def _no_thread_remains():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def numbers(end, closed=None, error=None):
    try:
        yield from range(end)
        if error is not None:
            raise error
    finally:
        if closed is not None:
            closed.append(True)


def test_all_items_in_order():
    assert list(ahead(numbers(50))) == list(range(50))
    assert list(ahead(numbers(0))) == []
    assert list(map_ahead(str, numbers(50))) == list(map(str, range(50)))
    assert list(map_ahead(str, numbers(0))) == []


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), MemoryError()])
def test_errors_come_after_the_items_before_them(error):
    found = []
    with pytest.raises(type(error)):
        found.extend(iter_into(found, ahead(numbers(3, error=error))))
    assert found == [0, 1, 2]
    if isinstance(error, ValueError):
        with pytest.raises(ValueError, match="no"):
            found.extend(iter_into(found, map_ahead(int, numbers(3, error=error))))
        assert found == [0, 1, 2, 0, 1, 2]


def iter_into(found, items):
    for item in items:
        found.append(item)
    return ()


def test_a_user_that_leaves_closes_what_is_read():
    closed = []
    items = ahead(numbers(10**9, closed))
    assert next(items) == 0
    items.close()
    items = map_ahead(int, numbers(10**9, closed))
    assert next(items) == 0
    items.close()
    assert closed == [True, True]


def test_the_next_item_is_computed_while_the_last_is_used():
    computed = threading.Semaphore(0)

    def items():
        for k in range(5):
            computed.release()
            yield k

    found = ahead(items())
    assert next(found) == 0
    assert computed.acquire(timeout=10)
    assert computed.acquire(timeout=10)
    found.close()


def test_a_pipe_without_data_does_not_keep_its_user(monkeypatch):
    monkeypatch.setattr(background, "PATIENCE_SECONDS", 0.05)
    released = threading.Event()

    def items():
        yield 1
        released.wait()
        yield 2

    before = threading.active_count()
    found = ahead(items())
    assert next(found) == 1
    found.close()
    assert threading.active_count() == before + 1
    released.set()
    while threading.active_count() > before:
        pass


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("name", ["rows.svm", "rows.csv"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_no_thread_survives_a_run_that_ends_early(name, after, error, tmp_path, monkeypatch):
    path = tmp_path / name
    if name.endswith("svm"):
        path.write_text("1 1:2\n0 1:1\n" * 50)
    else:
        pytest.importorskip("pyarrow")
        path.write_text("x,label\n" + "2,1\n1,0\n" * 50)
    clf, blocks = AMIRA(), 0
    real = type(clf.__trainer__()).learn

    def learn(*args, **options):
        nonlocal blocks
        blocks += 1
        if blocks > after:
            raise error
        return real(*args, **options)

    monkeypatch.setattr(type(clf.__trainer__()), "learn", learn)
    kept = None
    try:
        clf.fit_stream(streams.open(path, block_size=50))
    except BaseException as raised:
        kept = raised  # with its traceback, and so all frames
    assert isinstance(kept, error)
