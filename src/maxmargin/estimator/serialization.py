"""Conversion of states to dictionaries for files, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from scipy import sparse

from maxmargin.core import array_fields
from maxmargin.kernels.products import Products
from maxmargin.models.base import Model, OnlineModel, build
from maxmargin.models.budget_model import BudgetModel
from maxmargin.models.budget_policies import Projecting
from maxmargin.models.expert_model import shapes_of_weights
from maxmargin.models.kernel_model import KernelModel, products_on
from maxmargin.models.spec import (
    UNSET,
    BudgetSpec,
    ExpansionSpec,
    LinearSpec,
    MixtureSpec,
    ModelSpec,
    VoteSpec,
    WeightsSpec,
)
from maxmargin.models.vote_model import VoteModel
from maxmargin.persistence import model_tree
from maxmargin.persistence.model_tree import MOST, Misfit
from maxmargin.training import label_queries, prediction_sets
from maxmargin.training.inputs import problems_for
from maxmargin.training.platt import Sigmoids
from maxmargin.training.protocol import trainer_of
from maxmargin.training.recipes import restored, storable
from maxmargin.training.state import Features, State, Tree, grown

if TYPE_CHECKING:
    from maxmargin.estimator.learner import BaseLearner

Value = TypeVar("Value")


def learned(state: State, parameters: Tree) -> Tree:
    """A state as a dictionary for files, without spare columns."""
    state = grown(state, state.features.count, state.classes)
    features, model = state.features, state.model
    found = {
        "classes": state.classes,
        "features": features.count,
        "names": features.names,
        "columns": features.columns and features.named_columns(),
        "schema": storable(state.schema),
        "n_iter": state.n_iter,
        "converged": bool(state.converged),
        "unseen": bool(state.unseen),
        "ceiling": float(state.ceiling),
        "margins": state.known_margins(),
        "totals": state.totals,
        "multilabel": state.multilabel or None,
        "calibration": state.calibration and state.calibration._asdict(),
        **{f"model.{path}": leaf for path, leaf in model_tree.leaves_of(model).items()},
    }
    if isinstance(model, OnlineModel):
        found["structure"] = _structure(model.spec, parameters)
        found["width"], found["private"] = model.width(), model.private_coordinates()
    return {name: value for name, value in found.items() if value is not None}


def relearned(found: Tree, make_model: Callable[[Tree, np.ndarray], Model]) -> State:
    """The state in a dictionary; raises if it is inconsistent."""
    found["model"] = model_tree.taken(found, "model")
    classes = _checked_classes(found.pop("classes"))
    features = _checked_features(found)
    model = make_model(found, classes)
    if model.width() < features.count:
        raise Misfit(f"there are weights for {model.width()} features, not for {features.count}")
    state = State(
        model,
        classes,
        features,
        margins=_checked_margins(found.pop("margins", np.empty(0)), model),
        measured=model.trials(),
        unseen=_of_type(found.pop("unseen", False), bool),
        multilabel=_of_type(found.pop("multilabel", False), bool),
        ceiling=_not_negative(found.pop("ceiling", np.inf)),
        n_iter=_count(found.pop("n_iter")),
        converged=_of_type(found.pop("converged", False), bool),
        schema=restored(found.pop("schema", None)),
        totals=_checked_totals(found.pop("totals", None), classes),
    )
    if (calibration := found.pop("calibration", None)) is not None:
        sigmoids = array_fields.blank(Sigmoids, {"problems": model.problems()})
        sigmoids = model_tree.record_from(sigmoids, calibration, "calibration")
        state = state._replace(calibration=sigmoids)
    if found:
        raise Misfit(f"there are attributes that no learner has: {', '.join(sorted(found))}")
    return state


def model_by(learner: BaseLearner, found: Tree, classes: np.ndarray) -> OnlineModel:
    """The model of a file, for the parameters that the learner had when it was saved."""
    structure, parameters = found.pop("structure"), learner.get_params(deep=False)
    if not structure.keys() <= parameters.keys():
        raise Misfit("the model is not one for the parameters")
    if any(value != parameters[name] for name, value in structure.items()):
        learner = type(learner)(**parameters | structure)
        learner.check_parameters()
    spec = trainer_of(learner).spec
    if _structure(spec, parameters) != structure:
        raise Misfit("the model is not one for the parameters")
    return model_from(found, classes, spec)


def _structure(spec: ModelSpec, parameters: Tree) -> Tree:
    """The parameters of a learner that its model was built with."""
    structure = spec.structure()
    if isinstance(spec, WeightsSpec):
        structure = UNSET | structure
    return {name: structure[name] for name in sorted(structure.keys() & parameters.keys())}


class Extent(NamedTuple):
    """The lengths that a file states for a model."""

    classes: int
    problems: int
    unseen: bool
    width: int
    private: int


def model_from(found: Tree, classes: np.ndarray, spec: ModelSpec) -> OnlineModel:
    """The model of a file, checked against a new one for the same specification."""
    leaves = found.pop("model")
    width, private = _count(found.pop("width"), 1), _count(found.pop("private"))
    multilabel = _of_type(found.get("multilabel", False), bool)
    unseen = _of_type(found.get("unseen", False), bool)
    problems = problems_for(classes, unseen, multilabel)
    extent = Extent(classes.size, problems, unseen, width, private)
    if isinstance(spec, VoteSpec):
        model = _vote_from(leaves, spec, extent)
    else:
        model = _one_from(leaves, spec, extent)
    if leaves:
        raise Misfit(f"the model is not one for the parameters: {', '.join(sorted(leaves))}")
    return model


def _one_from(leaves: Tree, spec: ModelSpec, extent: Extent) -> OnlineModel:
    problems, width, private = extent.problems, extent.width, extent.private
    # Before memory is allocated for these lengths.
    if isinstance(spec, MixtureSpec):
        for path, shape in shapes_of_weights(spec, problems, width).items():
            _check_shape(leaves, path, shape)
    elif isinstance(spec, LinearSpec):
        _check_shape(leaves, "linear.weights", (problems, width + 1 + private))
    elif private:
        raise Misfit("there are private coordinates without linear.weights")
    blank = build(
        _resolved(spec, leaves.get("p")),
        problems,
        sparse.csr_matrix((max(private, 1), width)),
        radius=1.0 if private else None,
        unseen=extent.unseen,
        random_state=0,
        products=Products(),
    ).model
    blank.spec = spec
    kernel = None
    if isinstance(blank, KernelModel | BudgetModel):
        blank.products = products_on(blank.spec.kernel.device)
        kernel = model_tree.kernel_from(blank.kernel, leaves, width)
        for name in ("degree", "coef0"):
            if getattr(kernel, name) != getattr(blank.kernel, name):
                raise Misfit(f"the model is not one for the parameters: kernel.{name}")
        blank.kernel = kernel
        _allocate_supports(blank, leaves)
    if blank.private_coordinates() != private:
        raise Misfit("there are private coordinates without a soft margin")
    return _checked(model_tree.filled(blank, leaves, done=kernel, classes=extent.classes))


def _resolved(spec: ModelSpec, p: object) -> ModelSpec:
    """The specification with what the file fixes, which is not computed from rows."""
    # The value of "log" was fixed by the number of columns at the start.
    if isinstance(spec, LinearSpec) and spec.p == "log" and isinstance(p, float):
        return replace(spec, p=p) if 2.0 <= p < np.inf else spec
    # The width of a kernel would take memory per column.
    if isinstance(spec, ExpansionSpec | BudgetSpec):
        return replace(spec, kernel=replace(spec.kernel, gamma=1.0))
    return spec


def _vote_from(leaves: Tree, spec: VoteSpec, extent: Extent) -> OnlineModel:
    members = []
    for k, one in enumerate(spec.experts):
        own = model_tree.taken(leaves, f"members.{k}")
        members.append(_one_from(own, one, extent._replace(private=0)))
        leaves |= own  # which belong to nothing
    blank = VoteModel(spec, extent.problems, extent.unseen, [])
    model: VoteModel = model_tree.filled(blank, leaves, classes=extent.classes)
    model.members = members
    return _checked(model)


def _check_shape(leaves: Tree, path: str, wanted: tuple[int, ...]) -> None:
    found = getattr(leaves.get(path), "shape", None)
    if found != wanted:
        raise Misfit(f"{path} has the shape {found}, not {wanted}")


def _checked(model: OnlineModel) -> OnlineModel:
    if wrong := model.invalid_reason():
        raise Misfit(wrong)
    return model


def _allocate_supports(blank: KernelModel | BudgetModel, leaves: Tree) -> None:
    """Set the support vectors of the model, and allocate their arrays."""
    width, problems, kernel = blank.width(), blank.problems(), blank.kernel
    if isinstance(blank, KernelModel):
        supports = model_tree.points_from(leaves, "supports.points", width, kernel)
        _check_shape(leaves, "supports.coefs", (problems, supports.size()))
        blank.allocate(supports)
        return
    stores = blank.store.problems()
    paths = [f"store.points.{c}" for c in range(stores)]
    points = [model_tree.points_from(leaves, path, width, kernel) for path in paths]
    capacity = points[0].size()
    _check_shape(leaves, "store.slots.coefs", (problems, capacity))
    if isinstance(blank.eviction, Projecting):
        _check_shape(leaves, "eviction.inverse", (stores * capacity, capacity))
    elif blank.eviction.lengths:
        _check_shape(leaves, "eviction.inner", (stores * capacity, capacity))
    blank.allocate(points, model_tree.dtype_named(leaves.get("store.dtype"), "store.dtype"))


# ------------------------------------------------------------------------------------------- checks
def _checked_classes(classes: object) -> np.ndarray:
    if not isinstance(classes, np.ndarray) or classes.ndim != 1 or classes.size == 0:
        raise Misfit("the classes are not an array")
    if not np.all(classes[1:] > classes[:-1]):
        raise Misfit("the classes are not in order")
    return classes


def _checked_features(found: Tree) -> Features:
    count = _count(found.pop("features"), 1)
    names, columns = found.pop("names", None), found.pop("columns", None)
    if names is not None:
        listed = isinstance(names, np.ndarray) and names.dtype == object
        if not listed or names.shape != (count,) or not all(type(name) is str for name in names):
            raise Misfit("there is not one name for each feature")
    if columns is not None:
        ordered = isinstance(columns, dict) and list(columns.values()) == list(range(count))
        if not ordered:
            raise Misfit("the columns of names are not in order")
    width = found.get("width", count)
    if width != count and not (columns is not None and count < width):
        raise Misfit(f"there are weights for {width} features, not for {count}")
    return Features(count, names, columns)


def _checked_margins(margins: object, model: Model) -> np.ndarray:
    wanted = model.n_margins()
    if not isinstance(margins, np.ndarray) or margins.shape != (wanted,) or margins.dtype != float:
        raise Misfit("there is not one margin for each problem")
    return margins


def _checked_totals(totals: Any, classes: np.ndarray) -> np.ndarray | None:
    if totals is None:
        return None
    fits = isinstance(totals, np.ndarray) and totals.shape == (classes.size + 1,)
    if not fits or totals.dtype != float or not (np.isfinite(totals) & (totals >= 0.0)).all():
        raise Misfit("there is not one weight for each class")
    return np.ascontiguousarray(totals)


def checked_sets(found: Any) -> prediction_sets.SetTracker | None:
    if found is None:
        return None
    tracker = model_tree.record_from(prediction_sets.new_tracker(0.5), found, "sets")
    if why := prediction_sets.what_is_wrong(tracker):
        raise Misfit(f"sets: {why}")
    return tracker


def checked_queries(found: Any) -> label_queries.QuerySampler | None:
    if found is None:
        return None
    blank = label_queries.new_sampler(0.5, None, 0)
    sampler = model_tree.record_from(blank, found, label_queries.QUERIES)
    if why := label_queries.what_is_wrong(sampler):
        raise Misfit(f"{label_queries.QUERIES}: {why}")
    return sampler


def checked_held_out(found: Any) -> np.ndarray | None:
    if found is None:
        return None
    fits = isinstance(found, np.ndarray) and found.dtype == float and found.ndim == 1
    if not fits or np.isnan(found).any() or (found[1:] < found[:-1]).any():
        raise Misfit("held_out: these are not sorted scores of held-out rows")
    return np.ascontiguousarray(found)


def _count(value: object, least: int = 0) -> int:
    if type(value) is not int or not least <= value < MOST:
        raise Misfit(f"{value!r} is not a whole number from {least} on")
    return value


def _of_type(value: object, kind: type[Value]) -> Value:
    if type(value) is not kind:
        raise Misfit(f"{value!r} is not a {kind.__name__}")
    return value


def _not_negative(value: object) -> float:
    if not (isinstance(value, float) and value >= 0.0):
        raise Misfit(f"{value!r} is not a bound on margins")
    return value
