"""``maxmargin report``: a page about a model and its errors on test rows, to hand on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from maxmargin import __version__
from maxmargin.cli import data
from maxmargin.cli.errors import check_writable, misuse, one_line_errors, require
from maxmargin.cli.info import lines_about
from maxmargin.cli.output import MOST_LINES, count, only_answer, percent, percent_up
from maxmargin.cli.predict import Judged, Model, judged, names_of_columns

# Rows whose contributions are averaged; what is shown: mistakes, columns, and columns of a mistake.
SAMPLE, MISTAKES, COLUMNS, REASONS = 50, 8, 15, 4
LONGEST_VALUE = 200
BINS, SEED = 10, 0


class Row(NamedTuple):
    """A row that may be shown: those with the smallest ``rank`` are."""

    rank: float
    place: int
    truth: Any
    label: Any
    confidence: float
    X: Any


def report(
    model: Model,
    rows: data.Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML page to write.")] = Path(
        "maxmargin-report.html"
    ),
    format: data.Format = None,
    skip_errors: data.SkipErrors = False,
) -> None:
    """Test MODEL on DATA, and write a page about its errors and columns to hand on."""
    with one_line_errors():
        require("jinja2", extra="plots")
        check_writable(out, unlike=(model, rows))
        from maxmargin.persistence import load

        learner = load(model)
        source = data.open_alike(
            rows, learner, format=format, skip_errors=skip_errors, labelled=True
        )
        if not source.repeatable:
            misuse(f"{source.name} can be read only once: report needs a file.")
        out.write_text(page(model, learner, source), encoding="utf-8")
        typer.echo(f"The page is {out}.")


def page(model: Path, learner: Any, source: Any) -> str:
    """The page: one HTML file that loads nothing."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from maxmargin.persistence import describe
    from maxmargin.serve.page import HERE

    test = Test(learner)
    scores, words = test.read(source), {"file": model.name, **describe(model)}
    lines = lines_about(words)
    if hasattr(learner, "coverage_"):
        lines["sets"] = str(learner.coverage_)
    columns, mistakes = explained(learner, source, test)
    pages = Environment(
        loader=PackageLoader("maxmargin.cli", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {"percent": percent, "percent_up": percent_up, "count": count}
    return pages.get_template("report.html.jinja").render(
        style=(HERE / "page.css").read_text("utf-8"),
        model=model.name,
        version=__version__,
        scores=scores,
        skipped=source.skipped,
        only_answer=only_answer(scores),
        confusions=None if len(learner.classes_) <= MOST_LINES else largest_confusions(scores),
        calibration=test.calibration(),
        columns=columns,
        sampled=len(test.sample),
        mistakes=mistakes,
        has_probabilities=test.has_probabilities,
        title=words["estimator"],
        lines=lines,
        prepared=words.get("columns", []),
    )


class Test:
    """One pass over test rows: counts, and the rows that are shown.

    Attributes
    ----------
    sample, mistakes : list of Row
        A random sample, and the mistakes that were made with the most confidence.
    """

    def __init__(self, learner: Any) -> None:
        import numpy as np

        self.learner = learner
        self.sample = list[Row]()
        self.mistakes = list[Row]()
        self.has_probabilities = hasattr(learner, "predict_proba")
        self._bins = np.zeros((3, BINS))  # rows, sums of probabilities, right predictions
        self._keeps_rows = getattr(learner, "recipe_", None) is None

    def read(self, source: Any) -> dict[str, Any]:
        """Predict all rows; what was counted, see `evaluate.predictions.Scores`."""
        import numpy as np

        from maxmargin.evaluate.predictions import Scores

        scores, seen, random = Scores(self.learner.classes_), 0, np.random.default_rng(SEED)
        for each in judged(self.learner, source, scores):
            all_places = np.arange(seen, seen + len(each.labels) + len(each.block.lost))
            places, right = np.setdiff1d(all_places, each.block.lost), each.labels == each.block.y
            seen += all_places.size
            confidence = self._confidences(each)
            if self.has_probabilities:
                bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
                for total, weights in zip(self._bins, (None, confidence, right), strict=True):
                    total += np.bincount(bins, weights, BINS)
            ranks = random.random(right.size)
            found = self._rows(each, places, confidence, ranks, np.arange(right.size), SAMPLE)
            self.sample = sorted([*self.sample, *found])[:SAMPLE]
            wrong = np.flatnonzero(~right)
            found = self._rows(each, places, confidence, -confidence, wrong, MISTAKES)
            self.mistakes = sorted([*self.mistakes, *found])[:MISTAKES]
        return {"data": source.name, **scores.report()}

    def _confidences(self, each: Judged) -> Any:
        """The probability of the predicted class, or how far its score leads."""
        import numpy as np

        from maxmargin.evaluate.predictions import leads

        if each.probabilities is not None:
            return each.probabilities.max(axis=1)
        learner = self.learner.without_recipe()
        if not hasattr(learner, "decision_function"):
            return np.zeros(len(each.labels))
        outputs = learner.decision_function(each.X).reshape(len(each.labels), -1)
        return leads(outputs, np.searchsorted(learner.classes_, each.labels))

    def _rows(
        self, each: Judged, places: Any, confidence: Any, ranks: Any, among: Any, most: int
    ) -> Iterable[Row]:
        for k in among[ranks[among].argsort(kind="stable")[:most]].tolist():
            X = each.X[k : k + 1].copy() if self._keeps_rows else None
            truth, label = each.block.y[k : k + 1], each.labels[k : k + 1].tolist()[0]
            # A file may hold 1.0 where the class is 1.
            known = self.learner.classes_[self.learner.classes_ == truth]
            truth = (known if known.size else truth).tolist()[0]
            yield Row(float(ranks[k]), int(places[k]), truth, label, float(confidence[k]), X)

    def calibration(self) -> list[dict[str, Any]]:
        """Of predictions with similar probabilities, their mean and the share that is right."""
        return [
            {
                "first": 100 * k // BINS,
                "last": 100 * (k + 1) // BINS,
                "rows": int(rows),
                "said": said / rows,
                "right": right / rows,
            }
            for k, (rows, said, right) in enumerate(self._bins.T.tolist())
            if rows
        ]


def explained(
    learner: Any, source: Any, test: Test
) -> tuple[list[tuple[str, float]], list[dict[str, Any]]]:
    """Mean contributions of columns in the sample, and the mistakes with their reasons."""
    from maxmargin.evaluate import explain

    if not hasattr(learner, "decision_function"):
        return [], [{"row": row, "values": {}, "why": []} for row in test.mistakes]
    recipe = getattr(learner, "recipe_", None)
    places = sorted({row.place for row in (*test.sample, *test.mistakes)})
    table = source.rows_at(places) if recipe is not None else None
    names = None if recipe is not None else names_of(learner, source)

    def raw(row: Row) -> Any:
        return row.X if table is None else table.slice(places.index(row.place), 1)

    def contributions(row: Row) -> dict[str, float]:
        return explain(learner, raw(row), feature_names=names).contributions

    totals: dict[str, float] = {}
    for row in test.sample:
        sums: dict[str, float] = {}
        for part, amount in contributions(row).items():
            column = part if table is None else column_of(part, table.column_names)
            sums[column] = sums.get(column, 0.0) + amount
        for column, amount in sums.items():
            totals[column] = totals.get(column, 0.0) + abs(amount) / len(test.sample)
    columns = sorted(totals.items(), key=lambda item: -item[1])[:COLUMNS]
    mistakes = [
        {
            "row": row,
            "values": {} if table is None else shown(raw(row).to_pylist()[0]),
            "why": list(contributions(row).items())[:REASONS],
        }
        for row in test.mistakes
    ]
    return columns, mistakes


def names_of(learner: Any, source: Any) -> Any:
    """The names of columns that are not prepared, where the file has names or numbers of them."""
    schema = source.schema()
    numbers = names_of_columns(learner, schema)
    return schema.get("columns") or (numbers and [f"column {k}" for k in numbers])


def column_of(part: str, columns: list[str]) -> str:
    """The column of a part of a row, which is the column or "column: word"."""
    owners = [name for name in columns if part.startswith(f"{name}: ")]
    return part if part in columns else max(owners, key=len, default=part)


def shown(values: dict[str, Any]) -> dict[str, str]:
    """The values of a row that are not missing, as text of limited length."""
    texts = {name: str(value) for name, value in values.items() if value is not None}
    return {
        name: text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
        for name, text in texts.items()
    }


def largest_confusions(scores: dict[str, Any]) -> list[dict[str, Any]]:
    """The most frequent pairs of a class and another one that was predicted for it."""
    labels = [each["label"] for each in scores["classes"]]
    pairs = [
        {"truth": truth, "label": label, "rows": rows}
        for truth, line in zip(labels, scores["confusion"], strict=True)
        for label, rows in zip(labels, line, strict=True)
        if truth != label and rows
    ]
    return sorted(pairs, key=lambda pair: -pair["rows"])[:MOST_LINES]
