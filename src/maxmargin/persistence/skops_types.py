"""What a learner is made of, for skops, and who saves by it: nothing else has to be trusted."""

from __future__ import annotations

from maxmargin import ALGORITHMS

_PARTS = {
    "algorithms": ["bisectionperceptron.Round", "noca.MixtureModel"],
    "core": ["rivals.Rivals", "rows.Tail", "vote.Votes"],
    "estimator": ["columns.Features", "pickling.Sparse", "platt.Maps", "state.State"],
    "kernels": [
        *("functions.GaussianKernel", "functions.LinearKernel"),
        *("functions.PolynomialKernel", "functions.PrecomputedKernel"),
        *("points.Points", "products.Products", "cuda.CudaProducts"),
    ],
    "models": [
        *("budget.BudgetModel", "budget.Store", "eviction.Projecting", "eviction.Replacing"),
        *("hyperplanes.Hyperplanes", "joint.JointModel", "kernel.JointKernelModel"),
        *("kernel.KernelModel", "kernel.PairKernelModel", "kernel.Supports"),
        *("linear.LinearModel", "linear.PairModel", "spec.ModelSpec", "vote.VoteModel"),
    ],
    "spaces": [
        *("euclid.Euclid", "joint.JointSpace", "joint.JointWitness", "joint.KBest"),
        *("joint.OneBest", "linear.LinearSpace", "mixture.Mixture", "pair.PairSpace"),
        *("plane.PlaneSpace", "pnorm.PNorm", "power.Power", "power.Room", "scalars.Scalars"),
        *("slots.Slots", "witness.Witness"),
    ],
    "streams": ["recipe.Recipe"],
}

TRUSTED_TYPES = [
    *(f"maxmargin.algorithms.{name.lower()}.{name}" for name in ALGORITHMS),
    *(f"maxmargin.{room}.{part}" for room, parts in _PARTS.items() for part in parts),
]
