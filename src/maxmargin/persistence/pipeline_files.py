"""Pipelines of scikit-learn in files: transformers that are plain arrays, and a learner as the end.

A transformer is written as its class, its parameters and what fitting has given it. A file can name
no other classes than those in `TRANSFORMERS`, and `Recipe`. What is read must look like the same
transformer, freshly fitted: the same attributes, of the same types and shapes.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import sklearn
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)

from maxmargin import _registry
from maxmargin.persistence.learner_files import checked_setting, is_public, not_ours
from maxmargin.persistence.model_tree import MOST, Misfit

# All of them leave the number of features as it is.
TRANSFORMERS: dict[str, Any] = {
    each.__name__: each
    for each in (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, Normalizer)
}
RECIPE, WIDTH, NAMES = "Recipe", "n_features_in_", "feature_names_in_"
# What set_output has set, and what it can be.
CONTAINER = "_sklearn_output_config"
CONTAINERS = ("default", "pandas", "polars")
INSTEAD = (
    "Use a maxmargin.streams.Recipe as the first step, or save the pipeline by skops.io.dump (and "
    "trust maxmargin.persistence.TRUSTED_TYPES in skops.io.load)."
)
# Attributes that are set for scikit-learn, and not by fit.
ROUTING = {"_metadata_request"}


# ------------------------------------------------------------------------------------------ writing
def content_of(pipeline: Pipeline) -> dict[str, Any]:
    """What a file holds of a pipeline; TypeError names what it cannot hold."""
    if type(pipeline) is not Pipeline:
        raise TypeError(not_ours(pipeline))
    last = pipeline.steps[-1][1]
    if not is_public(last):
        raise TypeError(not_ours(last))
    given = pipeline.get_params(deep=False)
    for name in given.keys() - {"steps", "verbose"}:
        if given[name] is not None:
            raise TypeError(
                f"The parameter {name!r} of the pipeline cannot be saved: set it to None."
            )
    return {
        "pipeline": {
            "scikit-learn": sklearn.__version__,
            "names": [name for name, _ in pipeline.steps],
            "verbose": bool(given["verbose"]),
        },
        "steps": [_written(*step) for step in pipeline.steps[:-1]],
        "last": last,
    }


def _written(name: str, step: BaseEstimator) -> dict[str, Any]:
    kind = type(step).__name__
    if type(step) is not _class_of(kind):
        what = f"a {kind}" if isinstance(step, BaseEstimator) else repr(step)
        raise TypeError(
            f"The step {name!r} of the pipeline cannot be saved: it is {what}, and files have only "
            f"{', '.join(TRANSFORMERS)} and {RECIPE}. {INSTEAD}"
        )
    try:
        parameters = step.get_params(deep=False)
        fitted = {each: value for each, value in vars(step).items() if each not in parameters}
        container = fitted.pop(CONTAINER, {}).get("transform", "default")
        for each in ROUTING & fitted.keys():
            del fitted[each]
        if kind == RECIPE and fitted:
            if fitted.keys() != {"plan_", "running_"}:
                raise Misfit(f"fit does not make {', '.join(sorted(fitted))}")
            tree = step.tree()
            return {"class": kind, "container": container, "tree": tree}
        for each in parameters.values():
            checked_setting(each)
        if kind != RECIPE:
            _check(step, fitted)
        return {
            "class": kind,
            "container": container,
            "parameters": parameters,
            "attributes": fitted,
        }
    except ValueError as problem:
        raise TypeError(
            f"The step {name!r} of the pipeline cannot be saved: {problem}. {INSTEAD}"
        ) from None


def _class_of(name: str) -> Any:
    return TRANSFORMERS.get(name) or _registry.transformer(name)


# ------------------------------------------------------------------------------------------ reading
def pipeline_from(content: dict[str, Any]) -> Pipeline:
    """The pipeline that a file holds; raises unless its parts fit together."""
    about, steps, last = content["pipeline"], content["steps"], content["last"]
    names, version = about["names"], about["scikit-learn"]
    if not isinstance(last, BaseEstimator) or type(about["verbose"]) is not bool:
        raise Misfit("there is no learner at the end of the pipeline")
    if not isinstance(steps, list) or not all(isinstance(each, dict) for each in steps):
        raise Misfit("the steps of the pipeline are missing")
    if (
        not isinstance(names, list)
        or not all(isinstance(name, str) and name and "__" not in name for name in names)
        or len(set(names)) != len(steps) + 1
        or len(names) != len(steps) + 1
    ):
        raise Misfit("the steps of the pipeline have no names, or not one each")
    if not isinstance(version, str):
        raise Misfit("the version of scikit-learn is missing")
    read = [_read(name, step) for name, step in zip(names, steps, strict=False)]
    _check_widths(names, [*read, last])
    if version != sklearn.__version__:
        for kind in sorted({step["class"] for step in steps} & TRANSFORMERS.keys()):
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=kind,
                    current_sklearn_version=sklearn.__version__,
                    original_sklearn_version=version,
                ),
                stacklevel=3,
            )
    return Pipeline(list(zip(names, [*read, last], strict=True)), verbose=about["verbose"])


def _read(name: str, found: dict[str, Any]) -> Any:
    kind, container = found["class"], found["container"]
    if not isinstance(kind, str) or (make := _class_of(kind)) is None:
        raise Misfit(f"the step {name!r} is of a class that files do not have, {kind!r}")
    if container not in CONTAINERS:
        raise Misfit(f"the step {name!r} cannot give rows as {container!r}")
    if "tree" in found:
        step = make.from_tree(found["tree"])
    else:
        parameters, attributes = found["parameters"], found["attributes"]
        if not parameters.keys() <= make().get_params(deep=False).keys():
            raise Misfit(f"the parameters of the step {name!r} are not those of {kind}")
        step = make(**{each: checked_setting(value) for each, value in parameters.items()})
        if kind == RECIPE:
            if attributes:
                raise Misfit(f"the step {name!r} has attributes of no recipe")
            step.check_parameters()
        else:
            try:
                _check(step, attributes)
            except ValueError as problem:
                raise Misfit(f"the step {name!r}: {problem}") from None
            vars(step).update({each: _own(value) for each, value in attributes.items()})
    return step if container == "default" else step.set_output(transform=container)


def _own(value: object) -> object:
    return value.copy() if isinstance(value, np.ndarray) else value


def _check_widths(names: Sequence[str], steps: Sequence[Any]) -> None:
    """Raise unless each step has as many features as the next one."""
    width = None
    for name, step in zip(reversed(names), reversed(steps), strict=True):
        mine = getattr(step, WIDTH, None)
        if type(step).__name__ == RECIPE:
            width = None  # the number of its features is not that of its columns
        elif None not in (mine, width) and mine != width:
            raise Misfit(f"the step {name!r} has {mine} features, and the next step {width}")
        else:
            width = width if mine is None else mine


# ------------------------------------------------------------------------------------------- checks
def _check(step: BaseEstimator, attributes: dict[str, Any]) -> None:
    """Raise unless these are what fitting such a transformer gives it, or nothing."""
    # One feature shows what there is, and takes no memory. Parameters are checked by fit.
    like = vars(type(step)(**step.get_params(deep=False)).fit(np.zeros((1, 1))))
    if not attributes:
        return
    wanted = like.keys() - step.get_params(deep=False).keys()
    if attributes.keys() - {NAMES} != wanted:
        strange = ", ".join(sorted((attributes.keys() - {NAMES}) ^ wanted))
        raise Misfit(f"it must have what fit makes, and nothing else: {strange}")
    width = attributes[WIDTH]
    if type(width) is not int or not 1 <= width < MOST:
        raise Misfit(f"{WIDTH} is {width!r}, not a number of features")
    for name, value in attributes.items():
        fits = _is_like(like[name], value, width) if name != NAMES else _are_names(value, width)
        if not fits:
            raise Misfit(f"{name} is not of the type or the shape that fit gives it")


def _is_like(blank: object, value: Any, width: int) -> bool:
    if blank is None:
        return value is None
    if isinstance(blank, np.ndarray):
        return _is_row(value, blank.dtype.kind, width)
    # How many rows there were, or their total weight; one number each if values were missing.
    is_number = type(value) in (int, float) or isinstance(value, np.integer | np.floating)
    if not is_number and not any(_is_row(value, kind, width) for kind in "if"):
        return False
    return bool(np.all((value >= 0) & (value < MOST)))


def _is_row(value: object, kind: str, width: int) -> bool:
    return type(value) is np.ndarray and value.dtype.kind == kind and value.shape == (width,)


def _are_names(value: Any, width: int) -> bool:
    return _is_row(value, "O", width) and all(type(name) is str for name in value)
