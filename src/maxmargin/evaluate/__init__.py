"""How good is a classifier? On a stream, by what it predicts; on given rows, by its margin."""

from maxmargin.evaluate.abstention import AbstentionDisplay
from maxmargin.evaluate.certification import certify
from maxmargin.evaluate.displays import MarginDisplay, ProgressiveDisplay, WeightsDisplay
from maxmargin.evaluate.drift import Drift
from maxmargin.evaluate.drift_alarm import DriftAlarm
from maxmargin.evaluate.monitor import CertificateMonitor
from maxmargin.evaluate.progressive_run import STEP, Progress, progressive

__all__ = [
    "STEP",
    "AbstentionDisplay",
    "CertificateMonitor",
    "Drift",
    "DriftAlarm",
    "MarginDisplay",
    "Progress",
    "ProgressiveDisplay",
    "WeightsDisplay",
    "certify",
    "progressive",
]
