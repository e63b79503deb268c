"""Reading ahead keeps the order, hands on errors, and ends when its user leaves."""

import threading
import time

import pytest

from maxmargin.streams import prefetch as module
from maxmargin.streams.prefetch import WORKERS, ahead


class Numbers:
    """A generator of numbers that knows how far it was read, and whether it was closed."""

    def __init__(self, end, trouble_at=None):
        self.taken = 0
        self.is_closed = False
        self.items = self._run(end, trouble_at)

    def _run(self, end, trouble_at):
        try:
            for number in range(end):
                if number == trouble_at:
                    raise OSError("no more numbers")
                self.taken += 1
                yield number
        finally:
            self.is_closed = True


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = threading.active_count()
    yield
    wait_for(lambda: threading.active_count() <= before)


def wait_for(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def double(number):
    return 2 * number


@pytest.mark.parametrize("end", [0, 1, 2, 3, 4, 5, 500])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_all_in_order(end, workers):
    numbers = Numbers(end)
    assert list(ahead(numbers.items, double, workers)) == list(range(0, 2 * end, 2))
    assert numbers.is_closed


def test_in_order_when_work_takes_longer_or_shorter():
    def work(number):
        time.sleep(0.01 if number % 3 == 0 else 0.0)
        return number

    assert list(ahead(Numbers(60).items, work)) == list(range(60))


@pytest.mark.parametrize("trouble_at", [0, 1, 2, 7])
def test_an_error_of_the_producer_comes_in_its_turn(trouble_at):
    numbers = Numbers(10, trouble_at)
    results = ahead(numbers.items, double)
    for number in range(trouble_at):
        assert next(results) == 2 * number
    with pytest.raises(OSError, match="no more numbers"):
        next(results)
    assert list(results) == []
    assert numbers.is_closed


@pytest.mark.parametrize("trouble_at", [0, 1, 7, 9])
def test_an_error_of_the_work_comes_in_its_turn(trouble_at):
    def work(number):
        if number == trouble_at:
            raise ZeroDivisionError("in the work")
        return number

    numbers = Numbers(10)
    results = ahead(numbers.items, work)
    assert [next(results) for _ in range(trouble_at)] == list(range(trouble_at))
    with pytest.raises(ZeroDivisionError, match="in the work"):
        next(results)
    assert list(results) == []
    assert numbers.is_closed


@pytest.mark.parametrize("used", [1, 2, 5])
def test_leaving_early_closes_the_producer(used):
    numbers = Numbers(10**9)
    results = ahead(numbers.items, double)
    for _ in range(used):
        next(results)
    results.close()
    assert numbers.is_closed
    taken = numbers.taken
    time.sleep(0.02)
    assert numbers.taken == taken


def test_leaving_by_an_error_of_the_user():
    numbers = Numbers(10**9)

    def use():
        for _ in ahead(numbers.items, double):
            raise KeyError

    with pytest.raises(KeyError):
        use()
    wait_for(lambda: numbers.is_closed)


def test_only_a_few_are_read_ahead():
    numbers = Numbers(10**9)
    results = ahead(numbers.items, double)
    for used in range(1, 6):
        next(results)
        wait_for(lambda used=used: numbers.taken > used)
        time.sleep(0.02)
        # Under way, and one that a thread is about to put there.
        assert numbers.taken <= used + WORKERS + 2
    results.close()


def test_nothing_is_read_before_it_is_asked_for():
    numbers = Numbers(3)
    results = ahead(numbers.items, double)
    time.sleep(0.02)
    assert numbers.taken == 0
    assert next(results) == 0
    results.close()


def test_the_next_is_worked_on_while_the_last_is_used():
    done = threading.Semaphore(0)

    def work(number):
        done.release()
        return number

    results = ahead(Numbers(5).items, work)
    assert next(results) == 0
    assert done.acquire(timeout=10)
    assert done.acquire(timeout=10)  # the second, though nobody has asked for it
    results.close()


def test_several_are_worked_on_at_once():
    both = threading.Barrier(2, timeout=10)
    assert list(ahead(Numbers(2).items, lambda number: both.wait() * 0 + number, 2)) == [0, 1]


@pytest.mark.serial
def test_a_producer_that_waits_for_ever_does_not_keep_its_user(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)
    released = threading.Event()

    def items():
        yield 1
        released.wait()
        yield 2

    results = ahead(items(), double)
    assert next(results) == 2
    began = time.monotonic()
    results.close()
    assert time.monotonic() - began < 5
    released.set()  # for the thread to end


def test_many_that_are_left_at_once():
    for _ in range(300):
        numbers = Numbers(50)
        results = ahead(numbers.items, double)
        next(results)
        results.close()
        assert numbers.is_closed
