from maxmargin import client as client
from maxmargin import datasets as datasets
from maxmargin import evaluate as evaluate
from maxmargin import streams as streams
from maxmargin.algorithms.adagrad import AdaGrad as AdaGrad
from maxmargin.algorithms.alma import ALMA as ALMA
from maxmargin.algorithms.amira import AMIRA as AMIRA
from maxmargin.algorithms.arow import AROW as AROW
from maxmargin.algorithms.automargin import AutoMargin as AutoMargin
from maxmargin.algorithms.bisectionperceptron import BisectionPerceptron as BisectionPerceptron
from maxmargin.algorithms.conformalclassifier import ConformalClassifier as ConformalClassifier
from maxmargin.algorithms.directionalperceptron import (
    DirectionalPerceptron as DirectionalPerceptron,
)
from maxmargin.algorithms.fixedshare import FixedShare as FixedShare
from maxmargin.algorithms.forgetron import Forgetron as Forgetron
from maxmargin.algorithms.ftrl import FTRL as FTRL
from maxmargin.algorithms.labelqueries import LabelQueries as LabelQueries
from maxmargin.algorithms.maxmargin import MaxMargin as MaxMargin
from maxmargin.algorithms.micra import MICRA as MICRA
from maxmargin.algorithms.noca import NOCA as NOCA
from maxmargin.algorithms.norma import NORMA as NORMA
from maxmargin.algorithms.passiveaggressive import PassiveAggressive as PassiveAggressive
from maxmargin.algorithms.pegasos import Pegasos as Pegasos
from maxmargin.algorithms.perceptron import Perceptron as Perceptron
from maxmargin.algorithms.projectron import Projectron as Projectron
from maxmargin.algorithms.pumma import PUMMA as PUMMA
from maxmargin.algorithms.randombudgetperceptron import (
    RandomBudgetPerceptron as RandomBudgetPerceptron,
)
from maxmargin.algorithms.relaxation import Relaxation as Relaxation
from maxmargin.algorithms.romma import ROMMA as ROMMA
from maxmargin.algorithms.scw import SCW as SCW
from maxmargin.algorithms.trackingalma import TrackingALMA as TrackingALMA
from maxmargin.certificates import Certificate as Certificate
from maxmargin.evaluate import certify as certify
from maxmargin.export import to_onnx as to_onnx
from maxmargin.migration import from_sklearn as from_sklearn
from maxmargin.persistence import load as load
from maxmargin.persistence import save as save

__version__: str
__all__: list[str]
ALGORITHMS: tuple[str, ...]
