"""``maxmargin warmup``: compile learners ahead of their use, as when a container is built."""

from __future__ import annotations

import tempfile
import time
import warnings
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxmargin.cli import learner_options
from maxmargin.cli.errors import fail, one_line_errors
from maxmargin.cli.fit import Json, Settings
from maxmargin.cli.output import duration, print_json, print_note, print_table, size

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

# Compiled code depends on the types of arrays, not on their sizes.
EXAMPLES = 24


class Form(str, Enum):
    """What holds the rows."""

    dense = "dense"
    sparse = "sparse"


def warmup(
    algorithms: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ALGORITHM]...", help="Learners (default: all).", show_default=False
        ),
    ] = None,
    rows: Annotated[
        list[Form] | None,
        typer.Option(help="Kind of rows; repeatable. [default: both]", show_default=False),
    ] = None,
    float32: Annotated[
        bool, typer.Option("--float32", help="Compile for float32 rows instead of float64.")
    ] = False,
    classes: Annotated[int, typer.Option(min=2, help="Compile for two classes, or for more.")] = 2,
    settings: Settings = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Compile learners ahead of their first use."""
    with one_line_errors():
        names = algorithms or list(learner_options.names())
        chosen = learner_options.make_all(names, settings, streams=False)
        from maxmargin._terminal import bar
        from maxmargin.core.numba_backend import IS_FULL, cache_folder

        if not IS_FULL:
            fail(
                "Compiled code is not kept with this version of Numba, or with "
                "MAXMARGIN_NUMBA_BACKEND=documented: there is nothing to warm up."
            )
        folder = cache_folder()
        if folder is None:
            fail("No folder for compiled code: set MAXMARGIN_CACHE_DIR.")
        report: dict[str, Any] = {"folder": str(folder), "learners": []}
        forms = list(dict.fromkeys(rows or Form))
        with bar("compiling", len(chosen), "learners") as advance:
            for learner in chosen:
                advance(0, note=type(learner).__name__)
                before, began = set(folder.iterdir()), time.perf_counter()
                for form in forms:
                    use(learner, form, "float32" if float32 else "float64", classes)
                report["learners"].append(
                    {
                        "algorithm": type(learner).__name__,
                        "rows": [form.value for form in forms],
                        "compiled": len(set(folder.iterdir()) - before),
                        "seconds": round(time.perf_counter() - began, 3),
                    }
                )
                advance(1)
        report["bytes"] = sum(path.stat().st_size for path in folder.iterdir())
        (print_json if as_json else show)(report)


def use(learner: BaseEstimator, form: Form, dtype: str, classes: int) -> None:
    """Call all methods of a learner that compile code for such rows."""
    import numpy as np
    from scipy import sparse
    from sklearn.base import clone

    if "random_state" in learner.get_params():
        learner.set_params(random_state=0)
    y = np.arange(EXAMPLES) % classes
    X = np.random.default_rng(0).normal(3.0 * y[:, None], 1.0, size=(EXAMPLES, 4)).astype(dtype)
    given: Any = sparse.csr_matrix(X) if form is Form.sparse else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about convergence on so few rows
        clone(learner).fit(given, y).predict(given)
        if hasattr(learner, "partial_fit"):
            clone(learner).partial_fit(given, y, classes=np.unique(y))
            clone(learner).learn_one(
                (given.indices[:4], given.data[:4]) if form is Form.sparse else given[0],
                y[0],
                classes=np.unique(y),
            )
        if form is Form.sparse and hasattr(learner, "fit_stream"):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "rows.svm"
                path.write_text(
                    "".join(f"{label} 1:{x:f}\n" for label, x in zip(y, X[:, 0], strict=True))
                )
                clone(learner).fit_stream(path)


def show(report: dict[str, Any]) -> None:
    lines = [
        (
            each["algorithm"],
            ", ".join(each["rows"]),
            f"compiled {each['compiled']}" if each["compiled"] else "found",
            duration(each["seconds"]),
        )
        for each in report["learners"]
    ]
    print_table("", ("learner", "rows", "loops", "time"), lines, left=(0, 1, 2))
    print_note(f"{report['folder']}, {size(report['bytes'])}")
