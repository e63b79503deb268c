"""``maxmargin evaluate``: predict each row, then learn from it; or test a model."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from maxmargin.cli import data, learner_options
from maxmargin.cli.errors import check_writable, misuse, one_line_errors, require
from maxmargin.cli.fit import Classes, ClassWeight, Coverage, Json
from maxmargin.cli.output import (
    MOST_LINES,
    duration,
    only_answer,
    percent,
    percent_up,
    print_json,
    print_note,
    print_report,
    print_table,
    score_lines,
)
from maxmargin.cli.predict import score

# Points of the curves along a file, and the most rows that "recently" means.
CHECKPOINTS, RECENT = 200, 1000
Algorithms = Annotated[
    list[str],
    typer.Option(
        "--algorithm",
        "-a",
        help="Learner; repeat to compare several.",
        autocompletion=learner_options.complete,
    ),
]
Settings = Annotated[
    list[str],
    typer.Option(
        "--set",
        "-s",
        metavar="NAME=VALUE",
        help="Parameter of all learners that have it; norma.rate=0.1 sets it for one.",
    ),
]


Files = Annotated[
    list[str],
    typer.Argument(
        metavar="[MODEL] DATA",
        help="File, URL or - for standard input; with MODEL before it, test that model.",
    ),
]
# Numbers about the rows alone, reported once for all learners.
OF_ALL_LEARNERS = {"rows", "largest_class", "repeating", "weighted", "unknown_labels", "log_loss"}
# The options for the test of a model, which determines itself how columns are read.
OF_TESTS = {"files", "format", "skip_errors", "as_json"}


@data.with_reading
def evaluate(
    context: typer.Context,
    files: Files,
    algorithm: Algorithms = [learner_options.DEFAULT],  # noqa: B006
    settings: Settings = [],  # noqa: B006
    plot: Annotated[
        Path | None, typer.Option(help="Plot mistakes and accuracy to this file (png, svg, pdf).")
    ] = None,
    delay: Annotated[int, typer.Option(min=0, help="Delay of labels, in rows.")] = 0,
    classes: Classes = None,
    class_weight: ClassWeight = None,
    coverage: Coverage = None,
    as_json: Json = False,
    *,
    reading: data.Reading,
) -> None:
    """Let learners predict each row of DATA before they learn from it, or test a MODEL on DATA."""
    with one_line_errors():
        if len(files) > 2:
            misuse(f"evaluate takes DATA, or MODEL and DATA; got {len(files)} files.")
        *model, rows = files
        if model:
            check_options_of_test(context)
            report = tested(Path(model[0]), rows, reading.format, reading.skip_errors)
            (print_json if as_json else show_test)(report)
            return
        check_is_data(rows)
        contestants = learner_options.make_all(algorithm, settings)
        if plot is not None:
            check_plot(plot, (rows, reading.label, reading.weight))
        source = reading.open(rows)
        labels = data.classes_of(classes) or classes_in(source)
        learner_options.give_class_weights(contestants, class_weight)
        step = max(1, (source.survey().rows or CHECKPOINTS * RECENT) // CHECKPOINTS)
        contestants = [learner_options.covering(each, coverage) for each in contestants]
        from maxmargin.evaluate import progressive
        from maxmargin.evaluate.batching import labelled

        began = time.perf_counter()
        blocks = labelled(data.with_bar(source, "evaluate"), source.name)
        results = progressive(contestants, blocks, step=step, classes=labels, delay=delay)
        progress = summary(results, source, time.perf_counter() - began)
        if plot is not None:
            draw(results, plot, progress["recent"])
            progress["plot"] = str(plot)
        (print_json if as_json else show)(progress)


# --------------------------------------------------------------------------------- test of a model
def check_options_of_test(context: typer.Context) -> None:
    """Refuse options that do not apply to a test of a model."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name not in OF_TESTS:
            misuse(
                f"{parameter.opts[0]} is for learning: a model that is tested has learned already, "
                "and determines how its columns are read."
            )


def check_is_data(path: str) -> None:
    """Explain how a model is tested if it is passed without data."""
    from maxmargin.persistence.container import is_model_file

    if is_model_file(path):
        misuse(f"{path} is a model; to test it: maxmargin evaluate {path} DATA")


def tested(model: Path, rows: str, format: data.Kind | None, skip_errors: bool) -> dict[str, Any]:
    from maxmargin.persistence import load

    learner = load(model)
    source = data.open_alike(rows, learner, format=format, skip_errors=skip_errors, labelled=True)
    began = time.perf_counter()
    report = {"model": str(model), "algorithm": type(learner).__name__, **score(learner, source)}
    return {**report, "skipped": source.skipped, "seconds": round(time.perf_counter() - began, 3)}


def show_test(report: dict[str, Any]) -> None:
    skipped = report["skipped"] and f"{report['skipped']:,} unreadable rows"
    lines = {"model": f"{report['model']}, {report['algorithm']}", **score_lines(report)}
    lines["skipped"] = skipped or None
    print_report(f"{report['data']}, tested in {duration(report['seconds'])}", lines)


# ----------------------------------------------------------------------------- predict, then learn
def check_plot(path: Path, inputs: tuple[str | None, ...]) -> None:
    """Can a picture be drawn into this file?"""
    require("matplotlib", extra="plots")
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix.lower().lstrip(".") not in kinds:
        misuse(f"--plot {path}: the name must end with one of .{', .'.join(kinds)}.")
    check_writable(path, unlike=inputs)


def classes_in(source: Any) -> Any:
    """All labels of a file; of a pipe those in its first block."""
    from maxmargin.evaluate.batching import classes_of

    classes = classes_of(source)
    if classes.size == 0:
        raise ValueError(f"{source.name}: there are no rows.")
    if classes.size == 1:
        where = "" if source.repeatable else " in its first block; list all classes with --classes"
        raise ValueError(f"{source.name} has only one class, {classes.tolist()}{where}.")
    return classes


def summary(results: list[Any], source: Any, seconds: float) -> dict[str, Any]:
    """What each learner made of the rows, and what needs no learning."""
    rows = int(results[0].wrong.size)
    recent = max(1, min(RECENT, rows // 10))
    reports = [result.report() for result in results]
    return {
        "data": source.name,
        "rows": rows,
        "recent": recent,
        "skipped": source.skipped,
        "seconds": round(seconds, 3),
        "largest_class": reports[0]["largest_class"],
        "repeating": reports[0]["repeating"],
        "weighted": reports[0]["weighted"],
        "learners": [
            {
                "algorithm": result.name,
                "recent_accuracy": float(result.recent_accuracy(recent)[-1]),
                "updates": int(result.updates[-1]),
                **{name: value for name, value in report.items() if name not in OF_ALL_LEARNERS},
            }
            for result, report in zip(results, reports, strict=True)
        ],
    }


def show(report: dict[str, Any]) -> None:
    """The report for people: what can be compared with a guess, then class by class."""
    title = f"{report['data']}, {report['rows']:,} rows in {duration(report['seconds'])}"
    if report["skipped"]:
        title += f", {report['skipped']:,} unreadable rows skipped"
    heads = [
        "learner",
        "mistakes",
        "accuracy",
        "error at most",
        f"last {report['recent']:,}",
        "balanced",
    ]
    has_areas = any(each["auc"] is not None for each in report["learners"])
    heads += ["AUC", "updates"] if has_areas else ["updates"]
    rows = []
    for each in report["learners"]:
        shares = (each["recent_accuracy"], each["balanced_accuracy"])
        area = [f"{each['auc']:.4f}" if each["auc"] is not None else "-"] if has_areas else []
        cells = [each["algorithm"], f"{each['mistakes']:,}", percent(each["accuracy"])]
        cells += [percent_up(each["error_bound"]), *map(percent, shares)]
        rows.append([*cells, *area, f"{each['updates']:,}"])
    print_table(title, heads, rows)
    print_note(
        f"Baselines: predicting the largest class {percent(report['largest_class'])}, "
        f"repeating the last label {percent(report['repeating'])}."
    )
    print_note("Error at most: the expected error with probability 95 %, whatever the drift.")
    if report["weighted"]:
        print_note("Sample weights are used for learning only; these counts are unweighted.")
    for each in report["learners"]:
        show_classes(each)
        if sets := each.get("prediction_sets"):
            print_note(
                f"Prediction sets of {each['algorithm']}: {percent(sets['coverage'])} have the "
                f"label, {sets['mean_size']:.3g} classes on average; {percent(sets['answered'])} "
                f"have exactly one class, of which {percent(sets['answered_accuracy'])} are right."
            )


def show_classes(report: dict[str, Any]) -> None:
    """Recall and precision of one learner, if there are few classes."""
    if len(report["classes"]) <= MOST_LINES:
        heads = ("class", "rows", "recall", "predicted", "precision")
        rows = (
            (
                str(each["label"]),
                f"{each['rows']:,}",
                percent(each["recall"]),
                f"{each['predicted']:,}",
                percent(each["precision"]),
            )
            for each in report["classes"]
        )
        print_table(report["algorithm"], heads, rows)
    if (label := only_answer(report)) is not None:
        print_note(
            f"Warning: {report['algorithm']} predicts {label} for every row; "
            "--class-weight balanced may help."
        )


def draw(results: list[Any], path: Path, window: int) -> None:
    from matplotlib.figure import Figure

    from maxmargin.evaluate import ProgressiveDisplay

    figure = Figure(figsize=(8, 6), layout="constrained")
    axes = figure.subplots(2, 1, sharex=True)
    ProgressiveDisplay.from_results(results, window=window, ax=axes)
    figure.savefig(path)
