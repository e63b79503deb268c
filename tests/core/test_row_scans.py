"""Looks at all rows: compiled equals plain, and both are what they say."""

import numpy as np
import pytest
from problems import three_classes
from scipy import sparse

from maxmargin.certificates.bounds import rounding_of_products
from maxmargin.core.row_scans import first_unusable, largest_square, lowest_lead, lowest_outputs
from maxmargin.core.rows import Tail
from maxmargin.models.linear_model import as_rows
from maxmargin.spaces.euclid import Euclid
from maxmargin.spaces.pnorm import new_pnorm
from maxmargin.training.inputs import as_targets

every_form = pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])


@every_form
def test_lowest_outputs(form):
    X, y = three_classes(n=30, d=4)
    weights = np.random.default_rng(0).normal(size=(3, 5))
    targets = as_targets(y.astype(np.int32), 3)
    outputs = (X @ weights[:, :-1].T + 2.0 * weights[:, -1]) * np.where(
        y[:, None] == range(3), 1, -1
    )
    rows, lowest, plain = as_rows(form(X), Tail(2.0, 0.0)), np.empty(3), np.empty(3)
    rounding = rounding_of_products(weights)
    lowest_outputs(rows, targets, weights, np.zeros(3), rounding, lowest)
    lowest_outputs.plain(rows, targets, weights, np.zeros(3), rounding, plain)
    np.testing.assert_array_equal(lowest, plain)
    np.testing.assert_allclose(lowest, outputs.min(axis=0), rtol=1e-13)
    assert (lowest < outputs.min(axis=0)).all()


@every_form
def test_lowest_lead(form):
    X, y = three_classes(n=30, d=4)
    weights = np.random.default_rng(0).normal(size=(3, 5))
    outputs = X @ weights[:, :-1].T + 2.0 * weights[:, -1]
    own = outputs[np.arange(30), y]
    outputs[np.arange(30), y] = -np.inf
    rows, targets = as_rows(form(X), Tail(2.0, 0.0)), as_targets(y.astype(np.int32), 3)
    lead = lowest_lead(rows, targets, weights, 1e-15)
    assert lead == lowest_lead.plain(rows, targets, weights, 1e-15)
    assert lead == pytest.approx((own[:, None] - outputs).min(), rel=1e-13)


@every_form
@pytest.mark.parametrize("p", [2.0, 3.0])
def test_largest_square(form, p):
    X, _ = three_classes(n=30, d=4)
    geometry = Euclid(2.0, 4) if p == 2.0 else new_pnorm(p, 0, 4)
    rows = as_rows(form(X), Tail(0.0, 0.0))
    square = largest_square(rows, geometry)
    assert square == largest_square.plain(rows, geometry)
    assert square == pytest.approx((np.linalg.norm(X, ord=p, axis=1) ** 2).max(), rel=1e-13)


@every_form
@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        *((value, dtype) for value in (np.nan, np.inf, -np.inf) for dtype in (np.float32, float)),
        *((value, float) for value in (1e51, 1e-51, 1e160, 1e-160, 5e-324)),
    ],
)
def test_unusable_rows_are_found(value, dtype, form):
    X = np.ones((6, 3), dtype)
    X[2] = 0.0
    X[4] = 0.0
    X[4, 1] = value
    rows = as_rows(form(X), Tail(0.0, 0.0))
    assert first_unusable(rows) == (4, 3.0)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        assert first_unusable.plain(rows) == (4, 3.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@every_form
def test_usable_rows_and_their_largest_norm(form, dtype):
    X = np.zeros((4, 3), dtype)
    X[1, 2], X[2, 0], X[3, 1] = 1e-30, -3e30, 1e30
    assert first_unusable(as_rows(form(X), Tail(0.0, 0.0))) == (-1, float(X[2, 0]) ** 2)
