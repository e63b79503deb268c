"""What holds for all tests: no chance and no deadlines."""

import gc
import os
from contextlib import nullcontext
from pathlib import PurePath

import numpy as np
import pytest
from extent import EVERYTHING
from hypothesis import settings
from interpreted import economical_loops
from randomness import no_unseeded_randomness
from xdist.scheduler import LoadScopeScheduling

from maxmargin.core.numba_backend import Compiled

# The machine may be busy, so there are no deadlines.
settings.register_profile("same examples", deadline=None, derandomize=True)
settings.register_profile("new examples", deadline=None, print_blob=True)
settings.load_profile("new examples" if EVERYTHING else "same examples")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Nothing learns while tests are collected, which each process does on its own.

    Modules and tests stay to the end: garbage is not looked for among them, now or later.
    """
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Compiled, "__call__", refuse_to_run)
            return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leave out slow tests, unless some were asked for by name."""
    if EVERYTHING or any("[" in name for name in config.args):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if not item.get_closest_marker("slow")]


@pytest.fixture(autouse=True, scope="session")
def _quick_disk():
    """Nobody cuts the power of this process. Those that are killed wait for their disks."""
    with pytest.MonkeyPatch.context() as patch:
        for name in {"fsync", "fdatasync"} & set(dir(os)):
            patch.setattr(os, name, lambda file: None)
        yield


@pytest.fixture(scope="module")
def few_objects():
    """For what fails often in pyarrow, which then looks at all that the garbage collector knows."""
    gc.collect()
    gc.freeze()


def refuse_to_run(loop, *args):
    raise RuntimeError("A test module learns when it is imported: do it in a test or a fixture.")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Tests, and fixtures of any scope, pass a seed wherever there are random numbers.

    Examples in docstrings need not: they show the shortest call. Where nobody can pass one, the
    state that all share has a seed at least.
    """
    if isinstance(item, pytest.DoctestItem) or item.get_closest_marker("unseeded"):
        np.random.seed(0)  # noqa: NPY002
        return (yield)
    loops = nullcontext() if item.get_closest_marker("compiled") else economical_loops()
    with no_unseeded_randomness(), loops:
        return (yield)


# Processes share the work. A loop over new kinds of rows and spaces takes seconds to compile,
# one more rule in it far less: so tests that compile similar loops go to the same process. All
# other files go where there is time.
WEIGHTS = {"algorithms", "common", "golden", "test_certificates", "test_certify", "test_chunking"}
WEIGHTS |= {"test_growing", "test_loop", "estimator", "models", "certificates", "test_soft_margin"}
WEIGHTS |= {"test_evaluate"}
KERNELS = {"test_budgets", "test_kernel_learners", "kernels", "test_multiclass", "test_robustness"}
KERNEL_LEARNERS = ("Kernel", "kernel", "rbf", "budget", "Budget", "Forgetron", "Projectron")


class ByLoops(LoadScopeScheduling):
    """Sends the tests of a group to the same process, the largest groups first."""

    def _split_scope(self, nodeid):
        path, _, test = nodeid.partition("::")
        places = set(PurePath(path).with_suffix("").parts)
        if "experiments" in places:  # they share what they measure
            return "experiments"
        if places & KERNELS:
            return "kernels"
        if not places & WEIGHTS:
            return path
        return "kernels" if any(name in test for name in KERNEL_LEARNERS) else "weights"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes():
    """Where each core has its process, threads of BLAS would only wait for one another."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return ByLoops(config, log)
