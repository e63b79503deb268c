"""No test may depend on chance: random numbers come from a seed, or there are none.

Who asks for random numbers without a seed gets those of NumPy's global state: the functions of
`numpy.random`, and all that is given ``random_state=None``, by way of `check_random_state` of
scikit-learn and SciPy. While `no_unseeded_randomness` lasts, both fail the test.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.base import ClassifierMixin
from sklearn.svm import SVC

from maxmargin.training.online import OnlineTrainer
from maxmargin.training.passes import FitPlan
from maxmargin.training.protocol import Options

GLOBAL = np.random.mtrand._rand
# Hypothesis seeds the global state before each example, and puts it back.
ALLOWED = {"seed", "get_state", "set_state"}
# Who may ask for a seed: learners, what learns for them, and the plans of their passes.
ASKING = (ClassifierMixin, OnlineTrainer, Options, FitPlan)
# Copies would be as random as the original.
REFUSED = {name for name in dir(GLOBAL) if not name.startswith("_")} - ALLOWED
REFUSED |= {"__deepcopy__", "__copy__", "__reduce_ex__", "__reduce__"}


def refuse(name: str) -> None:
    # Not an Exception: nothing on the way catches it.
    pytest.fail(
        f"numpy.random.{name} without a seed: the test may fail by chance. Pass a seed "
        "(random_state=0, default_rng(0)), or shuffle=False to a learner."
    )


def is_not_needed(name: str) -> bool:
    """Does somebody ask for a seed who makes no use of it?

    A learner that does not shuffle, a support vector machine (for probabilities only), or what
    reads model files and makes an empty learner to compare them with.
    """
    frame, asking = sys._getframe(2), []
    for _ in range(3):
        asking += [one for one in frame.f_locals.values() if isinstance(one, ASKING)]
        frame = frame.f_back
    if name == "randint" and any(isinstance(one, SVC) or not shuffles(one) for one in asking):
        return True
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("maxmargin.persistence"):
            return True
        frame = frame.f_back
    return False


def shuffles(learner: Any) -> bool:
    return getattr(getattr(learner, "options", learner), "shuffle", True) is not False


class Refusing(np.random.RandomState):
    """Stands where the global state was, and draws nothing."""

    def __getattribute__(self, name: str) -> Any:
        if name in REFUSED and not is_not_needed(name):
            refuse(name)
        return super().__getattribute__(name)


def _refusing(name: str) -> Any:
    return lambda *args, **kwargs: refuse(name)


def _default_rng(seed: Any = None) -> np.random.Generator:
    if seed is None:
        refuse("default_rng")
    return DEFAULT_RNG(seed)


DEFAULT_RNG = np.random.default_rng
FUNCTIONS = {
    name: function
    for name, function in vars(np.random).items()
    if getattr(function, "__self__", None) is GLOBAL and name not in ALLOWED
} | {"default_rng": DEFAULT_RNG}
REPLACEMENTS = {name: _refusing(name) for name in FUNCTIONS} | {"default_rng": _default_rng}
STATE = Refusing(GLOBAL._bit_generator)


@contextlib.contextmanager
def no_unseeded_randomness() -> Iterator[None]:
    """Random numbers without a seed fail the test that asks for them."""
    np.random.mtrand._rand = STATE
    vars(np.random).update(REPLACEMENTS)
    try:
        yield
    finally:
        vars(np.random).update(FUNCTIONS)
        np.random.mtrand._rand = GLOBAL
