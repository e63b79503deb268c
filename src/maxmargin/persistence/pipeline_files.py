"""Pipelines in files: transformers of scikit-learn or a recipe, and a learner as the last step.

A transformer is written as its class, its parameters and its fitted attributes, which are plain
arrays. A file can name only `Recipe` and the classes in `TRANSFORMERS`, and what is read must have
the attributes, types and shapes of such a transformer that was fitted.
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

# All of them keep the number of features.
TRANSFORMERS: dict[str, Any] = {
    each.__name__: each
    for each in (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, Normalizer)
}
RECIPE, WIDTH, NAMES = "Recipe", "n_features_in_", "feature_names_in_"
# The attribute of set_output, and its possible values.
CONTAINER = "_sklearn_output_config"
CONTAINERS = ("default", "pandas", "polars")
INSTEAD = (
    "Use a maxmargin.streams.Recipe as the first step, or save the pipeline by skops.io.dump (and "
    "trust maxmargin.persistence.TRUSTED_TYPES in skops.io.load)."
)
# An attribute of scikit-learn that fit does not set.
ROUTING = "_metadata_request"


# ------------------------------------------------------------------------------------------ writing
def content_of(pipeline: Pipeline) -> dict[str, Any]:
    """The content of a file for a pipeline; a TypeError names what cannot be saved."""
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
    parameters = step.get_params(deep=False)
    fitted = {each: value for each, value in vars(step).items() if each not in parameters}
    container = fitted.pop(CONTAINER, {}).get("transform", "default")
    fitted.pop(ROUTING, None)
    found = {"class": kind, "container": container}
    try:
        if kind == RECIPE:
            if strange := fitted.keys() - {"plan_", "running_"}:
                raise Misfit(f"fit does not make {', '.join(sorted(strange))}")
            return found | {"tree": step.tree()}
        for each in parameters.values():
            checked_setting(each)
        _check(step, fitted)
    except ValueError as problem:
        raise TypeError(
            f"The step {name!r} of the pipeline cannot be saved: {problem}. {INSTEAD}"
        ) from None
    return found | {"parameters": parameters, "attributes": fitted}


def _class_of(name: str) -> Any:
    return TRANSFORMERS.get(name) or _registry.transformer(name)


# ------------------------------------------------------------------------------------------ reading
def pipeline_from(content: dict[str, Any]) -> Pipeline:
    """The pipeline of a file; raises an error unless its parts fit together."""
    about, steps, last = content["pipeline"], content["steps"], content["last"]
    names, version = about["names"], about["scikit-learn"]
    if not isinstance(last, BaseEstimator) or type(about["verbose"]) is not bool:
        raise Misfit("there is no learner at the end of the pipeline")
    if not isinstance(steps, list) or not all(isinstance(each, dict) for each in steps):
        raise Misfit("the steps of the pipeline are missing")
    are_names = isinstance(names, list) and all(type(name) is str for name in names)
    if not are_names or not len(names) == len(set(names)) == len(steps) + 1:
        raise Misfit("each step of the pipeline must have a name of its own")
    if any(not name or "__" in name for name in names):
        raise Misfit("names of steps must not be empty or contain '__'")
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
    if kind == RECIPE:
        step = make.from_tree(found["tree"])
    else:
        parameters, attributes = found["parameters"], found["attributes"]
        if not parameters.keys() <= make().get_params(deep=False).keys():
            raise Misfit(f"the parameters of the step {name!r} are not those of {kind}")
        step = make(**{each: checked_setting(value) for each, value in parameters.items()})
        try:
            _check(step, attributes)
        except ValueError as problem:
            raise Misfit(f"the step {name!r}: {problem}") from None
        for each, value in attributes.items():
            setattr(step, each, value.copy() if isinstance(value, np.ndarray) else value)
    return step if container == "default" else step.set_output(transform=container)


def _check_widths(names: Sequence[str], steps: Sequence[Any]) -> None:
    """Raise unless consecutive steps have the same number of features."""
    width = None
    for name, step in zip(reversed(names), reversed(steps), strict=True):
        mine = getattr(step, WIDTH, None)
        if type(step).__name__ == RECIPE:
            width = None  # it has other features than columns
        elif None not in (mine, width) and mine != width:
            raise Misfit(f"the step {name!r} has {mine} features, and the next step {width}")
        else:
            width = width if mine is None else mine


# ------------------------------------------------------------------------------------------- checks
def _check(step: BaseEstimator, attributes: dict[str, Any]) -> None:
    """Raise unless these are the attributes of such a transformer, fitted or not."""
    # Fitting one feature shows them, and checks the parameters.
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
        if name == NAMES:
            fits = _is_row(value, "O", width) and all(type(each) is str for each in value)
        else:
            fits = _is_like(like[name], value, width)
        if not fits:
            raise Misfit(f"{name} is not of the type or the shape that fit gives it")


def _is_like(blank: object, value: Any, width: int) -> bool:
    if blank is None:
        return value is None
    if isinstance(blank, np.ndarray):
        return _is_row(value, blank.dtype.kind, width)
    # The number of rows, or their total weight; one for each feature if values were missing.
    is_number = type(value) in (int, float) or isinstance(value, np.integer | np.floating)
    if not is_number and not any(_is_row(value, kind, width) for kind in "if"):
        return False
    return bool(np.all((value >= 0) & (value < MOST)))


def _is_row(value: object, kind: str, width: int) -> bool:
    return type(value) is np.ndarray and value.dtype.kind == kind and value.shape == (width,)
