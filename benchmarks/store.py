"""Reports in one JSON file: medians and quartiles, and where and when they were measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.harness import Report, Scale, Spread
from benchmarks.machine import commit, facts, load
from benchmarks.themes import BENCHMARKS
from maxmargin_papers.reproduction.provenance import today

DIGITS = 5

Kept = dict[str, dict[str, Any]]  # name of a benchmark: its report


def read(file: Path) -> Kept:
    return json.loads(file.read_text("utf-8")) if file.exists() else {}


def origin(scale: Scale) -> dict[str, Any]:
    """Where, when and of what a run measures, to be asked before it begins."""
    return {
        "date": today(),
        "commit": commit(),
        "machine": facts(),
        "load": load(),
        "share": scale.share,
    }


def keep(file: Path, report: Report, source: dict[str, Any]) -> None:
    """Put the report in the place of an older one of its name; others stay."""
    kept = read(file) | {report.name: source | as_plain(report)}
    kept = {name: kept[name] for name in BENCHMARKS if name in kept}
    text = json.dumps(kept, indent=1, ensure_ascii=False, allow_nan=False)
    file.write_text(text + "\n", "utf-8")


def as_plain(report: Report) -> dict[str, Any]:
    return {
        "data": report.data,
        "unit": report.unit,
        "values": [
            {**key._asdict(), **_spread(values), "rounds": len(values)}
            for key, values in report.values.items()
        ],
        "quality": [
            {"case": key.case, "measure": key.contender, "value": _short(value)}
            for key, value in report.quality.items()
        ],
        "comparisons": [
            {**one._asdict(), **_spread(report.times_as_fast(one))} for one in report.comparisons
        ],
        "skipped": report.skipped,
        "how": report.how,
    }


def _spread(values: list[float]) -> dict[str, float]:
    return {name: _short(value) for name, value in Spread.of(values)._asdict().items()}


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
