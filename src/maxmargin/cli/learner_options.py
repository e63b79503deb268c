"""Learners by name, with parameters from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import maxmargin
from maxmargin.cli.data import numbers_or_words
from maxmargin.cli.errors import in_words, misuse, nearest

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

# The learner of all commands, unless another is named.
DEFAULT = "automargin"
WORDS = {"true": True, "false": False, "none": None}


def names() -> dict[str, str]:
    """Of all learners: as people type them, and as classes are called. Nothing is imported."""
    return {name.lower(): name for name in sorted(maxmargin.ALGORITHMS)}


def complete(incomplete: str) -> list[str]:
    return [name for name in names() if name.startswith(incomplete.lower())]


def make(algorithm: str, settings: list[str], *, streams: bool = True) -> Any:
    """The learner called ``algorithm``, with these settings."""
    return make_all([algorithm], settings, streams=streams)[0]


def make_all(algorithms: list[str], settings: list[str], *, streams: bool = True) -> list[Any]:
    """Learners by their names, which must learn from ``streams`` if these are all there is.

    A setting ``name=value`` is for all that have such a parameter, ``algorithm.name=value`` for
    that one.
    """
    chosen = [_checked_name(name) for name in algorithms]
    classes = {name: getattr(maxmargin, names()[name]) for name in chosen}
    for kind in classes.values():
        if streams and not hasattr(kind(), "fit_stream"):
            misuse(
                f"{kind.__name__} needs all rows in memory: only maxmargin fit takes it. Leave out "
                "--algorithm to use AutoMargin, or choose pumma for the maximum margin."
            )
    parsed = [_parsed(setting, chosen) for setting in settings]
    parameters = {name: list(cls().get_params()) for name, cls in classes.items()}
    for owner, parameter, _ in parsed:
        if parameter == "max_iter" and all(
            hasattr(each(), "fit_stream") for each in classes.values()
        ):
            misuse("max_iter has no effect on a stream: use fit --passes.")
        owners = [owner] if owner else chosen
        if not any(parameter in parameters[each] for each in owners):
            everything = sorted({each for one in owners for each in parameters[one]})
            who = " and ".join(dict.fromkeys(classes[each].__name__ for each in owners))
            verb = "has" if len(set(owners)) == 1 else "have"
            misuse(f"{who} {verb} no parameter {parameter!r}: {nearest(parameter, everything)}")
    learners = []
    for name in chosen:
        given = {
            parameter: value
            for owner, parameter, value in parsed
            if owner in ("", name) and parameter in parameters[name]
        }
        learners.append(_validated(classes[name](**given)))
    return learners


def _checked_name(name: str) -> str:
    plain = name.lower().replace("-", "").replace("_", "")
    if plain not in names():
        misuse(f"there is no algorithm {name!r}: {nearest(plain, names())}")
    return plain


def _parsed(setting: str, chosen: list[str]) -> tuple[str, str, Any]:
    """Whose parameter it is ("" for all), its name and its value."""
    key, equals, text = setting.partition("=")
    if not (key and equals):
        misuse(f"--set takes name=value, got {setting!r}.")
    owner, dot, parameter = key.strip().rpartition(".")
    if dot and (owner := _checked_name(owner)) not in chosen:
        misuse(f"--set {setting}: {owner} is not among the algorithms {', '.join(chosen)}.")
    return owner, parameter, value_of(text.strip())


def _validated(learner: BaseEstimator) -> Any:
    try:
        learner.check_parameters()
    except ValueError as error:
        misuse(in_words(error))
    return learner


def give_class_weights(learners: list[Any], text: str | None) -> None:
    """Give learners the weights of ``--class-weight``: ``balanced``, or ``label=number,...``."""
    if text is None:
        return
    weights: Any = text.strip()
    if weights != "balanced":
        pairs = [[word.strip() for word in part.rpartition("=")] for part in text.split(",")]
        if not all(label and number for label, _, number in pairs):
            misuse(f"--class-weight takes label=number, with commas, or balanced; got {text!r}.")
        labels = numbers_or_words([label for label, _, _ in pairs])
        if len(set(labels)) < len(labels):
            misuse(f"--class-weight: a class has two weights in {text!r}.")
        weights = dict(zip(labels, [value_of(number) for _, _, number in pairs], strict=True))
    for learner in learners:
        if "class_weight" not in learner.get_params(deep=False):
            misuse(f"--class-weight: {type(learner).__name__} does not support class weights.")
        _validated(learner.set_params(class_weight=weights))


def covering(learner: Any, coverage: float | None) -> Any:
    """The learner, with prediction sets if a coverage is asked for."""
    if coverage is None:
        return learner
    if not 0.0 < coverage < 1.0:
        misuse(f"--coverage must be between 0 and 1, got {coverage}.")
    return maxmargin.ConformalClassifier(learner, coverage=coverage)


def value_of(text: str) -> Any:
    """A number, true, false, none, or else a word."""
    return WORDS[text.lower()] if text.lower() in WORDS else numbers_or_words([text])[0]
