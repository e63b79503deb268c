"""Functions of theorems at the edges: infinity where nothing is promised, errors by name."""

import inspect
import math
import re

import pytest

import maxmargin
from maxmargin import AMIRA, PUMMA, DirectionalPerceptron, Forgetron, Perceptron, Relaxation
from maxmargin.algorithms.bound_arguments import ARGUMENTS

# Arguments that are possible together, for all theorems.
POSSIBLE = {
    "radius": 2.0,
    "diameter": 5.0,
    "smallest": 1.5,
    "norm": 1.0,
    "margin": 0.5,
    "losses": 3.0,
    "squared_losses": 3.0,
    "comparison": 3.0,
    "drift": 0.1,
    "squared_drift": 0.1,
    "p": 3.0,
    "distortion": 1.5,
    "features": 4,
    "delta": 0.5,
    "epsilon": 0.5,
    "alpha": 0.5,
    "beta": 0.25,
    "threshold": 0.2,
    "target": 1.1,
    "rate": 0.01,
    "decay": 0.1,
    "C": 1.0,
    "lambda_": 0.1,
    "project": True,
    "intercept_scaling": 1.0,
    "f_min": 0.5,
    "f_max": 1.5,
    "spread": 1.5,
    "start": 2,
    "k": 2,
    "budget": 100,
    "trials": 10,
    "mistakes": 4,
    "switches": 2,
    "experts": 3,
    "share": 0.1,
    "margin_errors": 2,
    "width": 1.0,
    "rho": 0.1,
    "rho_min": 0.01,
    "tau": 0.9,
    "quiet": 2,
    "components": 3,
    "floor": 0.9,
    "r": 0.5,
    "l1": 0.1,
    "l2": 0.1,
    "norm1": 1.5,
    "deviation": 2.0,
    "gradients": 3.0,
    "log_loss": 3.0,
}
THEOREMS = {
    f"{learner}.{name}": getattr(getattr(maxmargin, learner), name)
    for learner in maxmargin.ALGORITHMS
    for name, kind in vars(getattr(maxmargin, learner)).items()
    if isinstance(kind, staticmethod)
}
# These are no bounds from above.
FLOORS = re.compile("margin_fraction|critical_rate|best_rate")


def possible(theorem):
    return {name: POSSIBLE[name] for name in inspect.signature(theorem).parameters}


def called(theorem, arguments):
    """What a theorem says, or the message of its error."""
    try:
        return theorem(**arguments), ""
    except ValueError as error:
        return None, str(error)


def test_there_are_theorems():
    assert len(THEOREMS) > 40


@pytest.mark.parametrize("theorem", THEOREMS.values(), ids=THEOREMS)
def test_edges_are_numbers_or_errors_by_name(theorem):
    names = possible(theorem)
    assert names.keys() <= ARGUMENTS.keys()
    assert 0.0 <= theorem(**names) < math.inf
    for name in names:
        for edge in (-1.0, -1, 0.0, 0, 1.0, 1, math.inf, math.nan):
            found, said = called(theorem, names | {name: edge})
            if math.isnan(edge):
                assert f"The '{name}' parameter" in said
            elif said:
                assert any(f"'{each}' " in said for each in names)
            else:
                assert found >= 0.0


@pytest.mark.parametrize("theorem", THEOREMS.values(), ids=THEOREMS)
def test_no_margin_no_promise(theorem):
    names = possible(theorem)
    if "margin" not in names:
        pytest.skip("it does not depend on a margin")
    for margin in (0.0, -0.1):
        found, said = called(theorem, names | {"margin": margin})
        expected = 0.0 if FLOORS.fullmatch(theorem.__name__) else math.inf
        assert found == expected, said


@pytest.mark.parametrize(
    ("bound", "names"),
    [
        (AMIRA.max_updates, {"epsilon": 0.0, "radius": 1.0, "margin": 0.5}),
        (PUMMA.max_updates, {"delta": 0.0, "diameter": 3.0, "margin": 0.5}),
        (Perceptron.max_updates, {"radius": 1.0, "margin": 0.5, "f_min": 0.0}),
        (Forgetron.max_mistakes, {"norm": 2.0, "budget": 100}),
        (
            DirectionalPerceptron.max_updates_at_best_rate,
            {"beta": 1.0, "radius": 2.0, "margin": 0.5},
        ),
        (DirectionalPerceptron.stepwise_from, {"beta": 1.0, "radius": 2.0, "margin": 0.5}),
        (
            DirectionalPerceptron.max_updates_fixed,
            {"beta": 1.0, "rate": 0.1, "radius": 2.0, "margin": 0.5},
        ),
    ],
)
def test_nothing_is_promised(bound, names):
    assert bound(**names) == math.inf


@pytest.mark.parametrize(
    ("bound", "names", "name"),
    [
        (Perceptron.max_updates, {"radius": 1.0, "margin": 2.0}, "margin"),
        (Perceptron.max_updates, {"radius": -1.0, "margin": 0.1}, "radius"),
        (Perceptron.max_updates, {"radius": 1.0, "margin": math.nan}, "margin"),
        (Perceptron.max_updates, {"radius": 1.0, "margin": 0.1, "f_min": 2.0}, "f_min"),
        (AMIRA.max_updates, {"epsilon": 1.5, "radius": 1.0, "margin": 0.1}, "epsilon"),
        (PUMMA.max_updates, {"delta": 0.1, "diameter": 1.0, "margin": 1.0}, "margin"),
        (PUMMA.max_updates, {"delta": -0.1, "diameter": 1.0, "margin": 0.1}, "delta"),
        (Relaxation.margin_fraction, {"threshold": 1.0, "target": 0.5, "rate": 1.0}, "target"),
    ],
)
def test_what_cannot_be_is_named(bound, names, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        bound(**names)
