"""The bridge: what runs compiled, from where, and without counting references."""

import importlib
import inspect
import pkgutil
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest
import reference
from backends import only_full
from extent import everything_or
from problems import linear_model, separable, three_classes
from scipy import sparse

import maxmargin.algorithms
import maxmargin.certificates
import maxmargin.spaces
from maxmargin import Perceptron
from maxmargin.certificates.evidence import Evidence
from maxmargin.certificates.hinge_bounds import DualSums
from maxmargin.core.loop import learn, maintain, run_loop
from maxmargin.core.numba_backend import BRIDGED
from maxmargin.core.rule import rule
from maxmargin.core.trace import NO_TRACE
from maxmargin.training.inputs import as_targets
from maxmargin.training.protocol import trainer_of

REFERENCE_COUNTING = ("NRT_incref", "NRT_decref", "NRT_MemInfo")


def compiled_afresh(function):
    from maxmargin.core.numba_backend.compiler import LOOPS

    return numba.njit(nogil=True, **LOOPS)(function)


def counts_references(dispatcher):
    code = "".join(dispatcher.inspect_asm().values())
    assert code
    return any(symbol in code for symbol in REFERENCE_COUNTING)


def arguments(form, classes):
    X, y = separable() if classes == 2 else three_classes()
    codes = (y > 0 if classes == 2 else y).astype(np.int32)
    model = linear_model(1 if classes == 2 else classes, X.shape[1])
    order = np.arange(X.shape[0], dtype=np.int32)
    return model.rows(form(X)), as_targets(codes, classes), order, model.linear, model.tally


# Of dense rows the compiler removes it by itself.
@only_full
@pytest.mark.parametrize(
    ("form", "classes"), [(sparse.csr_matrix, 3), *everything_or([], [(np.asarray, 2)])]
)
def test_no_loop_counts_references(form, classes):
    rows, targets, order, space, tally = arguments(form, classes)
    loop = compiled_afresh(learn.plain)
    loop(rows, targets, order, 0, trainer_of(Perceptron()).rule(2.0), space, tally, NO_TRACE)
    assert space.scalars.table.updates.min() > 0
    assert not counts_references(loop)


@only_full
def test_nothing_else_counts_references():
    loop = compiled_afresh(maintain.plain)
    loop(linear_model().linear)
    assert not counts_references(loop)


def test_reference_counting_would_be_noticed():
    @numba.njit
    def keep(array):
        return array, array[1:]

    keep(np.zeros(3))
    assert counts_references(keep)


def test_arrays_are_neither_leaked_nor_freed():
    rows, targets, order, space, tally = arguments(np.asarray, 2)
    arrays = (rows.values, targets.labels, order, space.weights, space.scalars.table, tally)
    rule = trainer_of(Perceptron()).rule(2.0)
    before = [sys.getrefcount(array) for array in arrays]
    for _ in range(10):
        run_loop(rows, targets, order, rule, space, tally)
    assert [sys.getrefcount(array) for array in arrays] == before


@rule
class OwnRule(NamedTuple):
    """The Perceptron, by a user of the library."""

    rate: float

    def active(self, seen):
        return seen.margin <= 0.0

    def step(self, seen):
        return 1.0, self.rate


def test_a_rule_from_elsewhere_learns():
    rows, targets, order, space, tally = arguments(np.asarray, 2)
    run_loop(rows, targets, order, OwnRule(0.5), space, tally)
    X, y = separable()
    trace = reference.perceptron(np.column_stack([X, np.ones(len(X))]), y, rate=0.5)
    np.testing.assert_allclose(space.weights[0] * space.scalars.table.scale[0], trace.w, rtol=1e-12)
    assert space.scalars.table.updates[0] == trace.updated.sum()


@only_full
def test_tuples_are_cached_unless_something_from_elsewhere_is_in_them():
    from maxmargin.core.numba_backend.cache import is_ours

    arrays = (np.zeros(1), np.zeros(1, np.int32))
    assert is_ours(numba.typeof((arrays, 1.0, linear_model().linear)))
    assert not is_ours(numba.typeof((arrays, (1.0, OwnRule(0.5)))))


def test_no_field_has_the_name_of_a_bridged_method():
    """In compiled code the method would hide the field."""
    modules = [
        importlib.import_module(found.name)
        for package in (
            maxmargin.core,
            maxmargin.spaces,
            maxmargin.certificates,
            maxmargin.algorithms,
        )
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ]
    tuples = {
        each
        for module in modules
        for each in vars(module).values()
        if inspect.isclass(each) and issubclass(each, tuple) and hasattr(each, "_fields")
        if each.__module__ == module.__name__
    }
    assert len(tuples) > 20
    interpreted = {Evidence, DualSums}  # which compiled code never sees
    clashes = [each for each in tuples - interpreted if BRIDGED.keys() & set(each._fields)]
    assert not clashes
