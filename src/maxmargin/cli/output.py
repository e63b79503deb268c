"""What a command has to say: for people, or as JSON for programs."""

from __future__ import annotations

import io
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import typer

MOST_CLASSES = 10  # in a line
MOST_LINES = 10  # classes with a line of their own
MOST_COLUMNS = 60  # with a line of their own, besides those with notes
# What a terminal obeys instead of showing it, and what ends a line: C0 and C1 controls, separators,
# marks that turn the direction of writing, and halves of characters.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """``text`` on one line, with control characters as Python writes them: ``\\n``, ``\\x1b``."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def json_text(value: Any) -> str:
    """``value`` as JSON, with control characters as ``\\u001b``."""
    text = json.dumps(value, ensure_ascii=False)
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def write_completely() -> None:
    """Let each write to standard output be complete, or raise an error.

    With PYTHONUNBUFFERED a text would be written by one system call, which may write only a part
    of it without an error.
    """
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        buffered = io.BufferedWriter(raw)  # type: ignore[arg-type]
        sys.stdout = io.TextIOWrapper(
            buffered, sys.stdout.encoding, sys.stdout.errors, line_buffering=True
        )


def print_json(report: Mapping[str, Any]) -> None:
    """One object on one line."""
    typer.echo(json_text(_finite(report)))


def print_report(title: str, lines: Mapping[str, str | None], hint: str = "") -> None:
    """A title and lines with a name each; what is None is left out, and a pipe gets no hint."""
    shown = {name: printable(text) for name, text in lines.items() if text}
    width = max(map(len, shown), default=0)
    typer.echo(_styled(printable(title), bold=True))
    for name, text in shown.items():
        typer.echo(f"  {_styled(name.ljust(width), dim=True)}  {text}")
    if hint and sys.stdout.isatty():
        typer.echo(_styled(printable(hint), dim=True))


def print_table(
    title: str,
    heads: Iterable[str],
    rows: Iterable[Iterable[str]],
    left: Iterable[int] = (0,),
) -> None:
    """A title and columns, some to the left and the others to the right."""
    cells = [tuple(map(printable, row)) for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    sides = set(left)
    if title:
        typer.echo(_styled(printable(title), bold=True))
    for number, row in enumerate(cells):
        placed = (
            cell.ljust(width) if place in sides else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        typer.echo(_styled(f"  {'   '.join(placed)}".rstrip(), dim=number == 0))


def print_columns(columns: list[dict[str, Any]]) -> None:
    """What the columns of a table were taken for, and what is suspicious about them."""
    rows = [
        (
            column["name"],
            "left out" if column["kind"] == "drop" else column["kind"],
            count(column.get("values")) or "",
            count(column.get("missing")) or "",
            count(column.get("distinct")) or "",
            column["note"],
        )
        for column in columns
    ]
    if len(rows) > MOST_COLUMNS:
        with_notes = [row for row in rows[MOST_COLUMNS:] if row[-1]]
        more = len(rows) - MOST_COLUMNS - len(with_notes)
        rows = [*rows[:MOST_COLUMNS], *with_notes, (f"... and {more:,} more", "", "", "", "", "")]
    heads = ("column", "taken for", "values", "missing", "distinct", "")
    print_table("", heads, rows, left=(0, 1, 5))


def print_note(text: str) -> None:
    """A sentence below a table."""
    typer.echo(f"  {printable(text)}")


def margin_text(margin: float, ratio: float) -> str:
    from maxmargin.certificates.directed_rounding import percent_down, text_down

    sure = f", at least {percent_down(ratio, 1.0)} % of the best" if ratio > 0 else ""
    return f"{text_down(margin)}{sure}"


def count(number: int | None) -> str | None:
    return None if number is None else f"{number:,}"


def percent(share: float | None) -> str:
    """With two decimals; 0 and 100 only if it is exactly that."""
    if share is None or share != share:
        return "-"
    rounded = round(100 * share, 2)
    if share not in (0.0, 1.0):
        rounded = min(max(rounded, 0.01), 99.99)
    return f"{rounded:.2f} %"


def percent_up(share: float) -> str:
    """With two decimals, rounded up: for upper bounds."""
    from maxmargin.certificates import directed_rounding

    return f"{directed_rounding.percent_up(share, 1.0)} %"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"


def size(number: int) -> str:
    amount, unit = float(number), "bytes"
    for larger in ("kB", "MB", "GB"):
        if amount >= 1000:
            amount, unit = amount / 1000, larger
    return f"{amount:.3g} {unit}"


def listed(values: list[Any]) -> str:
    shown = ", ".join(map(str, values[:MOST_CLASSES]))
    return f"{shown}, ... ({len(values):,} in all)" if len(values) > MOST_CLASSES else shown


def score_lines(report: dict[str, Any]) -> dict[str, str | None]:
    """How good predictions are: first what can be compared with a guess, then class by class."""
    accuracy, largest = percent(report["accuracy"]), percent(report["largest_class"])
    lines: dict[str, str | None] = {
        "accuracy": f"{accuracy} on {report['rows']:,} test rows; largest class: {largest}",
        "error": (
            f"{percent(1.0 - report['accuracy'])}; expected error at most "
            f"{percent_up(report['error_bound'])} with probability 95 %"
        ),
    }
    if report["unknown_labels"]:
        example = report["unknown_label"]
        such = "" if example is None else f", such as {example!r}"
        lines["unknown"] = (
            f"labels of {report['unknown_labels']:,} rows are not known to the model{such}; "
            "accuracy and precision count them as errors; recall, AUC and log loss leave them out"
        )
    balanced = f"{percent(report['balanced_accuracy'])} mean recall over the classes"
    if report["auc"] is not None:
        balanced += f"; AUC {report['auc']:.4f}"
    if report["log_loss"] is not None:
        balanced += f"; log loss {report['log_loss']:.4f}"
    lines["balanced"] = balanced
    if len(report["classes"]) <= MOST_LINES:
        for each in report["classes"]:
            lines[f"  {each['label']}"] = (
                f"recall {percent(each['recall'])} of {each['rows']:,} rows; "
                f"precision {percent(each['precision'])} of {each['predicted']:,} predictions"
            )
    if (label := only_answer(report)) is not None:
        lines["warning"] = (
            f"the model predicts {label} for every row; --class-weight balanced may help"
        )
    return lines


def only_answer(report: dict[str, Any]) -> Any:
    """The class that was predicted for every row, if that is so."""
    predicted = [each["label"] for each in report["classes"] if each["predicted"]]
    return predicted[0] if len(predicted) == 1 and len(report["classes"]) > 1 else None


def _styled(text: str, **style: bool) -> str:
    """For a terminal; `typer.echo` takes the style away in a pipe."""
    return text if os.environ.get("NO_COLOR") else typer.style(text, **style)


def _finite(value: Any) -> Any:
    """``value`` with None in place of NaN and infinity, which JSON lacks."""
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
