"""A learner as a tree: its parameters, and the attributes that learning has given it."""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

import maxmargin
from maxmargin.algorithms.bisectionperceptron import Round
from maxmargin.algorithms.noca import NOCA
from maxmargin.certificates import Certificate
from maxmargin.kernelmodel import KernelModel
from maxmargin.persistence.layouts import (
    Array,
    Context,
    Flag,
    ListOf,
    Misfit,
    Plain,
    Real,
    Spec,
    Whole,
)
from maxmargin.persistence.parts import MODELS, Part
from maxmargin.spaces.mixture import Mixture
from maxmargin.structure import structure_of


class Labels(Plain):
    """Class labels: sorted, each once."""

    def check(self, value: Any, context: Context) -> None:
        ordered = isinstance(value, np.ndarray) and value.ndim == 1 and value.size > 0
        if not ordered or not bool(np.all(value[1:] > value[:-1])):
            raise Misfit("the classes are not in order")
        context.agree("classes", value.size)


class Names(Plain):
    """The names of all features, as scikit-learn keeps them."""

    def check(self, value: Any, context: Context) -> None:
        listed = isinstance(value, np.ndarray) and value.dtype == object
        if not listed or value.shape != (context["features"],):
            raise Misfit("there is not one name for each feature")
        if not all(isinstance(name, str) for name in value):
            raise Misfit("a name of a feature is not a text")


class Columns(Plain):
    """The columns of names, in order."""

    def check(self, value: Any, context: Context) -> None:
        if not isinstance(value, dict) or list(value.values()) != list(range(len(value))):
            raise Misfit("the columns of names are not in order")
        if not context.agree("features", len(value)):
            raise Misfit("there is not one name for each column")


class Setting(Plain):
    """The value of a parameter."""

    kinds = bool, int, float, str, np.generic, np.random.RandomState, np.random.Generator

    def check(self, value: Any, context: Context) -> None:
        if not (value is None or isinstance(value, self.kinds)):
            raise Misfit(f"{value!r} is neither a number nor a text nor a random state")


class Settings(Plain):
    """The parameters that a model was made for."""

    def check(self, value: Any, context: Context) -> None:
        if not isinstance(value, dict):
            raise Misfit("the parameters of the model have no names")
        for each in value.values():
            SETTING.check(each, context)


class Rounds(Spec):
    """The rounds of one search, or of several."""

    one, several = ListOf(Part(Round)), ListOf(ListOf(Part(Round)))

    def dump(self, value: Any, context: Context) -> Any:
        spec = self.several if value and isinstance(value[0], list) else self.one
        return spec.dump(value, context)

    def load(self, tree: Any, context: Context) -> Any:
        spec = self.several if tree and isinstance(tree[0], list) else self.one
        return spec.load(tree, context)


SETTING = Setting()
# In this order, for some tell lengths to the next ones.
ATTRIBUTES: dict[str, Spec] = {
    "classes_": Labels(),
    "n_features_in_": Whole(1, "features"),
    "feature_names_in_": Names(),
    "columns_": Columns(),
    "schema_": Plain(),
    "n_iter_": Whole(),
    "n_mistakes_": Whole(),
    "converged_": Flag(),
    "rounds_": Rounds(),
    "_spare": Flag(),
    "_half_done": Flag(),
    "_structure": Settings(),
    "_ceiling": Real(0.0, finite=False),
    "_margins": Array("f8", "verdicts"),
    "_model": Part(*MODELS),
    "_mixture": Part(Mixture),
}
# Made anew when they are needed.
LEFT_OUT = {"_checked_parameters", "_one_row"}
NEEDED = {
    "_model": {"classes_", "n_features_in_", "n_iter_", "converged_", "_spare", "_structure"}
    | {"_ceiling", "_margins", "_model"},
    "_mixture": {"classes_", "n_features_in_", "n_iter_", "n_mistakes_", "_mixture"},
}


@functools.cache
def public_estimators() -> dict[str, Any]:
    """All classes that a file can name as a learner."""
    found = {name: getattr(maxmargin, name) for name in maxmargin.__all__}
    return {
        name: kind
        for name, kind in found.items()
        if isinstance(kind, type) and issubclass(kind, BaseEstimator)
    }


def is_learner(value: Any) -> bool:
    return isinstance(value, BaseEstimator)


def dump_learner(clf: Any, tree: Any) -> dict[str, Any]:
    """The JSON for a learner; something that cannot be stored raises TypeError and is named."""
    name = type(clf).__name__
    if public_estimators().get(name) is not type(clf):
        raise TypeError(f"Only learners of maxmargin can be saved, not {type(clf)!r}.")
    context, parameters, attributes = Context(tree), {}, {}
    for parameter, value in clf.get_params(deep=False).items():
        with tree.naming(f"The parameter '{parameter}' of {name}"):
            parameters[parameter] = SETTING.dump(value, context)
    for attribute in vars(clf).keys() - parameters.keys() - ATTRIBUTES.keys() - LEFT_OUT:
        raise TypeError(
            f"The attribute '{attribute}' of {name} cannot be saved: learning did not make it."
        )
    for attribute, spec in ATTRIBUTES.items():
        if attribute in vars(clf):
            with tree.naming(f"The attribute '{attribute}' of {name}"):
                attributes[attribute] = spec.dump(getattr(clf, attribute), context)
    return {"estimator": name, "parameters": parameters, "attributes": attributes}


def load_learner(found: dict[str, Any], tree: Any) -> Any:
    """The learner that JSON stands for."""
    clf, context, attributes = public_estimators()[found["estimator"]](), Context(tree), {}
    parameters = {name: SETTING.load(value, context) for name, value in found["parameters"].items()}
    if parameters.keys() != clf.get_params(deep=False).keys():
        raise Misfit(f"the parameters are not those of {found['estimator']}")
    clf.set_params(**parameters)
    if not found["attributes"].keys() <= ATTRIBUTES.keys():
        raise Misfit("there are attributes that no learner has")
    for name, spec in ATTRIBUTES.items():
        if name in found["attributes"]:
            attributes[name] = spec.load(found["attributes"][name], context)
    vars(clf).update(attributes)
    _check_learner(clf, context)
    return clf


def _check_learner(clf: Any, context: Context) -> None:
    """Do the attributes fit to each other, and to the parameters that the model was made for?"""
    state = "_mixture" if isinstance(clf, NOCA) else "_model"
    if not {"_mixture", "_model"} & vars(clf).keys():
        return
    if not NEEDED[state] <= vars(clf).keys() or len({"_mixture", "_model"} & vars(clf).keys()) > 1:
        raise Misfit("attributes of a fitted learner are missing")
    features, width = clf.n_features_in_, context["width"]
    if features != width and not ("columns_" in vars(clf) and features < width):
        raise Misfit(f"there are weights for {width} features, not for {features}")
    if state == "_model":
        _check_model(clf)


def _check_model(clf: Any) -> None:
    model, classes = clf._model, clf.classes_.size
    problems = classes + 1 if clf._spare else 1 if classes == 2 else classes
    if model.problems() != problems or model.verdicts() != clf._margins.size:
        raise Misfit(f"there are {model.problems()} weight vectors for {classes} classes")
    if clf._structure.keys() != structure_of(clf).keys():
        raise Misfit("the model was made for other parameters")
    fresh = type(clf)()
    for name, value in clf._structure.items():
        setattr(fresh, name, value)
    if clf._structure.get("p") == "log":
        fresh.p = model.p  # it has stayed what it was for the first features
    fresh._spare = clf._spare
    no_rows = sparse.csr_matrix((1, model.width()))
    private = model.private_coordinates()
    expected = fresh._new_model(no_rows, problems, private, model.tail, whole=False)
    if _settings(model) != _settings(expected):
        raise Misfit(f"the model is not one for the parameters of {type(clf).__name__}")


def _settings(model: Any) -> list[Any]:
    """What parameters decide about a model, whatever it has learnt."""
    if not isinstance(model, KernelModel):
        linear, joint = model.linear, getattr(model, "joint", None)
        policy = joint and (type(joint.policy), joint.policy)
        return [type(model), linear.geometry.p, type(linear.witness), model.average, policy]
    kernel, keeper = model.kernel, getattr(model, "keeper", None)
    names = "name", "degree", "coef0", "average", "most", "budget"
    choices = "oldest", "lengths", "careful", "threshold"
    return [
        *(type(part) for part in (model, kernel, keeper)),
        *(getattr(part, name, None) for part in (model, kernel) for name in names),
        *(getattr(keeper, name, None) for name in choices),
    ]


# ---------------------------------------------------------------------------------- in few words
def summary_of(clf: Any) -> dict[str, Any]:
    """What there is to say about a learner in few words, as JSON."""
    parameters = clf.get_params(deep=False)
    words: dict[str, Any] = {
        "estimator": type(clf).__name__,
        "parameters": {name: _shown(value) for name, value in parameters.items()},
    }
    if "n_features_in_" in vars(clf):
        words["n_features"] = int(clf.n_features_in_)
    if "classes_" in vars(clf):
        words["classes"] = [_shown(label) for label in clf.classes_.tolist()]
    if "_mixture" in vars(clf):
        words["mistakes"] = int(clf.n_mistakes_)
        words["components"] = int(clf._mixture.state.components[0])
    if "_model" in vars(clf):
        # The model itself must not change: what it computes on being asked is kept by a copy.
        model = copy.copy(clf._model)
        words["updates"] = int(model.updates())
        words["mistakes"] = int(model.tally.mistakes[0])
        if isinstance(model, KernelModel):
            words["supports"] = int(model.numbers.size)
        words |= _certificate(clf, model)
    return words


def _certificate(clf: Any, model: Any) -> dict[str, Any]:
    shown = clf._shown()
    if not np.isfinite(clf._margins[shown]).all():
        return {}  # of a stream nobody knows the margin
    bounds = model.bounds()
    bounds = np.where(bounds < np.inf, bounds, clf._ceiling)
    best = Certificate.weakest(clf._margins[shown], bounds[shown])
    numbers = {"margin": best.margin, "bound": best.bound, "ratio": best.ratio}
    if not all(np.isfinite(number) for number in numbers.values()):
        return {}
    return {"certificate": {name: float(number) for name, number in numbers.items()}}


def _shown(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    return type(value).__name__
