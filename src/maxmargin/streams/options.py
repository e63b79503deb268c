"""Errors that mention options, which have other names on the command line than in Python."""

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


class OptionError(ValueError):
    """An error whose message may mention options.

    Parameters
    ----------
    *parts : str or Option
        The message, in pieces.
    """

    def __str__(self) -> str:
        return self.spelled(str)

    def spelled(self, spell: Callable[[Option], str]) -> str:
        """The message, with options as ``spell`` writes them."""
        return "".join(spell(part) if isinstance(part, Option) else str(part) for part in self.args)


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
