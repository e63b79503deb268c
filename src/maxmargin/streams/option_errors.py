"""Errors and warnings that name options, which are spelled otherwise on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple


class Option(NamedTuple):
    """An option in a message.

    Attributes
    ----------
    name : str
        As in Python.
    value : object, default=...
        What it is or should be; "" if that is for the reader to say, and ``...`` if no value is
        meant.
    """

    name: str
    value: Any = ...

    def __str__(self) -> str:
        if self.value is ...:
            return repr(self.name)
        value = f'"{self.value}"' if isinstance(self.value, str) and self.value else self.value
        return f"{self.name}={value}"


# In pieces.
Message = tuple[str | Option, ...]


class _WithOptions:
    """A message in pieces (``args``), each a str or an `Option`."""

    args: tuple[Any, ...]

    def __str__(self) -> str:
        return self.spelled(str)

    def spelled(self, spell: Callable[[Option], str]) -> str:
        """The message, with options as ``spell`` writes them."""
        return "".join(spell(part) if isinstance(part, Option) else str(part) for part in self.args)


class OptionError(_WithOptions, ValueError):
    """An error whose message may mention options.

    Parameters
    ----------
    *parts : str or Option
        The message, in pieces.
    """


class OptionWarning(_WithOptions, UserWarning):
    """A warning whose message may mention options; see `OptionError`."""


def check_na_values(values: Any) -> None:
    """Raise unless these are texts."""
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise OptionError(Option("na_values"), f" must be a list of texts; got {values!r}.")


def no_column(name: str, known: Sequence[str]) -> str:
    """That there is none, and what may have been meant."""
    meant = nearest(name, known)
    there = f"did you mean {meant!r}?" if meant else f"there are {', '.join(map(repr, known))}."
    return f"there is no column {name!r} to learn from; {there}"


def nearest(name: str, known: Sequence[str]) -> str | None:
    """What may have been meant by a name, in any case; None if nothing is like it."""
    cases = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), cases, n=1, cutoff=0.5)
    return cases[close[0]] if close else None
