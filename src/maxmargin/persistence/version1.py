"""Files of format version 1: what they hold, in the words of the present one.

They nest parts by class and field, ``{"part": class, "fields": {...}}``. Classes follow from the
specification of a model; fields are the leaves of today, some of them elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from maxmargin.persistence.model_tree import Leaves, Misfit, renamed

ATTRIBUTES = {
    "classes_": "classes",
    "n_features_in_": "features",
    "feature_names_in_": "names",
    "columns_": "columns",
    "schema_": "schema",
    "n_iter_": "n_iter",
    "n_mistakes_": "n_mistakes",
    "converged_": "converged",
    "rounds_": "rounds",
    "_spare": "spare",
    "_structure": "structure",
    "_ceiling": "ceiling",
    "_margins": "margins",
    "_half_done": "",
}
# Where fields are now; "" is nowhere, because they follow from the rest.
FIELDS = {
    **{name: f"supports.{name}" for name in ("numbers", "labels", "diagonal", "coefs", "marks")},
    "averages": "supports.averages",
    "supports.X": "supports.points.X",
    "supports.squares": "supports.points.squares",
    "supports.factors": "supports.points.factors",
    "scalars": "scalars.table",
    "linear.scalars": "linear.scalars.table",
    "linear.geometry.slops": "linear.geometry.sum_errors",
    **{f"slots.{name}": f"store.slots.{name}" for name in ("coefs", "squares", "taken")},
    "slot_numbers": "store.numbers",
    "slot_labels": "store.labels",
    "_cross": "store.dtype",
    "_bounds": "bounds",
    "_width": "width",
    "linear.width": "width",
    **dict.fromkeys(("average", "smallest", "cache_bytes", "most", "budget", "room"), ""),
    **dict.fromkeys(("linear.witness.split", "linear.geometry.p", "kernel.name"), ""),
    "joint.policy.most": "",
    **dict.fromkeys(("keeper.oldest", "keeper.lengths", "keeper.threshold", "keeper.careful"), ""),
    "keeper.rounding": "",
}
COLUMNS = {"slop": "norm_error", "lawful": "certifiable", "rr": "largest_xx"}
DTYPES = {"f4": "float32", "f8": "float64"}


def learnt(
    clf: BaseEstimator, attributes: dict[str, Any], load: Callable[[Any], Any]
) -> dict[str, Any]:
    """What learning has given a learner, from its attributes in a file of version 1."""
    found: dict[str, Any] = {}
    for name, tree in attributes.items():
        if name in ("_model", "_mixture"):
            continue
        if name not in ATTRIBUTES:
            raise Misfit("there are attributes that no learner has")
        if ATTRIBUTES[name] == "rounds":
            found["rounds"] = _rounds(tree, load)
        elif ATTRIBUTES[name]:
            found[ATTRIBUTES[name]] = load(tree)
    if "structure" in found:
        found["structure"] = _structure(clf, found["structure"])
    if "_mixture" in attributes:
        leaves = {f"mixture.{k}": v for k, v in _leaves(attributes["_mixture"], "", load).items()}
        found["model"] = leaves | {"errors": found.pop("n_mistakes", None)}
    elif "_model" in attributes:
        leaves = {
            _moved(path): leaf for path, leaf in _leaves(attributes["_model"], "", load).items()
        }
        leaves.pop("", None)
        found["width"] = leaves.pop("width", None)
        weights = leaves.get("linear.weights")
        found["private"] = 0 if weights is None else weights.shape[1] - found["width"] - 1
        if (sums := leaves.get("linear.geometry.sums")) is not None:
            leaves["linear.geometry.units"] = np.ones(sums.shape)
        if "store.dtype" in leaves:
            leaves["store.dtype"] = DTYPES[leaves["store.dtype"]]
            for name in ("members", "next_mark"):  # models on a budget had no use for them
                leaves.pop(name, None)
        found["model"] = leaves
    return found


def _structure(clf: BaseEstimator, settings: dict[str, Any]) -> dict[str, Any]:
    """The parameters that a model was made for, without what its class alone decides."""
    given = clf.get_params(deep=False).keys()
    for name in settings.keys() - given:
        if settings[name] != getattr(type(clf), name, None):
            raise Misfit(f"the model is not one for the parameters: {name}")
    return {k: v for k, v in settings.items() if k in given}


def _moved(path: str) -> str:
    for before, now in (("stores.", "store.points."), ("keeper.", "eviction.")):
        if path.startswith(before) and path not in FIELDS:
            return now + path.removeprefix(before)
    return FIELDS.get(path, path)


def _leaves(tree: Any, path: str, load: Callable[[Any], Any]) -> Leaves:
    """The leaves below a part, a list of parts, or rows."""
    if isinstance(tree, dict) and "part" in tree:
        tree = tree["fields"]
    elif isinstance(tree, list):
        tree = {str(k): each for k, each in enumerate(tree)}
    elif not (isinstance(tree, dict) and "X" in tree):
        leaf = load(tree)
        if isinstance(leaf, np.ndarray) and leaf.dtype.names:
            leaf = renamed(leaf, COLUMNS)
        return {} if leaf is None else {path: leaf}
    found: Leaves = {}
    for name, each in tree.items():
        found |= _leaves(each, f"{path}.{name}" if path else name, load)
    return found


def _rounds(tree: list[Any], load: Callable[[Any], Any]) -> list[Any]:
    if tree and isinstance(tree[0], list):
        return [_rounds(each, load) for each in tree]
    names = ("beta", "found", "checks", "outcome")
    return [tuple(load(each["fields"][name]) for name in names) for each in tree]
