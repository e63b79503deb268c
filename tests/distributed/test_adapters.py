"""The adapters of ``docs/clusters.md``, as they are printed there."""

import re
from pathlib import Path

import pytest
from distributed_parts import evenly, noisy, same

from maxmargin import MaxMargin
from maxmargin.distributed import fit
from maxmargin.distributed.shards import ShardError

PAGE = Path(__file__).parents[2] / "docs" / "clusters.md"


def adapter(engine):
    """The classes of the page's section, without the call that follows them."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {engine}\n")[1]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL).group(1)
    names = {}
    exec(re.split(r"\n(?:shards|clf) =", code)[0], names)
    return names


@pytest.mark.serial
@pytest.mark.filterwarnings("ignore")
def test_ray():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
    try:
        executor = adapter("Ray")["RayExecutor"]()
        X, y = noisy(600, 4)
        far = fit(MaxMargin(), evenly(X, y, 10), executor)
        assert same(far, fit(MaxMargin(), evenly(X, y, 10)))
        X[70, 2] = float("nan")
        with pytest.raises(ShardError, match="partition 1: Input X contains NaN"):
            fit(MaxMargin(), evenly(X, y, 10), executor)
    finally:
        ray.shutdown()


class Rdd:
    """As much of Spark's RDD as the adapter uses, in one process."""

    def __init__(self, elements):
        self.elements = elements

    def map(self, function):
        return Rdd(list(map(function, self.elements)))

    def filter(self, function):
        return Rdd(list(filter(function, self.elements)))

    def cache(self):
        return self

    def collect(self):
        return self.elements[::-1]  # the order must not matter


class Context:
    def parallelize(self, elements, count):
        assert len(elements) == count
        return Rdd(elements)

    def broadcast(self, value):
        return type("Broadcast", (), {"value": value})


def test_spark():
    executor = adapter("Spark")["SparkExecutor"](Context())
    X, y = noisy(300, 4)
    far = fit(MaxMargin(), evenly(X, y, 10), executor)
    assert same(far, fit(MaxMargin(), evenly(X, y, 10)))
