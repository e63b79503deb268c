"""``maxmargin replay``: another learner on the events that were served."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from maxmargin.cli import learner_options
from maxmargin.cli.errors import check_writable, complain, one_line_errors, require
from maxmargin.cli.fit import Algorithm, Json, ModelFile, Settings
from maxmargin.cli.output import duration, percent, print_json, print_report


def replay(
    log: Annotated[
        Path,
        typer.Argument(metavar="DIR[/NAME]", help="Folder written by maxmargin serve --keep-log."),
    ],
    algorithm: Algorithm = learner_options.DEFAULT,
    settings: Settings = [],  # noqa: B006
    model: ModelFile = None,
    as_json: Json = False,
) -> None:
    """Evaluate a learner on logged events: predict each row, then learn from it."""
    with one_line_errors():
        require("msgspec", extra="serve")
        learner = learner_options.make(algorithm, settings)
        if model is not None:
            check_writable(model)
        from maxmargin.persistence import save
        from maxmargin.serve.replaying import Replay

        began = time.perf_counter()
        one = Replay(log, learner)
        if one.first > 1:
            complain(
                f"the log begins with event {one.first:,}: use serve --keep-log to keep all events."
            )
        one.run()
        report = one.report() | {"seconds": round(time.perf_counter() - began, 3)}
        if model is not None:
            save(one.model.live.learner, model)
            report["model"] = str(model)
        (print_json if as_json else show)(report)


def show(report: dict[str, Any]) -> None:
    rows, refused = report["rows"], report["refused"]
    seconds = duration(report["seconds"])
    lines: dict[str, str | None] = {
        "rows": f"{rows:,} in {report['events']:,} events, {seconds}",
        "refused": f"{refused:,} events" if refused else None,
    }
    if rows:
        lines["mistakes"] = (
            f"{report['mistakes']:,} ({percent(1.0 - report['progressive_accuracy'])})"
        )
        right = percent(report["recent_progressive_accuracy"])
        lines["recent"] = f"{right} accuracy on the last 1,000 rows"
        lines["baseline"] = f"largest class: {percent(report['largest_class'])}"
        lines["loss"] = f"{report['loss']:.4f}, recently {report['recent_loss']:.4f}"
        lines["drifts"] = ", ".join(f"{row:,}" for row in report["drifts"]) or None
    lines["model"] = report.get("model")
    print_report(f"{report['algorithm']}, evaluated before learning from each row", lines)
