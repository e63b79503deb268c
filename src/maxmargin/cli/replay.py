"""``maxmargin replay``: the stored events of a server once more, all of them or up to one."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from maxmargin.cli import learner_options
from maxmargin.cli.errors import check_writable, misuse, one_line_errors, require
from maxmargin.cli.fit import Json, Settings
from maxmargin.cli.output import duration, percent, print_json, print_report


def replay(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of maxmargin serve.")],
    until: Annotated[
        str | None,
        typer.Option(metavar="EVENT|TIME", help="Last event, by its number or an ISO 8601 time."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", "-o", help="File to write the model to.")
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option("--algorithm", "-a", help="Evaluate another learner on the events."),
    ] = None,
    settings: Settings = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Rebuild a served model from its events, or evaluate another learner on them."""
    with one_line_errors():
        require("msgspec", extra="serve")
        number, end = parsed_end(until)
        if settings and algorithm is None:
            misuse("--set needs --algorithm: the model in the folder has its own parameters.")
        other = None if algorithm is None else learner_options.make(algorithm, settings)
        if model is not None:
            check_writable(model)
        from maxmargin.persistence import save
        from maxmargin.serve.replaying import Replay

        began = time.perf_counter()
        found = Replay(folder, other)
        found.run(number, end)
        report = found.report() | {"seconds": round(time.perf_counter() - began, 3)}
        if model is not None:
            save(found.model.learner, model)
            report["model"] = str(model)
        (print_json if as_json else show)(report)


def parsed_end(text: str | None) -> tuple[int | None, float | None]:
    """The number of the last event, or the time up to which events count."""
    if text is None:
        return None, None
    if text.isdigit():
        return int(text), None
    try:
        return None, datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        misuse(f"--until takes an event's number or a time such as 2026-01-31T14:00; got {text!r}.")


def show(report: dict[str, Any]) -> None:
    rows, refused = report["rows"], report["refused"]
    lines: dict[str, str | None] = {
        "rows": f"{rows:,} in {report['events']:,} events, {duration(report['seconds'])}",
        "until": f"event {report['sequence']:,}",
        "refused": f"{refused:,} events" if refused else None,
    }
    if rows:
        wrong = percent(1.0 - report["progressive_accuracy"])
        lines["mistakes"] = f"{report['mistakes']:,} ({wrong})"
        right = percent(report["recent_progressive_accuracy"])
        lines["recent"] = f"{right} accuracy on the last 1,000 rows"
        lines["baseline"] = f"largest class: {percent(report['largest_class_share'])}"
        lines["loss"] = f"{report['loss']:.4f}, recently {report['recent_loss']:.4f}"
        lines["drifts"] = ", ".join(f"{row:,}" for row in report["drifts"]) or None
    lines["model"] = report.get("model")
    print_report(f"{report['algorithm']}, evaluated before learning from each row", lines)
