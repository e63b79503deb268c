"""One learner for each kind of model: what the shell does depends on the kind, not on the rule."""

from dataclasses import dataclass
from typing import Any

from maxmargin import (
    ALMA,
    AMIRA,
    AROW,
    FTRL,
    MICRA,
    NOCA,
    NORMA,
    PUMMA,
    ROMMA,
    SCW,
    AdaGrad,
    AutoMargin,
    BisectionPerceptron,
    DirectionalPerceptron,
    FixedShare,
    Forgetron,
    PassiveAggressive,
    Pegasos,
    Perceptron,
    Projectron,
    RandomBudgetPerceptron,
    Relaxation,
    TrackingALMA,
)


def kind(cls: type) -> type:
    """A learner with other defaults."""
    return dataclass(eq=False, repr=False, kw_only=True)(cls)


@kind
class PNormALMA(ALMA):
    p: Any = 4.0


@kind
class KernelPassiveAggressive(PassiveAggressive):
    kernel: Any = "rbf"
    gamma: Any = 0.5


@kind
class KernelPUMMA(PUMMA):
    kernel: Any = "rbf"
    gamma: Any = 0.5


@kind
class KernelAMIRA(AMIRA):
    kernel: Any = "rbf"
    gamma: Any = 0.5


@kind
class QuickBisection(BisectionPerceptron):
    """It gives up early where there is nothing to find."""

    max_checks: Any = 2000


@kind
class Vote(FixedShare):
    """Experts of two kinds."""

    learners: Any = (NORMA(decay=0.0), NORMA(decay=0.1), Perceptron())


KINDS = {
    "linear": ROMMA,
    "linear p-norm": PNormALMA,
    "linear in pairs": PUMMA,
    "linear diagonal": AROW,
    "linear joint": AMIRA,
    "kernel": KernelPassiveAggressive,
    "kernel in pairs": KernelPUMMA,
    "kernel joint": KernelAMIRA,
    "budget, the oldest goes": Forgetron,
    "budget, any goes": RandomBudgetPerceptron,
    "budget, projecting": Projectron,
    "clusters": NOCA,
    "bisection": QuickBisection,
    "vote": Vote,
    "mixture": AutoMargin,
}

# Learners whose kind is represented above by another learner, or by a subclass of their own.
SAME_KIND = {
    *(Perceptron, Relaxation, PassiveAggressive, ALMA, MICRA, DirectionalPerceptron, Pegasos),
    *(NORMA, TrackingALMA, BisectionPerceptron, SCW, AdaGrad, FTRL, FixedShare),
}
