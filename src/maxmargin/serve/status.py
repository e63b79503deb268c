"""The state of a service, in which JSON has null for NaN, and metrics for Prometheus."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import asdict
from typing import Any

import msgspec
import numpy as np
from sklearn.exceptions import NotFittedError

from maxmargin.estimator import OnlineClassifier
from maxmargin.persistence.learner_files import shown
from maxmargin.serve import bodies
from maxmargin.serve.scored_learner import ScoredLearner, recipe_of
from maxmargin.serve.service import Service

MOST_COLUMNS, MOST_WEIGHTS, MOST_POINTS = 200, 20, 100
# A computation over all weights is not repeated within so many seconds.
SECONDS_BETWEEN_SUMMARIES = 1.0
SECONDS_OF_RATES = 10.0


class Rates:
    """Events and rows a second, over the last seconds."""

    def __init__(self) -> None:
        self._marks: list[tuple[float, int, int]] = []

    def at(self, events: int, rows: int) -> tuple[float, float]:
        now = time.monotonic()
        if not self._marks or now - self._marks[-1][0] >= 0.5:
            self._marks.append((now, events, rows))
        while len(self._marks) > 2 and now - self._marks[1][0] >= SECONDS_OF_RATES:
            self._marks.pop(0)
        then, some, others = self._marks[0]
        seconds = now - then
        if seconds < 0.1:
            return 0.0, 0.0
        return (events - some) / seconds, (rows - others) / seconds


class Report:
    """The state of one service, and what it has answered."""

    def __init__(self, service: Service) -> None:
        self.service, self.rates = service, Rates()
        self.latencies = {"learn": deque[float](maxlen=2000), "predict": deque[float](maxlen=2000)}
        self.served = {"learn": 0, "predict": 0, "refused": 0}
        self.example: Any = None  # the last row that was learned
        self._summarized: tuple[float, int, dict[str, Any]] = (-math.inf, -1, {})

    def state(self) -> dict[str, Any]:
        service, model = self.service, self.service.model
        live, stats = model.live, model.live.stats
        events, rows = self.rates.at(model.events, model.rows)
        return {
            "name": service.name,
            "status": service.status,
            "algorithm": live.algorithm,
            "parameters": {
                name: shown(value) for name, value in live.learner.get_params(deep=False).items()
            },
            "classes": model.labels,
            "sequence": model.sequence,
            "events": model.events,
            "rows": model.rows,
            "mistakes": stats.mistakes,
            "answers": model.answers.rows,
            "wrong_answers": model.answers.mistakes,
            "answer_accuracy": model.answers.accuracy(),
            "recent_answer_accuracy": model.answers.recent_accuracy(),
            "largest_class_share": stats.largest_class_share(),
            "events_per_second": round(events, 3),
            "rows_per_second": round(rows, 3),
            "latency_ms": {name: percentiles(found) for name, found in self.latencies.items()},
            "waiting": len(model.waiting),
            "queue": len(service.queue),
            "log_bytes": service.log.bytes(),
            "snapshot_sequence": service.snapshot_sequence,
            "uptime_seconds": round(time.monotonic() - service.began, 3),
            "drift": {
                "delta": model.drift.detector.delta,
                "evidence": None if model.drift.frozen is None else model.drift.detector.evidence,
                "limit": model.drift.detector.limit,
                "alarms": model.drift.alarms,
            },
            "drift_alarms": model.drift.detector.n_alarms,
            "coverage": coverage_of(live.learner),
            "learners": [
                learner_of(live, live.algorithm.lower(), "live"),
                *(learner_of(each, name, "shadow") for name, each in model.shadows.items()),
            ],
            "history": stats.history,
            "example": self.example,
            **stats.scores(),
            **self._weights(live),
        }

    def _weights(self, live: ScoredLearner) -> dict[str, Any]:
        """What is computed from all weights."""
        at, sequence, found = self._summarized
        now = time.monotonic()
        if sequence != self.service.model.sequence and now - at >= SECONDS_BETWEEN_SUMMARIES:
            found = summary_of_weights(live, self.service.model.labels)
            self._summarized = now, self.service.model.sequence, found
        return {**found, "updates": updates_of(live)}

    def summary(self) -> dict[str, Any]:
        service, model = self.service, self.service.model
        return {
            "name": service.name,
            "algorithm": model.live.algorithm,
            "status": service.status,
            "rows": model.rows,
            "recent_answer_accuracy": model.answers.recent_accuracy(),
            "recent_progressive_accuracy": model.live.stats.recent_accuracy(),
        }


def coverage_of(learner: OnlineClassifier) -> dict[str, Any] | None:
    """How often prediction sets had the label; None without any."""
    try:
        return asdict(learner.coverage_)
    except (AttributeError, NotFittedError):
        return None


def percentiles(seconds: Collection[float]) -> dict[str, float | None]:
    if not seconds:
        return {"p50": None, "p99": None}
    half, most = np.percentile(np.array(list(seconds)) * 1e3, [50, 99]).tolist()
    return {"p50": round(half, 3), "p99": round(most, 3)}


def learner_of(scored: ScoredLearner, name: str, role: str) -> dict[str, Any]:
    stats = scored.stats
    every = -(-len(stats.history) // MOST_POINTS) or 1
    return {
        "name": name,
        "role": role,
        "algorithm": scored.algorithm,
        "rows": stats.rows,
        "refused": scored.refused,
        "updates": updates_of(scored),
        "history": [[point[0], point[2]] for point in stats.history[::-every][::-1]],
        **stats.scores(),
    }


def updates_of(scored: ScoredLearner) -> int:
    learner = scored.learner
    return int(learner.n_updates_) if learner.__sklearn_is_fitted__() else 0


def summary_of_weights(live: ScoredLearner, labels: list[Any]) -> dict[str, Any]:
    """Columns, weights and the certificate."""
    learner = live.learner
    if not learner.__sklearn_is_fitted__():
        return {"n_features": None, "columns": [], "certificate": None, "largest_weights": []}
    named = getattr(learner, "feature_names_in_", None)
    names = list(getattr(learner, "columns_", ()) if named is None else named)
    recipe = recipe_of(learner)
    shown_names = names if recipe is None else [column["name"] for column in recipe.columns_]
    return {
        "n_features": int(learner.n_features_in_),
        "columns": [str(name) for name in shown_names[:MOST_COLUMNS]],
        "certificate": certificate_of(learner),
        "largest_weights": largest_weights(learner, names, labels),
    }


def certificate_of(learner: OnlineClassifier) -> dict[str, Any] | None:
    try:
        found = learner.certificate_
    except (AttributeError, ValueError):
        return None
    return {"margin": found.margin, "bound": found.bound, "ratio": found.ratio}


def largest_weights(
    learner: OnlineClassifier, names: list[Any], labels: list[Any]
) -> list[dict[str, Any]]:
    """Those of a linear model, by their size."""
    try:
        weights = np.atleast_2d(learner.coef_)
    except (AttributeError, ValueError):
        return []
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


# ---------------------------------------------------------------------------------------- metrics
# Of a state, whose type describes them.
COUNTERS = (
    *("events", "rows", "mistakes", "answers", "wrong_answers", "updates"),
    *("drift_alarms", "sequence"),
)
GAUGES = (
    *("answer_accuracy", "recent_answer_accuracy", "progressive_accuracy"),
    *("recent_progressive_accuracy", "recent_loss", "waiting", "queue", "log_bytes"),
    *("snapshot_sequence", "uptime_seconds"),
)


def metrics(reports: dict[str, Report]) -> str:
    """All models, in the text format of Prometheus."""
    states = {name: report.state() for name, report in reports.items()}
    lines: list[str] = []

    def add(
        name: str, kind: str, about: str, samples: Iterable[tuple[dict[str, str], Any]]
    ) -> None:
        lines.extend((f"# HELP maxmargin_{name} {about}", f"# TYPE maxmargin_{name} {kind}"))
        for labels, value in samples:
            if value == value:  # not NaN
                text = ",".join(f'{key}="{_escaped(each)}"' for key, each in labels.items())
                lines.append(f"maxmargin_{name}{{{text}}} {value}")

    fields = msgspec.json.schema_components([bodies.State])[1]["State"]["properties"]
    for kind, end, names in (("counter", "_total", COUNTERS), ("gauge", "", GAUGES)):
        for name in names:
            samples = [({"model": model}, state[name]) for model, state in states.items()]
            add(name + end, kind, fields[name]["description"], samples)
    healthy = [({"model": m}, int(each.service.is_healthy())) for m, each in reports.items()]
    add("up", "gauge", "Is the model ready, and can it write?", healthy)
    served = [
        ({"model": model, "kind": kind}, count)
        for model, report in reports.items()
        for kind, count in report.served.items()
    ]
    add("requests_total", "counter", "Requests by what they asked for.", served)
    latencies = [
        ({"model": model, "kind": kind, "quantile": quantile}, f"{quantiles[key] / 1e3:.6f}")
        for model, state in states.items()
        for kind, quantiles in state["latency_ms"].items()
        for quantile, key in (("0.5", "p50"), ("0.99", "p99"))
        if quantiles[key] is not None
    ]
    add("latency_seconds", "summary", "Of the last 2000 requests.", latencies)
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Text between the quotes of a label, in the format of Prometheus."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
