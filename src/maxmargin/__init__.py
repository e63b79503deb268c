"""Online large-margin classification, with a certificate for every fit."""

from maxmargin.algorithms.alma import ALMA
from maxmargin.algorithms.amira import AMIRA
from maxmargin.algorithms.bisectionperceptron import BisectionPerceptron
from maxmargin.algorithms.directionalperceptron import DirectionalPerceptron
from maxmargin.algorithms.forgetron import Forgetron
from maxmargin.algorithms.micra import MICRA
from maxmargin.algorithms.noca import NOCA
from maxmargin.algorithms.norma import NORMA
from maxmargin.algorithms.passiveaggressive import PassiveAggressive
from maxmargin.algorithms.pegasos import Pegasos
from maxmargin.algorithms.perceptron import Perceptron
from maxmargin.algorithms.projectron import Projectron
from maxmargin.algorithms.pumma import PUMMA
from maxmargin.algorithms.randombudgetperceptron import RandomBudgetPerceptron
from maxmargin.algorithms.relaxation import Relaxation
from maxmargin.algorithms.romma import ROMMA
from maxmargin.algorithms.trackingalma import TrackingALMA
from maxmargin.certificates import Certificate
from maxmargin.certify import certify

__version__ = "0.1.0"

__all__ = [
    "ALMA",
    "AMIRA",
    "MICRA",
    "NOCA",
    "NORMA",
    "PUMMA",
    "ROMMA",
    "BisectionPerceptron",
    "Certificate",
    "DirectionalPerceptron",
    "Forgetron",
    "PassiveAggressive",
    "Pegasos",
    "Perceptron",
    "Projectron",
    "RandomBudgetPerceptron",
    "Relaxation",
    "TrackingALMA",
    "certify",
]
