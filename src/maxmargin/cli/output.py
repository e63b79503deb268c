"""What a command has to say: for people, or as JSON for programs."""

from __future__ import annotations

import json
import math
from typing import Any

import typer


def show(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(_finite(report), ensure_ascii=False))
        return
    for name, value in report.items():
        if value is None:
            continue
        if isinstance(value, dict):
            inner = ", ".join(f"{key} {_readable(each)}" for key, each in value.items())
            typer.echo(f"{name:>12}  {inner}")
        else:
            typer.echo(f"{name:>12}  {_readable(value)}")


def _readable(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        shown = ", ".join(str(each) for each in value[:10])
        return f"{shown}, ... ({len(value)} in all)" if len(value) > 10 else shown
    return str(value)


def _finite(value: Any) -> Any:
    """JSON has no numbers that are none, and none that are infinite."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
