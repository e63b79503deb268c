"""All kernel values come from one place, which can be replaced, and none is computed in vain."""

from collections import Counter

import numpy as np
import pytest
from models.kinds import ON_FULL, SPECS, begun, data, fitted, learn_all
from reference_kernel import poly, rbf
from scipy import sparse

from maxmargin import AMIRA
from maxmargin.kernels import functions, products
from maxmargin.kernels.functions import GaussianKernel, Kernel, PolynomialKernel
from maxmargin.kernels.points import Points
from maxmargin.kernels.products import CHUNK, Products
from maxmargin.models.spec import ExpansionSpec, KernelSpec, LinearSpec

KERNEL_SPECS = {name: spec for name, spec in SPECS.items() if not isinstance(spec, LinearSpec)} | {
    "kernel, precomputed": ExpansionSpec(kernel=KernelSpec("precomputed"))
}
every_kind = pytest.mark.parametrize("name", KERNEL_SPECS)


class Counting(Products):
    """Counts calls, and the numbers that they gave."""

    def __init__(self):
        self.calls, self.values = Counter(), Counter()
        self.shapes, self.within = [], []

    def _counted(self, name, result):
        self.calls[name] += 1
        self.values[name] += result.size
        return result

    def gram(self, kernel, some, others, out=None):
        self.shapes.append((*self.within, (some.size(), others.size())))
        return self._counted("gram", self._values(kernel, some, others, out))

    def _values(self, kernel, some, others, out):
        return super().gram(kernel, some, others, out)

    def _inside(self, name, work):
        self.within.append(name)
        try:
            return self._counted(name, work())
        finally:
            self.within.pop()

    def weighted_sums(self, *given):
        return self._inside("weighted_sums", lambda: super(Counting, self).weighted_sums(*given))

    def quadratic(self, *given):
        return self._inside("quadratic", lambda: super(Counting, self).quadratic(*given))

    def bare(self):
        """The shapes of matrices of values that were asked for by themselves."""
        return [shape[0] for shape in self.shapes if len(shape) == 1]


class Fake(Counting):
    """Computes kernel values by their definitions, as another device might."""

    def _values(self, kernel, some, others, out):
        if isinstance(kernel, functions.UserKernel | functions.PrecomputedKernel):
            return kernel.values(some, others, products.inner_products)
        left, right = (
            one.X.toarray() if sparse.issparse(one.X) else one.X for one in (some, others)
        )
        left, right = np.atleast_2d(left), np.atleast_2d(right)
        if isinstance(kernel, GaussianKernel):
            values = rbf(left, right, kernel.gamma)
        elif isinstance(kernel, PolynomialKernel):
            values = poly(left, right, kernel.gamma, int(kernel.degree), kernel.coef0)
        else:
            values = left @ right.T
        return values.astype(kernel.dtype)


@pytest.fixture
def nothing_else(monkeypatch):
    """Whoever computes kernel values by other means fails."""

    def fail(*args, **kwargs):
        raise AssertionError("kernel values were not asked for where they are made")

    for pairs in products.PAIRWISE:
        monkeypatch.setitem(products.PAIRWISE, pairs, fail)
    for kind in (*functions.KERNELS.values(), Kernel):
        monkeypatch.setattr(kind, "from_pairs", fail)


def given_for(name, form=np.asarray):
    given = data(3 if "joint" in name else 2)
    if name == "kernel, precomputed":
        return given._replace(X=rbf(given.X, given.X, 0.5))
    return given._replace(X=form(given.X))


# ------------------------------------------------------------------------------------- the seam
@every_kind
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_a_fit_takes_all_kernel_values_from_it(name, form, nothing_else, monkeypatch):
    given, fake = given_for(name, form), Fake()
    model, outcome = fitted(KERNEL_SPECS[name], given, products=fake)
    bounds, outputs = model.bounds(), model.outputs(given.X)
    assert fake.calls["gram"] > 0
    monkeypatch.undo()
    same, expected = fitted(KERNEL_SPECS[name], given)
    assert model.updates() == same.updates()
    np.testing.assert_allclose(outcome.margins, expected.margins, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(bounds, same.bounds(), rtol=1e-6)
    np.testing.assert_allclose(outputs, same.outputs(given.X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", [name for name in KERNEL_SPECS if "precomputed" not in name])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_a_stream_takes_all_kernel_values_from_it(name, form, nothing_else, monkeypatch):
    given, fake = given_for(name, form), Fake()
    model = begun(KERNEL_SPECS[name], given, products=fake)
    for start in (0, 30):
        learn_all(model, given.part(slice(start, start + 30)))
    bounds, outputs = model.bounds(), model.outputs(given.X)
    wider = model.grown(6, range(model.problems()), np.arange(given.classes))
    assert wider.products is fake
    monkeypatch.undo()
    same = begun(KERNEL_SPECS[name], given)
    learn_all(same, given)
    assert model.updates() == same.updates()
    np.testing.assert_allclose(bounds, same.bounds(), rtol=1e-6)
    np.testing.assert_allclose(outputs, same.outputs(given.X), rtol=1e-6, atol=1e-8)


def test_twins_and_models_that_go_on_keep_it():
    given, fake = given_for("kernel"), Fake()
    model, _ = fitted(SPECS["kernel"], given, products=fake)
    for other in (model.copy(), model.continued()):
        before = other.products.calls["gram"]
        other.outputs(given.X)
        assert isinstance(other.products, Fake)
        assert other.products.calls["gram"] == before + 1


# -------------------------------------------------------------------------------- nothing in vain
def test_a_fit_within_the_cache_computes_its_gram_matrix_once():
    given, counting = given_for("kernel"), Counting()
    model, _ = fitted(SPECS["kernel"], given, products=counting, max_iter=50)
    assert model.trials() > 2 * 60
    assert counting.bare() == [(60, 60)]
    # The certificate is made of the supports: of all coefficients, and of those lately.
    supports = model.support_numbers().size
    assert counting.shapes[1:] == 2 * [("quadratic", (supports, supports))]
    assert counting.calls["weighted_sums"] == 0


@pytest.mark.parametrize("name", ["kernel", "kernel, soft margin", "kernel, pairs"])
def test_looking_at_the_margin_keeps_the_gram_matrix(name):
    counting = Counting()
    model, outcome = fitted(
        SPECS[name], given_for(name), products=counting, max_iter=30, tol=1e-9, shuffle=False
    )
    assert outcome.n_iter > 5
    assert counting.bare() == [(60, 60)]
    plain, expected = fitted(SPECS[name], given_for(name), max_iter=outcome.n_iter, shuffle=False)
    np.testing.assert_array_equal(outcome.margins, expected.margins)
    np.testing.assert_array_equal(model.weights(), plain.weights())


def test_averages_are_summed_once_where_the_margin_is_looked_at():
    name, counting = "kernel, averaged", Counting()
    model, outcome = fitted(
        SPECS[name], given_for(name), products=counting, max_iter=10, tol=1e-9, shuffle=False
    )
    assert counting.bare() == [(60, 60)]
    plain, _ = fitted(SPECS[name], given_for(name), max_iter=outcome.n_iter, shuffle=False)
    np.testing.assert_allclose(model.weights(), plain.weights(), rtol=1e-12, atol=1e-15)


def test_beyond_the_cache_blocks_need_no_more_than_their_own_values(monkeypatch):
    """Each block its Gram matrix, and its products with the rows that wait."""
    monkeypatch.setattr(Products, "block", 16)
    monkeypatch.setattr(Products, "most_waiting", 10**6)
    given, counting = given_for("kernel"), Counting()
    spec = ExpansionSpec(kernel=KernelSpec("rbf", gamma=0.5, cache_size=1e-6))
    model, _ = fitted(spec, given, products=counting, max_iter=1, shuffle=False)
    shapes, blocks, supports = counting.bare(), [16, 16, 16, 12], model.support_numbers().size
    assert shapes[0] == (16, 16)
    grams, waiting = shapes[2:7:2], shapes[1:6:2]
    assert grams == [(size, size) for size in blocks[1:]]
    assert [columns for _, columns in waiting] == blocks[1:]
    assert [rows for rows, _ in waiting] == sorted(rows for rows, _ in waiting)
    # In the end those that wait act on all rows.
    assert shapes[7:] == [(supports, 60)]


@pytest.mark.parametrize("on_full", ON_FULL)
def test_a_block_on_a_budget_needs_its_own_values_and_those_with_the_slots(on_full):
    given, counting = data(n=600), Counting()
    model = begun(SPECS[f"budget, {on_full}"], given, products=counting)
    learn_all(model, given)
    blocks = [256, 256, 88]
    assert counting.bare()[::2] == [(size, size) for size in blocks]
    cross = counting.bare()[1::2]
    assert [rows for rows, _ in cross] == blocks
    assert [columns for _, columns in cross] == [0, 7, 7]
    assert counting.calls["weighted_sums"] == counting.calls["quadratic"] == 0


def test_a_stream_needs_its_own_values_and_those_with_the_supports():
    given, counting = data(n=300), Counting()
    model = begun(SPECS["kernel"], given, products=counting)
    learn_all(model, given.part(slice(0, 256)))
    assert counting.bare() == [(256, 256)]
    supports = model.support_numbers().size
    learn_all(model, given.part(slice(256, 300)))
    assert counting.bare()[1:] == [(44, 44)]
    sums = [shape[1] for shape in counting.shapes if shape[0] == "weighted_sums"]
    assert sums == [(supports, 44)]


def test_predictions_need_one_value_for_each_row_and_support():
    given, counting = data(), Counting()
    model, _ = fitted(SPECS["kernel"], given, products=counting)
    supports, before = model.support_numbers().size, counting.values["gram"]
    many = np.tile(given.X, (CHUNK // 60 + 2, 1))
    model.outputs(many)
    assert counting.values["gram"] - before == supports * many.shape[0]
    assert counting.calls["weighted_sums"] == 2  # some thousand rows at a time


@pytest.mark.parametrize("most", [1, 7, CHUNK])
def test_sums_do_not_depend_on_how_they_are_cut(monkeypatch, most):
    X, others = data(n=30).X, data(n=20, seed=1).X
    kernel, weights = GaussianKernel(0.5, 3.0, 0.0, np.float64), np.linspace(-1.0, 2.0, 60)
    weights, mine = weights.reshape(2, 30), Products()
    points, more = kernel.points(X), kernel.points(others)
    monkeypatch.setattr(products, "CHUNK", most)
    K = rbf(X, X, 0.5)
    np.testing.assert_allclose(
        mine.weighted_sums(kernel, weights, points, more, 0.3),
        weights @ (rbf(X, others, 0.5) + 0.3),
        rtol=1e-12,
    )
    squares = mine.quadratic(kernel, weights, points, np.ones(30), 0.2)
    exact = np.einsum("ci,ij,cj->c", weights, K, weights) + 0.2 * (weights**2).sum(axis=1)
    assert (squares >= exact * (1.0 - 1e-14)).all()
    np.testing.assert_allclose(squares, exact, rtol=1e-9)


def test_what_is_no_kernel_proves_nothing():
    kernel = functions.UserKernel(0.0, 0.0, 0.0, np.float64).with_function(lambda a, b: -(a @ b.T))
    points = kernel.points(np.eye(3))
    assert np.isnan(Products().quadratic(kernel, np.ones((1, 3)), points, np.ones(3), 0.0))


# ------------------------------------------------------------------------------------------ points
@pytest.fixture
def points_made(monkeypatch):
    """How many rows were made points, call by call."""
    made, points = [], GaussianKernel.points

    def counted(self, X):
        made.append(X.shape[0])
        return points(self, X)

    monkeypatch.setattr(GaussianKernel, "points", counted)
    return made


@pytest.mark.parametrize("name", ["kernel", "kernel, pairs", "kernel, joint", "budget, random"])
def test_points_are_made_once_in_a_fit(name, points_made):
    given = given_for(name)
    model, _ = fitted(KERNEL_SPECS[name], given)
    model.bounds()
    assert points_made == [60]
    model.outputs(given.X[:10])
    assert points_made == [60, 10]


@pytest.mark.parametrize("budget", [None, 7])
def test_points_are_made_once_by_learners(points_made, budget):
    given = data()
    common = {"max_iter": 3, "tol": 1e-6, "warm_start": True, "random_state": 0}
    clf = AMIRA(kernel="rbf", gamma=0.5, budget=budget, **common)
    clf.fit(given.X, given.codes)
    assert points_made == [60]
    clf.fit(given.X, given.codes)
    assert points_made == [60, 60]
    assert clf.certificate_.bound > 0.0
    clf.partial_fit(given.X[:20], given.codes[:20])
    assert points_made == [60, 60, 20]
    clf.predict(given.X[:5])
    assert points_made == [60, 60, 20, 5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("entries", [[2, 2], [1, 3], [0, 2]])
def test_rows_of_any_length_are_put_into_sparse_slots(entries, dtype):
    rng = np.random.default_rng(0)
    slots, new = np.zeros((4, 5)), np.zeros((2, 5))
    for lines, counts in ((slots, [2] * 4), (new, entries)):
        for line, count in zip(lines, counts, strict=True):
            line[rng.choice(5, count, replace=False)] = rng.normal(size=count)
    places, which = np.array([3, 1]), np.array([0, 1], dtype=np.int32)
    points = Points(sparse.csr_matrix(slots.astype(dtype)))
    points.put(places, Points(sparse.csr_matrix(new)), which)
    expected = slots.astype(dtype).astype(np.float64)
    expected[places] = new[which]
    assert np.array_equal(points.X.toarray(), expected)
    assert points.X.has_canonical_format
