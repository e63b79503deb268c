"""Functions of theorems at the edges: infinity where nothing is promised, errors by name."""

import inspect
import math
import random
import re

import numpy as np
import pytest

import maxmargin
from maxmargin import (
    AMIRA,
    NOCA,
    NORMA,
    PUMMA,
    DirectionalPerceptron,
    FixedShare,
    Forgetron,
    Perceptron,
    Relaxation,
    TrackingALMA,
)
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
    "rho": 0.1,
    "rho_min": 0.01,
    "tau": 0.9,
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
# What `test_numbers_of_any_size` draws from.
SIZES = {
    float: (0.0, 1e-300, 1e-160, 1e-9, 0.1, 0.5, 1.0, 2.0, 1e9, 1e160, 1e300, -1.0),
    int: (0, 1, 2, 10, 10**6, 10**15, -1),
    bool: (False, True),
}
EXPONENTS = (1.1, 2.0, 3.0, 50.0, 1000.0)
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
def test_numbers_of_any_size(theorem):
    """Squares may overflow, and differences of what overflows are NaN."""
    names, draw = possible(theorem), random.Random(0)
    for _ in range(1000):
        arguments = dict(names)
        for name in draw.sample(list(names), draw.randint(1, len(names))):
            arguments[name] = draw.choice(SIZES[type(names[name])] if name != "p" else EXPONENTS)
        found, said = called(theorem, arguments)
        if said:
            assert any(f"'{each}' " in said for each in names), said
        else:
            assert type(found) is float
            assert found >= 0.0, arguments


def test_numbers_of_numpy_overflow_without_a_warning():
    huge = np.float64(1e200)
    assert Perceptron.max_updates(huge, np.float64(1e-200)) == math.inf
    assert NORMA.mistake_bound(huge, huge, np.float64(1.0), 10) == math.inf


@pytest.mark.parametrize("theorem", THEOREMS.values(), ids=THEOREMS)
def test_no_margin_no_promise(theorem):
    names = possible(theorem)
    if "margin" not in names:
        pytest.skip("it does not depend on a margin")
    for margin in (0.0, -0.1):
        found, said = called(theorem, names | {"margin": margin})
        expected = 0.0 if FLOORS.fullmatch(theorem.__name__) else math.inf
        assert found == expected, said


# With these losses margins are at most 3, and 2.1 in ten trials.
MOVING = {"radius": 2.0, "norm": 1.0, "losses": 1.0}


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
            DirectionalPerceptron.max_updates,
            {"beta": 0.1, "radius": 2e200, "margin": 0.5, "spread": 1e200},
        ),
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
        (NORMA.mistake_bound, {**MOVING, "trials": 10, "margin": 2.2}, "margin"),
        (TrackingALMA.mistake_bound, {**MOVING, "margin": 3.1}, "margin"),
        (FixedShare.tracking_bound, {**MOVING, "trials": 10, "margin": 2.2}, "margin"),
        (
            TrackingALMA.loss_bound,
            {**MOVING, "margin": 0.5, "threshold": 0.1, "rate": 0.1, "margin_errors": 100},
            "margin_errors",
        ),
    ],
)
def test_what_cannot_be_is_named(bound, names, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        bound(**names)


def test_edges_by_hand():
    assert NOCA.max_founding_errors(1e-300, rho=1e300, tau=0.1) == pytest.approx(600.0)
    # Weights below 1 leave the rate as it is.
    arguments = {"threshold": 1.0, "target": 1.5, "rate": 0.5}
    light = Relaxation.margin_fraction(**arguments, f_max=0.5)
    assert light == Relaxation.margin_fraction(**arguments) == pytest.approx(1.0 / 2.25)
