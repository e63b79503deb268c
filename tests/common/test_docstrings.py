import inspect
import re

import pytest
from common.estimators import ALL_ESTIMATORS, every_public_estimator

STATIC_METHODS = [
    pytest.param(method, id=f"{Estimator.__name__}.{name}")
    for Estimator in ALL_ESTIMATORS
    for name, method in inspect.getmembers(Estimator, inspect.isroutine)
    if not name.startswith("_") and method.__module__.startswith("maxmargin.")
]


def sections(documented) -> dict[str, str]:
    """The sections of a docstring in NumPy's style, by title; what comes first has none."""
    parts = re.split(r"^(\w+)\n-+\n", inspect.getdoc(documented), flags=re.MULTILINE)
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


@every_public_estimator
def test_every_parameter_is_described(Estimator):
    entries = re.findall(
        r"^(\w[\w, ]*) : .*\n    \w", sections(Estimator)["Parameters"], re.MULTILINE
    )
    described = [name for entry in entries for name in entry.split(", ")]
    assert sorted(described) == sorted(Estimator().get_params())


@every_public_estimator
def test_default_in_the_text_is_the_default(Estimator):
    text = sections(Estimator)["Parameters"]
    for name, value in Estimator().get_params().items():
        stated = re.search(rf"^{name} : .*default=(\S+)$", text, re.MULTILINE)
        assert stated, f"{name} has no default in the text"
        assert eval(stated[1]) == value


@every_public_estimator
def test_formula_guarantee_reference_and_example(Estimator):
    found = sections(Estimator)
    assert "::" in found[""]
    assert "Guarantee" in found["Notes"]
    assert found["References"].strip()
    assert f">>> from maxmargin import {Estimator.__name__}" in found["Examples"]


@every_public_estimator
def test_every_fitted_attribute_is_described(Estimator):
    learner = Estimator(max_iter=1, random_state=0).fit([[0.0], [1.0]], [0, 1])
    described = sections(Estimator)["Attributes"]
    fitted = [name for name in dir(learner) if re.fullmatch(r"[a-z]\w*[a-z]_", name)]
    fitted = [name for name in fitted if hasattr(learner, name)]
    usual = {"intercept_", "certificate_"} if Estimator.facts.certificate else set()
    assert usual | {"n_iter_"} <= set(fitted)
    hyper_parameters = learner.get_params()
    assert [name for name in fitted if name not in described + str(hyper_parameters)] == []


@pytest.mark.parametrize("method", STATIC_METHODS)
def test_every_method_is_described(method):
    assert inspect.getdoc(method)
