"""Evaluation of classifiers: progressive on streams, by certificates on given rows."""

from maxmargin.evaluate.certification import certify
from maxmargin.evaluate.displays import (
    AbstentionDisplay,
    MarginDisplay,
    PathDisplay,
    ProgressiveDisplay,
    ScalesDisplay,
    WeightsDisplay,
)
from maxmargin.evaluate.drift import Drift
from maxmargin.evaluate.drift_alarm import DriftAlarm
from maxmargin.evaluate.explanation import Explanation, explain
from maxmargin.evaluate.progressive_run import STEP, Progress, progressive
from maxmargin.solvers.regularization_path import RegularizationPath

__all__ = [
    "STEP",
    "AbstentionDisplay",
    "Drift",
    "DriftAlarm",
    "Explanation",
    "MarginDisplay",
    "PathDisplay",
    "Progress",
    "ProgressiveDisplay",
    "RegularizationPath",
    "ScalesDisplay",
    "WeightsDisplay",
    "certify",
    "explain",
    "progressive",
]
