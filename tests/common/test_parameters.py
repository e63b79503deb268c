import inspect
import re
from numbers import Integral

import numpy as np
import pytest
from common.estimators import ESTIMATORS, every_estimator, every_public_estimator, memory
from extent import everything_or
from problems import separable
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions

from maxmargin import NORMA, PassiveAggressive, Relaxation

X, y = separable(n=12, d=3)


def outside(interval: Interval):
    """Values just outside an interval, and others that are in none."""
    step = 1 if interval.type is Integral else 0.5
    if interval.left is not None:
        yield interval.left - step
        if interval.closed in ("right", "neither"):
            yield interval.left
    if interval.right is not None:
        yield interval.right + (step if interval.right < 1e9 else 1e-9 * interval.right)
        if interval.closed in ("left", "neither"):
            yield interval.right
    yield np.nan
    yield -np.inf
    if interval.right is not None or interval.closed in ("left", "neither"):
        yield np.inf
    if interval.type is Integral and interval.left is not None:
        yield interval.left + 0.5


def illegal_values(constraints: list):
    for constraint in constraints:
        if isinstance(constraint, Interval):
            yield from outside(constraint)
    if constraints == ["boolean"]:
        yield from ("yes", None, 2)
    yield from ("nonsense", [1.0])
    if dict not in constraints:
        yield {}


def differently_constrained():
    """Each parameter with the first learner that has it, or with each that limits it otherwise."""
    known = {}
    for Estimator in ESTIMATORS:
        for name, constraints in Estimator._parameter_constraints.items():
            known.setdefault((name, *map(str, constraints)), (Estimator, name, constraints))
    return list(known.values())


ILLEGAL = [
    pytest.param(Estimator, name, value, id=f"{Estimator.__name__}-{name}={value}")
    for Estimator, name, constraints in everything_or(
        differently_constrained(),
        [(each, *item) for each in ESTIMATORS for item in each._parameter_constraints.items()],
    )
    for value in illegal_values(constraints)
]


@every_public_estimator
def test_every_parameter_has_a_default_and_a_constraint(Estimator):
    assert list(Estimator().get_params()) == sorted(Estimator._parameter_constraints)
    parameters = inspect.signature(Estimator).parameters.values()
    assert all(each.kind is each.KEYWORD_ONLY for each in parameters)
    assert all(each.default is not each.empty for each in parameters)


@every_public_estimator
def test_defaults_are_legal_and_useful(Estimator):
    X, y = separable()
    least = 1.0 if Estimator.max_iter > 1 else 0.95  # in a single pass
    assert Estimator(random_state=0).fit(X, y).score(X, y) >= least


@pytest.mark.parametrize(("Estimator", "name", "value"), ILLEGAL)
def test_error_names_the_parameter_and_its_range(Estimator, name, value):
    learner = Estimator(**{name: value})
    with pytest.raises(ValueError, match=f"'{name}' parameter of {Estimator.__name__}") as error:
        learner.fit(X, y)
    with pytest.raises(ValueError, match=re.escape(str(error.value))):
        learner.partial_fit(X, y, classes=[-1, 1])
    for constraint in Estimator._parameter_constraints[name]:
        if isinstance(constraint, Interval | StrOptions):
            assert str(constraint) in str(error.value)
    assert not hasattr(learner, "classes_")


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (
            Relaxation(margin=2.0, target=1.5, random_state=0),
            "'target' parameter .* not be below margin=2.0",
        ),
        (NORMA(rate=0.5, decay=2.0, random_state=0), "'decay' parameter .* below 1 / rate = 2.0"),
        (NORMA(rate=2.0, decay=7.0, random_state=0), "'decay' parameter .* below 1 / rate = 0.5"),
    ],
)
def test_parameters_that_do_not_go_together(learner, message):
    for learn in (learner.fit, lambda X, y: learner.partial_fit(X, y, classes=[-1, 1])):
        with pytest.raises(ValueError, match=message):
            learn(X, y)
        assert not hasattr(learner, "classes_")


@every_estimator
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_fitted_model_survives_an_illegal_parameter(Estimator, method):
    learner = Estimator(random_state=0).fit(X, y)
    before = memory(learner)
    learner.set_params(max_iter=0)
    with pytest.raises(ValueError, match="'max_iter' parameter"):
        getattr(learner, method)(X[::-1], y)
    assert memory(learner) == before
    learner.set_params(max_iter=1)
    getattr(learner, method)(X[::-1], y)
    assert memory(learner) != before


@pytest.mark.parametrize("value", ["max", 7.0])
def test_values_of_several_kinds_are_legal(value):
    learner = PassiveAggressive(intercept_scaling=value, C=None, random_state=0)
    assert learner.fit(X, y).score(X, y) == 1.0


def test_largest_norm_as_intercept_scaling_needs_all_rows():
    learner = PassiveAggressive(intercept_scaling="max")
    with pytest.raises(ValueError, match='intercept_scaling="max" needs all rows'):
        learner.partial_fit(X, y, classes=[-1, 1])
    scaled = clone(learner).set_params(intercept_scaling=np.linalg.norm(X, axis=1).max())
    learner.set_params(random_state=0).fit(X, y)
    scaled.set_params(random_state=0).fit(X, y)
    np.testing.assert_allclose(learner.coef_, scaled.coef_, rtol=1e-9)
    np.testing.assert_allclose(learner.intercept_, scaled.intercept_, rtol=1e-9)
