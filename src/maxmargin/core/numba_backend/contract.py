"""What both backends offer, and which of them is used.

``full`` compiles with passes and libraries of its own, counts no references and keeps machine code
on disk. For that it reaches into Numba, so it is used with versions that it was tested with.
``documented`` is made of Numba's documented functions alone. Results are the same to the bit.
"""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numba

# Versions of Numba that ``full`` was tested with: from the first to before the second.
TESTED = (0, 62), (0, 70)

VARIABLE = "MAXMARGIN_NUMBA_BACKEND"
FULL, DOCUMENTED = "full", "documented"

# Sums are taken in so many lanes; see `maxmargin.core.fixed_order_sums`.
LANES = 8

Function = TypeVar("Function", bound=Callable[..., Any])
Kind = TypeVar("Kind", bound=type)


class Backend(Protocol):
    """How functions are compiled.

    Compiled code raises no exceptions, and a division by zero gives infinity as in NumPy. Arrays
    come in as arguments and outlive the call: compiled code allocates none.
    """

    def dispatcher(self, function: Callable[..., Any], nogil: bool) -> Callable[..., Any]:
        """What compiles a function when it is called."""

    def entry(self, dispatcher: Any, *args: Any) -> Callable[..., Any]:
        """What can be called in its place with arguments of these types."""

    def helper(self, function: Function) -> Function:
        """Decorator: a function that compiled code calls, and Python too."""

    def primitive(self, meaning: Function) -> Function:
        """Decorator: the same, for which a backend may have instructions that are faster.

        They are found by the name of the function, and give the same result to the bit.
        """

    def bridge_method(self, name: str) -> None:
        """Make the methods of this name in `BRIDGED` callable from compiled code."""

    def cache_folder(self) -> Path | None:
        """Where machine code is kept for later processes; ``None`` if it is not kept."""


# The names of methods that compiled code may call, and whether they are copied into their callers:
# no NamedTuple that compiled code sees may have a field of such a name.
BRIDGED: dict[str, bool] = {}


def with_methods_of(other: type) -> Callable[[Kind], Kind]:
    """Class decorator: give a NamedTuple those methods of another class that it does not define."""

    def complete(cls: Kind) -> Kind:
        for name, method in vars(other).items():
            if inspect.isfunction(method) and not name.startswith("_") and not hasattr(cls, name):
                setattr(cls, name, method)
        return cls

    return complete


def chosen_backend() -> str:
    """`FULL` or `DOCUMENTED`: as the environment variable says, else by Numba's version."""
    if chosen := os.environ.get(VARIABLE):
        if chosen not in (FULL, DOCUMENTED):
            raise ValueError(f'{VARIABLE} must be "{FULL}" or "{DOCUMENTED}", not {chosen!r}.')
        return chosen
    if is_tested(numba.__version__):
        return FULL
    lowest, too_high = ("{}.{}".format(*version) for version in TESTED)
    warnings.warn(
        f"Numba {numba.__version__} has not been tested with maxmargin, which therefore uses "
        "Numba's documented functions only: results are the same, but learners are compiled anew "
        "in each process, which takes longer, and no compiled code is kept on disk. Install "
        f"numba>={lowest},<{too_high}, or set {VARIABLE}={DOCUMENTED} to silence this warning.",
        RuntimeWarning,
        stacklevel=2,
    )
    return DOCUMENTED


def is_tested(version: str) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and TESTED[0] <= (int(numbers[1]), int(numbers[2])) < TESTED[1]
