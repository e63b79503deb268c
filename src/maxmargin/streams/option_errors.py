"""Errors and warnings that name options, which are spelled differently on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

MOST_NAMES = 20  # in a message


class Option(NamedTuple):
    """An option in a message."""

    name: str  # as in Python
    # The actual or the proposed value; "" for any value, ``...`` if only the name is meant.
    value: Any = ...

    def __str__(self) -> str:
        if self.value is ...:
            return repr(self.name)
        value = f'"{self.value}"' if isinstance(self.value, str) and self.value else self.value
        return f"{self.name}={value}"


Message = tuple[str | Option, ...]


class _WithOptions:
    """A message whose pieces (``args``) are str or `Option`."""

    args: tuple[Any, ...]

    def __str__(self) -> str:
        return self.spelled(str)

    def spelled(self, spell: Callable[[Option], str]) -> str:
        """The message, with options spelled by ``spell``."""
        return "".join(spell(part) if isinstance(part, Option) else str(part) for part in self.args)


class OptionError(_WithOptions, ValueError):
    """An error whose arguments are the pieces of its message, `str` or `Option`."""


class OptionWarning(_WithOptions, UserWarning):
    """A warning whose message may mention options; see `OptionError`."""


def check_na_values(values: Any) -> None:
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise OptionError(Option("na_values"), f" must be a list of texts; got {values!r}.")


def no_column(place: str | int, names: Sequence[str]) -> str:
    """The message about a missing column, with those that exist and a suggestion."""
    cases = {name.lower(): name for name in names}
    close = get_close_matches(str(place).lower(), cases, n=1, cutoff=0.5)
    hint = f" (did you mean {cases[close[0]]!r}?)" if close and isinstance(place, str) else ""
    return f"no column {place!r}; there are {listed(names)}{hint}."


def listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:MOST_NAMES]))
    return shown + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
