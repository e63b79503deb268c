"""The loops: compiled equals plain to the bit, for every rule and every kind of rows."""

from itertools import product

import numpy as np
import pytest
from extent import everything_or
from problems import (
    label,
    learners,
    learners_of_sparse_rows,
    linear_model,
    separable,
    sparse_separable,
    three_classes,
)
from scipy import sparse

import maxmargin.models.linear_model as linear_models
from maxmargin import ROMMA
from maxmargin.core import loop
from maxmargin.core.targets import Binary, OneVsRest
from maxmargin.models.linear_model import LinearModel
from maxmargin.training.inputs import as_targets
from maxmargin.training.protocol import trainer_of

pytestmark = pytest.mark.compiled

FORMS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "CSR": sparse.csr_matrix,
}


def strided(X):
    return np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]


def csr_with_wide_indices(X):
    X = sparse.csr_matrix(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def run(learner, X, codes, classes, offset, order):
    """The state after the rows ``order``, and the bounds that follow from it."""
    targets, average = as_targets(codes, classes), bool(getattr(learner, "average", False))
    model = linear_model(targets.problems(), X.shape[1], offset=offset, average=average)
    model.learn_from(model.rows(X), targets, order, trainer_of(learner).rule(2.0))
    return model.linear, model.tally, model.bounds()


def run_plain(monkeypatch, *arguments):
    """The same without any compiled code."""
    with monkeypatch.context() as patch:
        patch.setattr(LinearModel, "loop", staticmethod(loop.learn.plain))
        patch.setattr(linear_models, "maintain", linear_models.maintain.plain)
        return run(*arguments)


def assert_same_bits(compiled, plain):
    (space, tally, lowest), (plain_space, plain_tally, plain_lowest) = compiled, plain
    for name in space.scalars.table.dtype.names:
        mine, other = space.scalars.table[name], plain_space.scalars.table[name]
        assert mine.tobytes() == other.tobytes(), (name, mine, other)
    assert space.weights.tobytes() == plain_space.weights.tobytes()
    for name in ("share", "mark", "mark_share", "average"):
        mine, other = getattr(space.witness, name), getattr(plain_space.witness, name)
        assert mine.tobytes() == other.tobytes(), name
    assert tally.tobytes() == plain_tally.tobytes(), (tally, plain_tally)
    assert lowest.tobytes() == plain_lowest.tobytes(), (lowest, plain_lowest)


def problem(classes, dtype):
    """Rows with a zero row among them, their class codes, and an order that jumps about."""
    X, y = separable(n=30, d=11) if classes == 2 else three_classes(n=30, d=11)
    X[:, 5] = 0.0
    X[7] = 0.0
    codes = (y > 0 if classes == 2 else y).astype(np.int32)
    order = np.random.default_rng(1).permutation(np.tile(np.arange(30, dtype=np.int32), 3))
    return X.astype(dtype), codes, order


def rules_and_rows():
    """Every rule on dense rows of two classes in double precision; on others one rule.

    By `make test-all` every rule on all kinds of rows.
    """
    double = [("C", np.float64, 2)]
    others = [("C", np.float64, 3), ("CSR", np.float64, 2), ("CSR", np.float64, 3)]
    others += [("C", np.float32, 3), ("CSR", np.float32, 3)]
    further = [("C", np.float32, 2), ("CSR", np.float32, 2), ("Fortran", np.float64, 2)]
    others += everything_or([], further)
    some = everything_or([ROMMA(delta=0.1)], learners())
    for rows, rules in ((double, learners()), (others, some)):
        for form, dtype, classes in rows:
            for learner in rules:
                name = f"{form}-{np.dtype(dtype)}-{classes}-{label(learner)}"
                yield pytest.param(learner, form, dtype, classes, id=name)


@pytest.mark.parametrize(("learner", "form", "dtype", "classes"), list(rules_and_rows()))
def test_compiled_equals_plain_for_every_rule(monkeypatch, learner, form, dtype, classes):
    X, codes, order = problem(classes, dtype)
    for offset in (0.0, 1.5):
        arguments = learner, FORMS[form](X), codes, classes, offset, order
        compiled = run(*arguments)
        assert compiled[0].scalars.table.updates.min() > 0
        assert_same_bits(compiled, run_plain(monkeypatch, *arguments))


@pytest.mark.parametrize(
    "learner", everything_or([ROMMA(delta=0.1)], [ROMMA(delta=0.1), *learners()[:2]]), ids=label
)
@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        (strided, np.float64),
        (csr_with_wide_indices, np.float64),
        *everything_or(
            [],
            [
                (np.asfortranarray, np.float32),
                (strided, np.float32),
                (csr_with_wide_indices, np.float32),
            ],
        ),
    ],
)
def test_compiled_equals_plain_for_other_layouts(monkeypatch, learner, form, dtype):
    X, codes, order = problem(3, dtype)
    arguments = learner, form(X), codes, 3, 1.5, order
    assert_same_bits(run(*arguments), run_plain(monkeypatch, *arguments))


@pytest.mark.parametrize("learner", learners(), ids=label)
def test_rows_that_are_only_looked_at_change_nothing(learner):
    X, codes, order = problem(2, np.float64)
    X[:4] *= 1e3  # longer than all that are learned from
    learned = order[order >= 4]
    among = np.where(order >= 4, order, -1 - order)
    assert among.min() == -4
    assert_same_bits(*(run(learner, X, codes, 2, 1.5, each) for each in (learned, among)))


@pytest.mark.parametrize(
    ("learner", "form"),
    [*product(learners(), [FORMS["C"]]), *product(learners_of_sparse_rows(), [FORMS["CSR"]])],
    ids=lambda given: getattr(given, "__name__", None) or label(given),
)
def test_zero_rows_are_trials_but_never_updates(monkeypatch, learner, form):
    """Neither at w = 0, where every rule wants an update, nor later."""
    X, y = separable(n=20, d=4)
    X[:3] = 0.0
    zeros, all_rows = np.arange(3, dtype=np.int32), np.arange(20, dtype=np.int32)
    codes = (y > 0).astype(np.int32)
    space, tally, _ = run(learner, form(X), codes, 2, 0.0, zeros)
    assert space.scalars.table.updates[0] == 0
    assert not space.weights.any()
    assert tally.trials[0] == tally.mistakes[0] == 3

    arguments = learner, form(X), codes, 2, 0.0
    once, _, _ = run(*arguments, all_rows)
    again, tally, _ = run(*arguments, np.concatenate([all_rows, zeros]))
    assert once.scalars.table.updates[0] == again.scalars.table.updates[0] > 0
    assert tally.trials[0] == 23
    assert np.isfinite(again.weights).all()
    # Plain Python raises where compiled code would divide by zero in silence.
    run_plain(monkeypatch, *arguments, np.concatenate([zeros, all_rows, zeros]))


def test_nothing_but_zero_rows_with_an_intercept():
    """The intercept's coordinate makes them usable."""
    X, codes = np.zeros((2, 3)), np.array([0, 1], dtype=np.int32)
    space, _, _ = run(learners()[0], X, codes, 2, 1.0, np.arange(2, dtype=np.int32))
    assert space.scalars.table.updates[0] > 0
    assert not space.weights[:, :-1].any()


def test_signs():
    codes = np.array([0, 1, 2], dtype=np.int32)
    assert [Binary(codes[:2]).sign(i, 0) for i in range(2)] == [-1.0, 1.0]
    rest = OneVsRest(codes, 3)
    signs = [[rest.sign(i, c) for c in range(3)] for i in range(3)]
    np.testing.assert_array_equal(signs, 2 * np.eye(3) - 1)


def test_mistakes_of_several_classes():
    """A mistake is a trial in which the right class is not alone at the top."""
    X, y = three_classes(n=40, d=4, spread=2.0)
    codes, order = y.astype(np.int32), np.arange(40, dtype=np.int32)
    learner = ROMMA(delta=0.1)
    expected = 0
    for t in range(40):
        space, _, _ = run(learner, X, codes, 3, 1.0, order[:t])
        scores = space.scalars.table.scale * (space.weights[:, :-1] @ X[t] + space.weights[:, -1])
        expected += bool(np.sum(scores >= scores[y[t]]) > 1)
    assert run(learner, X, codes, 3, 1.0, order)[1].mistakes[0] == expected > 3


def test_sparse_and_dense_rows_give_the_same_model():
    """To rounding: the lanes of a sparse row hold other elements than those of a dense one."""
    X, y = sparse_separable(n=50, d=20)
    codes, order = (y > 0).astype(np.int32), np.arange(50, dtype=np.int32)
    for learner in learners_of_sparse_rows():
        sparse_space, sparse_tally, _ = run(learner, X, codes, 2, 1.0, order)
        dense_space, dense_tally, _ = run(learner, X.toarray(), codes, 2, 1.0, order)
        scales = sparse_space.scalars.table.scale, dense_space.scalars.table.scale
        np.testing.assert_allclose(
            scales[0] * sparse_space.weights, scales[1] * dense_space.weights, atol=1e-9
        )
        assert sparse_tally.mistakes == dense_tally.mistakes
