"""Models of every kind, built from specifications alone, and what can be found in them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from problems import overlapping, three_classes
from scipy import sparse

from maxmargin.algorithms.amira import AMIRARule
from maxmargin.algorithms.perceptron import PerceptronRule
from maxmargin.algorithms.projectron import ProjectronRule
from maxmargin.algorithms.pumma import PUMMARule
from maxmargin.kernels.functions import Kernel
from maxmargin.models.base import OnlineModel, build
from maxmargin.models.spec import BudgetSpec, ExpansionSpec, KernelSpec, LinearSpec, WeightsSpec
from maxmargin.training.inputs import as_targets
from maxmargin.training.passes import FitPlan, Outcome, run_passes
from maxmargin.training.protocol import Options

RBF = {"kernel": KernelSpec("rbf", gamma=0.5)}
ON_FULL = ("oldest", "random", "project")

SPECS = {
    "linear": LinearSpec(),
    "linear, no intercept": LinearSpec(fit_intercept=False),
    "linear, soft margin": LinearSpec(soft_margin=0.5),
    "linear, averaged": LinearSpec(average=True, soft_margin=0.5),
    "linear, p-norm": LinearSpec(p=3.0),
    "linear, pairs": LinearSpec(intercept="pair"),
    "linear, pairs, soft margin": LinearSpec(intercept="pair", soft_margin=0.5),
    "linear, pairs, p-norm": LinearSpec(intercept="pair", p=3.0),
    "linear, joint": LinearSpec(multiclass="k-best"),
    "linear, joint, soft margin": LinearSpec(multiclass="1-best", soft_margin=0.5),
    "kernel": ExpansionSpec(**RBF),
    "kernel, soft margin": ExpansionSpec(**RBF, soft_margin=0.5),
    "kernel, averaged": ExpansionSpec(
        kernel=KernelSpec("poly", gamma=0.5, coef0=1.0), average=True
    ),
    "kernel, pairs": ExpansionSpec(**RBF, intercept="pair"),
    "kernel, joint": ExpansionSpec(**RBF, multiclass="k-best"),
    **{f"budget, {way}": BudgetSpec(**RBF, budget=7, on_full=way) for way in ON_FULL},
    **{f"linear budget, {way}": BudgetSpec(budget=5, on_full=way) for way in ON_FULL},
}


class Data(NamedTuple):
    """Rows, their class codes, and how many classes there are."""

    X: Any
    codes: np.ndarray
    classes: int

    def problems(self) -> int:
        return 1 if self.classes == 2 else self.classes

    def targets(self) -> Any:
        return as_targets(self.codes.copy(), self.classes)

    def part(self, which: slice) -> "Data":
        return Data(self.X[which], self.codes[which], self.classes)


def data(classes: int = 2, n: int = 60, d: int = 4, seed: int = 0) -> Data:
    if classes == 2:
        X, y = overlapping(n=n, d=d, distance=2.0, seed=seed)
        return Data(X, (y > 0).astype(np.int32), 2)
    X, y = three_classes(n=n, d=d, spread=1.0, seed=seed)
    return Data(X, y.astype(np.int32), 3)


def rule_for(spec: WeightsSpec) -> Any:
    """A rule that such a model can follow."""
    if spec.p != 2.0 and spec.intercept == "pair":
        return PUMMARule(0.2, anew=True)
    # The rules with which other tests compile such a space.
    on_budget = isinstance(spec, BudgetSpec)
    if on_budget and spec.on_full == "project":
        return ProjectronRule(0.5)
    return PerceptronRule(0.5, 0.3) if spec.p != 2.0 or on_budget else AMIRARule(0.3)


def plan_for(spec: WeightsSpec, given: Data, **more: Any) -> FitPlan:
    options = Options(
        "a test", max_iter=4, random_state=0, settles=True, soft_margin=spec.soft_margin
    )
    values = int(np.prod(given.X.shape))
    return FitPlan(replace(options, **more), values, ceiling=np.inf, shown=slice(None))


def fitted(
    spec: WeightsSpec, given: Data, products: Any = None, **more: Any
) -> tuple[OnlineModel, Outcome]:
    """A model that has seen all rows in some passes, and what came of that."""
    X = given.X.toarray() if sparse.issparse(given.X) else given.X
    radius = float(np.linalg.norm(X, axis=1).max())
    model, rows, _ = build(
        spec, given.problems(), given.X, radius=radius, random_state=0, products=products
    )
    model.begin_fit(rows)
    plan = plan_for(spec, given, **more)
    return model, run_passes(model, rows, given.targets(), rule_for(spec), plan)


def begun(spec: WeightsSpec, given: Data, products: Any = None) -> OnlineModel:
    """A model for a stream, at w = 0."""
    return build(spec, given.problems(), given.X, random_state=0, products=products).model


def learn_all(model: OnlineModel, given: Data) -> None:
    """Learn from each row once."""
    order = np.arange(given.codes.size, dtype=np.int32)
    model.learn_from(model.rows(given.X), given.targets(), order, rule_for(model.spec))


def arrays_of(value: Any, path: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """All arrays behind a model, by where they are.

    Without kernels, which never change, without what is made anew when it is asked for, and without
    room to work in.
    """
    if isinstance(value, np.ndarray):
        yield path, value
    elif sparse.issparse(value):
        for name in ("data", "indices", "indptr"):
            yield f"{path}.{name}", getattr(value, name)
    elif isinstance(value, tuple | list):
        names = getattr(value, "_fields", range(len(value)))
        for name, each in zip(names, value, strict=True):
            yield from arrays_of(each, f"{path}.{name}")
    elif isinstance(value, np.random.Generator):
        state = value.bit_generator.state["state"]["state"]
        yield f"{path}.state", np.frombuffer(state.to_bytes(16, "big"), np.uint8)
    elif type(value).__module__.startswith("maxmargin") and not isinstance(value, Kernel):
        for name, each in vars(value).items():
            if name not in ("_bounds", "_together", "cross", "coords", "shadows"):
                yield from arrays_of(each, f"{path}.{name}")


def content_of(model: OnlineModel) -> dict[str, bytes]:
    """What is in all arrays of a model."""
    return {path: array.tobytes() for path, array in arrays_of(model)}


def changed(before: dict[str, bytes], model: OnlineModel) -> list[str]:
    """The arrays of a model that are not as they were."""
    now = content_of(model)
    return [path for path in sorted({*before, *now}) if before.get(path) != now.get(path)]
