"""What learners are made of: the layout of each class that a file can hold, and no others.

Read this beside the classes themselves; the words for lengths are

    classes, problems, width (features), size (weights of a problem: features, intercept, private
    coordinates), verdicts (margins and bounds), supports (rows that a kernel model keeps), room
    (slots of a problem on a budget), components (of a mixture)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from maxmargin.algorithms.bisectionperceptron import Round
from maxmargin.budgetmodel import BudgetModel
from maxmargin.core.loop import TALLY
from maxmargin.core.rows import Tail
from maxmargin.core.violations import new_violations
from maxmargin.keepers import Projecting, Replacing
from maxmargin.kernelkinds import JointKernelModel, PairKernelModel
from maxmargin.kernelmodel import KernelModel
from maxmargin.kernels import Kernel, Precomputed
from maxmargin.kerneltraining import BLOCK
from maxmargin.models import JointModel, LinearModel, PairModel
from maxmargin.persistence.layouts import (
    Always,
    Array,
    Context,
    Filled,
    Flag,
    ListOf,
    Made,
    Misfit,
    OneOf,
    Option,
    Plain,
    Real,
    Records,
    Rows,
    Spec,
    TheSame,
    Whole,
)
from maxmargin.spaces.euclid import LARGEST_SCALE, Euclid
from maxmargin.spaces.joint import JointSpace, JointWitness, KBest, OneBest
from maxmargin.spaces.linear import SCALARS, LinearSpace
from maxmargin.spaces.mixture import COUNTS, Mixture
from maxmargin.spaces.pair import NOBODY, PairSpace
from maxmargin.spaces.pnorm import PNorm
from maxmargin.spaces.power import new_room, power
from maxmargin.spaces.slots import FROM_BEFORE, Slots
from maxmargin.spaces.witness import Witness


class Part(Spec):
    """An object of one of these classes."""

    def __init__(self, *kinds: type) -> None:
        self.kinds = {kind.__name__: kind for kind in kinds}

    def dump(self, value: Any, context: Context) -> Any:
        name = type(value).__name__
        if self.kinds.get(name) is not type(value):
            raise Misfit(f"{name} is not one of {', '.join(self.kinds)}")
        tree = {}
        for field, spec in LAYOUTS[type(value)].items():
            if not hasattr(value, field):
                raise Misfit("it has not learnt from any row yet")
            with _naming(f"{name}.{field}"):
                dumped = spec.dump(getattr(value, field), context)
            context.fields[field] = getattr(value, field)
            if spec.stored:
                tree[field] = dumped
        return {"part": name, "fields": tree}

    def load(self, tree: Any, context: Context) -> Any:
        kind = self.kinds[tree["part"]]
        fields: dict[str, Any] = {}
        for field, spec in LAYOUTS[kind].items():
            with _naming(f"{kind.__name__}.{field}"):
                value = spec.load(tree["fields"][field] if spec.stored else None, context)
            fields[field] = context.fields[field] = value
        if len(tree["fields"]) != sum(spec.stored for spec in LAYOUTS[kind].values()):
            raise Misfit(f"{kind.__name__} has fields that are not known")
        part = _new(kind, fields)
        if kind in CHECKS and not CHECKS[kind](part):
            raise Misfit(f"the fields of {kind.__name__} do not fit together")
        return part


@contextlib.contextmanager
def _naming(field: str) -> Iterator[None]:
    try:
        yield
    except Misfit as problem:
        raise Misfit(f"{field}: {problem}") from None


def _new(kind: type, fields: dict[str, Any]) -> Any:
    if issubclass(kind, tuple):
        return kind(**fields)
    part = object.__new__(kind)
    vars(part).update(fields)
    return part


class KernelDtype(Spec):
    """A data type of kernel values, by its name."""

    def dump(self, value: Any, context: Context) -> str:
        return np.dtype(value).name

    def load(self, tree: Any, context: Context) -> Any:
        if tree not in ("float32", "float64"):
            raise Misfit(f"kernel values cannot be of {tree!r}")
        return np.dtype(tree)


class Randomness(Plain):
    def check(self, value: Any, context: Context) -> None:
        if not isinstance(value, np.random.Generator):
            raise Misfit("a generator of random numbers is expected")


def product(*names: str) -> Any:
    """The product of lengths, and of a block's if its name is there."""

    def value(context: Context) -> int:
        return int(
            np.prod([BLOCK if name == "block" else context[name] for name in names], dtype=object)
        )

    return value


VECTORS = Array("f8", "problems", "size")
SWITCHED_VECTORS = Array("f8", "problems", "size", switched=True)
NUMBERS = Array("f8", "problems")
PAIRS = Array("f8", "problems", 2)
SCALAR_TABLE = Records(SCALARS, "problems", "updates", "next_mark", mark="next_mark")
TALLY_TABLE = Records(TALLY, 1, "trials", "mistakes")

LINEAR_MODEL: dict[str, Spec] = {
    "p": Real(2.0),
    "tail": Part(Tail),
    "average": Flag(),
    "tally": TALLY_TABLE,
    "linear": Part(LinearSpace),
}
KERNEL_MODEL: dict[str, Spec] = {
    "tail": Part(Tail),
    "_width": Whole(1, "width"),
    "kernel": Part(Kernel, Precomputed),
    "average": Flag(),
    "smallest": Real(0.0),
    "shift": Made(lambda context: context.fields["tail"].offset ** 2),
    "ridge": Made(lambda context: context.fields["tail"].private ** 2),
    "cache_bytes": Real(0.0),
    "tally": TALLY_TABLE,
    "scalars": SCALAR_TABLE,
    "next_mark": Whole(),
    "training": Always(None),
    "_bounds": Option(Array("f8", "verdicts")),
}
SUPPORTS: dict[str, Spec] = {
    "numbers": Array("i8", "supports", low=0),
    "labels": Array("i4 i8", "supports", low=0, high="classes"),
    "diagonal": Array("f8", "supports"),
    "coefs": Array("f8", "problems", "supports", any_order=True),
    "marks": Array("f8", 2, "problems", "supports", any_order=True),
    "averages": Array("f8", "problems", "supports", switched=True, any_order=True),
    "supports": Rows("supports"),
}
NO_MEMBERS = Array("i8", 0, 2)

LAYOUTS: dict[type, dict[str, Spec]] = {
    LinearModel: LINEAR_MODEL,
    PairModel: {**LINEAR_MODEL, "pair": Part(PairSpace)},
    JointModel: {**LINEAR_MODEL, "joint": Part(JointSpace)},
    KernelModel: {**KERNEL_MODEL, **SUPPORTS, "members": NO_MEMBERS},
    PairKernelModel: {
        **KERNEL_MODEL,
        **SUPPORTS,
        "members": Array("i8", "problems", 2, low=NOBODY, high="supports"),
        "bias": NUMBERS,
    },
    JointKernelModel: {
        **KERNEL_MODEL,
        **SUPPORTS,
        "members": NO_MEMBERS,
        "most": Option(Whole(1)),
    },
    BudgetModel: {
        **KERNEL_MODEL,
        "members": NO_MEMBERS,
        "room": Whole(1, "room"),
        "budget": Option(Whole(1, "room")),
        "slots": Part(Slots),
        "slot_numbers": Array("i8", "problems", "room", low=0),
        "slot_labels": Array("i4", "problems", "room", low=0, high="classes"),
        "stores": ListOf(Rows("room"), "problems"),
        "keeper": Part(Replacing, Projecting),
        "largest_square": Real(0.0),
        "in_fit": Always(False),
        "_cross": Filled(0.0, "f4 f8", product("problems", "block", "room")),
        "_supports": Made(lambda context: None),
    },
    Tail: {"offset": Real(0.0), "private": Real(0.0)},
    LinearSpace: {
        "width": Whole(1, "width"),
        "geometry": Part(Euclid, PNorm),
        "weights": VECTORS,
        "scalars": SCALAR_TABLE,
        "witness": Part(Witness, JointWitness),
    },
    Witness: {
        "share": SWITCHED_VECTORS,
        "mark": SWITCHED_VECTORS,
        "mark_share": SWITCHED_VECTORS,
        "average": SWITCHED_VECTORS,
        "split": Flag(),
    },
    JointWitness: {"average": SWITCHED_VECTORS, "mark": VECTORS},
    Euclid: {
        "p": Made(lambda context: 2.0),
        "width": Made(lambda context: context["width"]),
    },
    PNorm: {
        "p": Real(2.0),
        "largest_scale": Made(lambda context: LARGEST_SCALE ** (2.0 / context.fields["p"])),
        "powers": VECTORS,
        "sums": NUMBERS,
        "lows": NUMBERS,
        "slops": NUMBERS,
        "gains": NUMBERS,
        "evaluations": Array("i8", "problems", low=0),
        "dual_power": Made(lambda context: power(context.fields["p"] - 1.0)),
        "curvature": Made(lambda context: power(context.fields["p"] - 2.0)),
        "room": Made(lambda context: new_room(context["size"])),
        "z": Filled(0.0, "f8", "size"),
        "t": Filled(0.0, "f8", "size"),
        "stamps": Filled(0, "i8", "size"),
        "serial": Filled(0, "i8", 2),
    },
    PairSpace: {
        "linear": TheSame("linear"),
        "bias": NUMBERS,
        "members": Array("f8", lambda context: 2 * context["problems"] + 1, "size"),
        "numbers": Array("i8", "problems", 2, low=NOBODY),
        "squares": PAIRS,
        "private": PAIRS,
    },
    JointSpace: {
        "linear": TheSame("linear"),
        "violations": Made(lambda context: new_violations(context["problems"])),
        "policy": Part(OneBest, KBest),
    },
    OneBest: {"most": Whole(1)},
    KBest: {"most": Whole(1)},
    Kernel: {
        "name": OneOf(("linear", "poly", "rbf")),
        "gamma": Real(0.0),
        "degree": Real(1.0),
        "coef0": Real(),
        "dtype": KernelDtype(),
        "center": Option(Array("f8", "width")),
        "adapts": Flag(),
    },
    Precomputed: {"_matrix": Always(None)},
    Slots: {
        "coefs": Array("f8", "problems", "room"),
        "squares": Array("f8", "problems", "room"),
        "taken": Array("i8", "problems", low=0, high=lambda context: context["room"] + 1),
        "sources": Filled(FROM_BEFORE, "i4", "problems", "room"),
    },
    Replacing: {
        "oldest": Flag(),
        "random": Randomness(),
        "lengths": Flag(),
        "inner": Array("f4 f8", product("problems", "room"), "room", switched=True),
        "fresh": Filled(0, "i8", "problems", "room"),
        "refilled": Filled(0, "i8", "problems"),
        "stored": Array("i8", "problems", low=0),
        "gained": NUMBERS,
        "lost": NUMBERS,
        "latest": NUMBERS,
    },
    Projecting: {
        "threshold": Real(0.0),
        "careful": Flag(),
        "rounding": Real(0.0),
        "inverse": Array("f8", product("problems", "room"), "room"),
        "slack": NUMBERS,
        "joins": Array("b1", "problems"),
        "distance": NUMBERS,
        "limit": NUMBERS,
        "turned": Filled(0.0, "f8", "problems", "room"),
        "coords": Filled(0.0, "f8", product("problems", "block", "room")),
        "shadows": Filled(0.0, "f8", product("problems", "block", "block")),
    },
    Mixture: {
        "owners": Array("i4", "components", low=0, high="classes"),
        "means": Array("f8", "components", "width"),
        "variances": Array("f8", "components", "width"),
        "sizes": Array("i8", "components", low=0),
        "levels": Array("f8", "components"),
        "state": Records(COUNTS, 1, "components", "rows", "errors"),
        "logs": Filled(0.0, "f8", "components"),
        "row": Filled(0.0, "f8", "width"),
        "distances": Filled(0.0, "f8", "components"),
        "outputs": Filled(0.0, "f8", "classes"),
    },
    Round: {"beta": Real(), "found": Plain(), "checks": Whole(), "outcome": Plain()},
}


def _kernel_model_fits(model: Any) -> bool:
    precomputed = isinstance(model.kernel, Precomputed)
    squares = not precomputed and model.kernel.name == "rbf"
    rows = model.stores if isinstance(model, BudgetModel) else [model.supports]
    return all(
        (each.X.ndim == 1) == precomputed and (each.squares is not None) == squares for each in rows
    )


def _supports_fit(model: Any) -> bool:
    kept = model.averages.shape[0] > 0
    return kept == model.average and _kernel_model_fits(model)


def _linear_model_fits(model: Any) -> bool:
    kept = model.linear.witness.average.shape[0] > 0
    return kept == model.average and model.p == model.linear.geometry.p


def _pair_fits(space: Any) -> bool:
    private = space.linear.weights.shape[1] - space.linear.width - 1
    return private == 0 or space.numbers.max() < private


# What shapes and ranges alone do not say.
CHECKS: dict[type, Any] = {
    LinearModel: _linear_model_fits,
    PairModel: _linear_model_fits,
    JointModel: _linear_model_fits,
    KernelModel: _supports_fit,
    PairKernelModel: _supports_fit,
    JointKernelModel: _supports_fit,
    BudgetModel: _kernel_model_fits,
    LinearSpace: lambda space: space.weights.shape[1] > space.width,
    Witness: lambda seen: (
        seen.share.shape == seen.mark_share.shape and seen.share.shape[0] <= seen.mark.shape[0]
    ),
    PairSpace: _pair_fits,
    Replacing: lambda keeper: keeper.lengths == (keeper.inner.shape[0] > 0),
    Mixture: lambda mixture: mixture.state.components[0] <= mixture.owners.size,
}
MODELS = (
    LinearModel,
    PairModel,
    JointModel,
    KernelModel,
    PairKernelModel,
    JointKernelModel,
    BudgetModel,
)
