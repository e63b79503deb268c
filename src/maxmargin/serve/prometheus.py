"""Counts and times of requests, and all that a server knows, in the text format of Prometheus."""

from __future__ import annotations

import bisect
import platform
from collections import Counter
from collections.abc import Iterable
from typing import Any

from maxmargin import __version__
from maxmargin.serve.database import SCHEMA

# Upper ends of the buckets, in seconds.
BUCKETS = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)


class Histogram:
    """How many requests took how long."""

    def __init__(self) -> None:
        self.counts, self.seconds = [0] * (len(BUCKETS) + 1), 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect.bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds


class Requests:
    """What was asked since the start, and how it was answered."""

    def __init__(self) -> None:
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.times: dict[str, Histogram] = {}

    def add(self, route: str, status: int, seconds: float) -> None:
        self.statuses[route, status] += 1
        if (found := self.times.get(route)) is None:
            found = self.times[route] = Histogram()
        found.add(seconds)


# Fields of the state, as metrics.
COUNTERS = {
    "events": "Events that were learned.",
    "rows": "Rows that were learned.",
    "refused": "Events that could not be learned, since the start.",
    "mistakes": "Wrong predictions just before learning.",
    "answers": "Predictions served with an id whose label has come.",
    "wrong_answers": "Those of them that were wrong.",
    "updates": "Updates of the learner.",
    "drift_alarms": "Drift alarms.",
    "unknown_columns": "Values in columns that the model does not know, since the start.",
    "missing_columns": "Columns that the model knows and rows did not have, since the start.",
}
GAUGES = {
    "sequence": "Number of the last event.",
    "snapshot_sequence": "Number of the last event in the last snapshot.",
    "answer_accuracy": "Share of answers that were right.",
    "recent_answer_accuracy": "The same of the last 1000.",
    "progressive_accuracy": "Share of right predictions just before learning.",
    "error_bound": "The expected error is at most this, with probability 95 %.",
    "recent_progressive_accuracy": "The same of the last 1000 rows.",
    "recent_loss": "Mean hinge loss of the last 1000 rows.",
    "waiting": "Predictions that wait for their labels.",
    "queue": "Requests that wait to be stored.",
    "database_bytes": "Size of the database.",
    "uptime_seconds": "Since the start.",
}


def text_of(state: dict[str, Any], requests: Requests, *, is_up: bool) -> str:
    """All metrics."""
    lines: list[str] = []

    def add(name: str, kind: str, about: str, samples: Iterable[tuple[str, Any]]) -> None:
        lines.extend((f"# HELP maxmargin_{name} {about}", f"# TYPE maxmargin_{name} {kind}"))
        lines.extend(f"maxmargin_{name}{labels} {value}" for labels, value in samples)

    build = {
        "version": __version__,
        "schema": str(SCHEMA),
        "python": platform.python_version(),
        "algorithm": state["algorithm"],
    }
    add("build_info", "gauge", "Versions and the learner.", [(labels(**build), 1)])
    add("up", "gauge", "Are events accepted?", [("", int(is_up))])
    for kind, suffix, names in (("counter", "_total", COUNTERS), ("gauge", "", GAUGES)):
        for name, about in names.items():
            value = state[name]
            known = value is not None and value == value
            add(name + suffix, kind, about, [("", value)] if known else [])
    answered = [
        (labels(route=route, status=str(status)), count)
        for (route, status), count in sorted(requests.statuses.items())
    ]
    add("requests_total", "counter", "Requests by route and status.", answered)
    samples: list[tuple[str, Any]] = []
    for route, histogram in sorted(requests.times.items()):
        total = 0
        for end, count in zip((*map(str, BUCKETS), "+Inf"), histogram.counts, strict=True):
            total += count
            samples.append(("_bucket" + labels(route=route, le=end), total))
        samples.append(("_sum" + labels(route=route), f"{histogram.seconds:.6f}"))
        samples.append(("_count" + labels(route=route), total))
    add("request_seconds", "histogram", "Time until the answer.", samples)
    return "\n".join(lines) + "\n"


def labels(**found: str) -> str:
    """Labels of a sample; quotes and the like are escaped."""
    for old, new in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        found = {name: text.replace(old, new) for name, text in found.items()}
    return "{" + ",".join(f'{name}="{text}"' for name, text in found.items()) + "}"
