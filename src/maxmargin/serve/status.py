"""The state of a server, in which JSON has null for what is not known."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import numpy as np

from maxmargin import __version__
from maxmargin.persistence import plain_parameters
from maxmargin.serve.beginnings import inner_of
from maxmargin.serve.served_model import ServedModel
from maxmargin.serve.service import Service

MOST_COLUMNS, MOST_WEIGHTS = 200, 20
CERTIFIED = ("margin", "bound", "ratio")


def state_of(service: Service) -> dict[str, Any]:
    """What ``GET /model`` answers."""
    model = service.model
    counts, answers, alarm = model.counts, model.counts.answers, model.alarm
    learner = inner_of(model.learner)
    with model.lock:
        learned = learned_by(model)
    return {
        "status": service.status,
        "version": __version__,
        "algorithm": type(learner).__name__,
        "parameters": plain_parameters(learner),
        "classes": model.labels,
        "sequence": service.sequence,
        **counts.report(),
        "refused": service.refused,
        "answers": answers.rows,
        "wrong_answers": answers.mistakes,
        "answer_accuracy": answers.accuracy(),
        "recent_answer_accuracy": answers.recent_accuracy(),
        "waiting": service.waiting,
        "queue": len(service.queue),
        "database_bytes": service.database.bytes(),
        "snapshot_sequence": service.snapshot_sequence,
        "uptime_seconds": round(time.monotonic() - service.began, 3),
        "unknown_columns": model.unknown_columns,
        "missing_columns": model.missing_columns,
        "drift": {
            "delta": alarm.delta,
            "evidence": None if model.frozen is None else alarm.evidence,
            "limit": alarm.limit,
            "alarms": counts.alarms,
        },
        "drift_alarms": alarm.n_alarms,
        "history": counts.history,
        "example": model.example,
        **learned,
    }


def learned_by(model: ServedModel) -> dict[str, Any]:
    """What is computed from the learner itself."""
    learner = model.learner
    if not model.is_fitted:
        empty = dict.fromkeys(("n_features", "certificate", "coverage"))
        return {**empty, "columns": [], "updates": 0, "largest_weights": []}
    coverage = getattr(learner, "coverage_", None)
    learner = getattr(learner, "estimator_", learner)
    best = getattr(learner, "certificate_", None)
    names = getattr(learner, "feature_names_in_", None)
    names = list(getattr(learner, "columns_", ()) if names is None else names)
    shown_names = sorted(model.columns) if model.has_recipe else names
    return {
        "n_features": int(learner.n_features_in_),
        "columns": [str(name) for name in shown_names[:MOST_COLUMNS]],
        "updates": int(learner.n_updates_),
        "certificate": best and {name: getattr(best, name) for name in CERTIFIED},
        "coverage": None if coverage is None else asdict(coverage),
        "largest_weights": largest_weights(learner, names, model.labels),
    }


def largest_weights(learner: Any, names: list[Any], labels: list[Any]) -> list[dict[str, Any]]:
    """Those of a linear model, or the means of a mixture of such, by their size."""
    coef = getattr(learner, "coef_", None)
    coef = getattr(learner, "mean_coef_", None) if coef is None else coef
    if coef is None:
        return []
    weights = np.atleast_2d(coef)
    sizes = np.abs(weights).ravel()
    most = min(MOST_WEIGHTS, sizes.size)
    places = np.argpartition(-sizes, most - 1)[:most]
    found = []
    for place in places[np.argsort(-sizes[places], kind="stable")].tolist():
        problem, column = divmod(place, weights.shape[1])
        label = labels[1] if weights.shape[0] == 1 else labels[problem]
        name = str(names[column]) if column < len(names) else str(column)
        if weights[problem, column] != 0.0:
            found.append({"name": name, "class": label, "weight": float(weights[problem, column])})
    return found
