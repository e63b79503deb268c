"""Files of models and checkpoints: never pickle, never code; see ``docs/files.md``."""

from __future__ import annotations

from contextlib import nullcontext
from typing import IO, Any

import numpy as np
from sklearn.base import BaseEstimator

from maxmargin import __version__, _registry
from maxmargin.persistence.container import (
    Container,
    ModelFileError,
    StrPath,
    explained,
    name_of,
    opened,
    write_container,
)
from maxmargin.persistence.json_values import dumped, is_learner, loaded, naming, not_ours

KINDS = ("model", "checkpoint")
# The classes in files of skops, which users have to trust.
TRUSTED_TYPES = [
    *(f"{module}.{name}" for name, module in _registry.LEARNERS.items()),
    "maxmargin.streams.recipe.Recipe",
]

__all__ = [
    "TRUSTED_TYPES",
    "ModelFileError",
    "describe",
    "load",
    "plain_parameters",
    "read_file",
    "save",
    "write_file",
]


def save(clf: BaseEstimator, path: StrPath | IO[bytes]) -> None:
    """Write a learner to a file.

    `load` restores it exactly. The file is replaced only when the new one is complete, and keeps
    its permissions; a symbolic link is followed. The same learner always gives the same bytes.

    Parameters
    ----------
    clf : estimator
        A learner of this library, fitted or not. A TypeError names parameters that are code, such
        as a kernel function. Pipelines are saved by skops.io or joblib.
    path : str, path-like, or a file opened for writing bytes
        An open file is written to at its position.

    Examples
    --------
    >>> import os, tempfile
    >>> from maxmargin import Perceptron
    >>> path = os.path.join(tempfile.mkdtemp(), "model.mm")
    >>> save(Perceptron().fit([[0.0], [1.0]], ["no", "yes"]), path)
    >>> load(path).predict([[2.0]]).tolist()
    ['yes']
    """
    if not is_learner(clf):
        raise TypeError(not_ours(clf))
    write_file(path, "model", {"model": clf})


def load(path: StrPath | IO[bytes]) -> Any:
    """Load a learner that `save` has written.

    It continues to learn as if it had never been saved, to the bit. Nothing in the file is
    executed. ``path`` may also be an open binary file that contains nothing else. A file that is
    damaged, foreign or inconsistent raises `ModelFileError`.
    """
    content = read_file(path, "model")
    with explained(path):
        clf = content["model"]
        if not is_learner(clf):
            raise ValueError("it contains no learner")
    return clf


def describe(path: StrPath | IO[bytes]) -> dict[str, Any]:
    """Describe a valid file.

    Returns
    -------
    dict
        ``format``, ``library`` (versions), ``kind`` ("model" or "checkpoint") and ``bytes``; and
        about the learner, where there is one, ``estimator``, ``parameters`` and, if it is fitted,
        ``n_features``, ``classes``, ``updates``, ``mistakes``, ``supports``, ``certificate``.
    """
    with opened(path) as container:
        content = _content(container)
        words = {name: container.header[name] for name in ("format", "library", "kind")}
        if not (isinstance(words["library"], str) and words["kind"] in KINDS):
            raise ValueError("its header does not name its kind")
    words["bytes"] = container.size
    for clf in filter(is_learner, content.values()):
        words |= {"estimator": type(clf).__name__, "parameters": plain_parameters(clf)}
        if clf.__sklearn_is_fitted__():
            words |= _learned_by(getattr(clf, "estimator_", clf))
    return words


def _learned_by(clf: BaseEstimator) -> dict[str, Any]:
    """What a fitted learner has learned, in numbers."""
    names = {"n_features": "n_features_in_", "mistakes": "n_mistakes_", "updates": "n_updates_"}
    words = {name: getattr(clf, attribute, None) for name, attribute in names.items()}
    words["classes"] = clf.classes_.tolist()
    for name, attribute in (("supports", "support_"), ("components", "components_")):
        if (rows := getattr(clf, attribute, None)) is not None:
            words[name] = len(rows)
    if (recipe := getattr(clf, "recipe_", None)) is not None:
        words |= {"columns": recipe.columns_, "n_features": recipe.n_features_in_use_}
    if (found := getattr(clf, "certificate_", None)) is not None:
        certificate = {"margin": found.margin, "bound": found.bound, "ratio": found.ratio}
        if np.isfinite(list(certificate.values())).all():  # the margins of a stream are unknown
            words["certificate"] = certificate
    return {name: value for name, value in words.items() if value is not None}


def plain_parameters(clf: BaseEstimator) -> dict[str, bool | int | float | str | None]:
    """The parameters as JSON has them; of other values the names of their classes."""
    found: dict[str, Any] = {}
    for name, value in clf.get_params(deep=False).items():
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, float) and not np.isfinite(plain):
            plain = str(plain)
        is_plain = plain is None or isinstance(plain, bool | int | float | str)
        found[name] = plain if is_plain else type(plain).__name__
    return found


def write_file(path: StrPath | IO[bytes], kind: str, content: dict[str, Any]) -> None:
    """Write values to a file, for `read_file` with the same ``kind``.

    Values consist of None, bool, int, float, str, lists, tuples, dicts, arrays of numbers or texts,
    CSR matrices, random generators and learners.
    """
    arrays: dict[str, np.ndarray] = {}
    trees = {}
    for name, value in content.items():
        with nullcontext() if is_learner(value) else naming(repr(name)):
            trees[name] = dumped(value, "" if name == "model" else name, arrays)
    write_container(path, {"kind": kind, "library": __version__, "content": trees}, arrays)


def read_file(path: StrPath | IO[bytes], kind: str) -> dict[str, Any]:
    """The values in a file of this kind; `ModelFileError` if it is not a valid one."""
    with opened(path) as container:
        if (found := container.header.get("kind")) != kind:
            raise ModelFileError(f"{name_of(path)}: the file holds a {found}, not a {kind}.")
        return _content(container)


def _content(container: Container) -> dict[str, Any]:
    found = {name: loaded(tree, container) for name, tree in container.header["content"].items()}
    if container.unused:
        raise ValueError(f"nothing uses its arrays {', '.join(sorted(container.unused))}")
    return found
