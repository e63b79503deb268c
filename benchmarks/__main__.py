"""``python -m benchmarks [NAME ...] [--quick] [--keep FILE.json]``, ``--list`` or ``--render``.

``python -m benchmarks arena`` and ``python -m benchmarks keel`` have options of their own: see
``python -m benchmarks arena --help``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import page, readme, store
from benchmarks.arena import __main__ as arena
from benchmarks.harness import FULL, QUICK, Scale
from benchmarks.keel import __main__ as keel
from benchmarks.report import listed, show
from benchmarks.themes import BENCHMARKS

LEAGUES = {"arena": arena, "keel": keel}
PAGE, KEPT = Path("maxmargin-bench.html"), Path("docs/benchmarks.json")


def main(arguments: Sequence[str] | None = None, scale: Scale = FULL) -> None:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in LEAGUES:
        LEAGUES[given[0]].main(given[1:])
        return
    options = parse(given)
    if options.list:
        listed(store.read(options.keep or KEPT))
    elif options.render:
        render(options.render)
    else:
        measure(options.names or BENCHMARKS, QUICK if options.quick else scale, options.keep)


def render(file: Path) -> None:
    """Write all that is made of what was kept."""
    kept = store.read(file)
    file.with_suffix(".md").write_text(page.markdown(kept), "utf-8")
    PAGE.write_text(page.html(kept), "utf-8")
    for name, numbers in readme.NUMBERS.items():
        document = Path(name)
        document.write_text(readme.filled(document.read_text("utf-8"), numbers, kept), "utf-8")
    if waiting := readme.missing(kept):
        print(f"Documents quote full-size runs only: they wait for {', '.join(waiting)}.")
    print(PAGE)


def measure(names: Sequence[str], scale: Scale, file: Path | None) -> None:
    """Run, show and keep one benchmark after the other."""
    source = store.origin(scale)
    print("\n".join(f"{name}: {value}" for name, value in source["machine"].items()))
    for name in names:
        print(f"\n{name} ...", file=sys.stderr, flush=True)
        began = time.perf_counter()
        report = BENCHMARKS[name].run(scale)
        show(report)
        if file:
            took = round(time.perf_counter() - began, 1)
            store.keep(file, report, source | {"seconds": took})
    if scale.share < 1.0:
        print("The floors are asked at full size; this run was smaller.")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, fewer rounds")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE.json",
        help="put the reports into this file; those of other benchmarks in it stay",
    )
    parser.add_argument(
        "--render",
        type=Path,
        metavar="FILE.json",
        help=f"measure nothing: write FILE.md, {PAGE} and the numbers in "
        f"{', '.join(readme.NUMBERS)} from what was kept",
    )
    parser.add_argument(
        "--list",
        action="store_true",
        help="measure nothing: show all names, what they ask and how long they took",
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(
            f"no benchmark called {', '.join(sorted(unknown))}: use {', '.join(BENCHMARKS)}"
        )
    return options


if __name__ == "__main__":
    main()
