"""``python -m benchmarks [NAME ...] [--quick] [--keep FILE.json]``, or ``--render FILE.json``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import page, store
from benchmarks.harness import FULL, QUICK, Scale
from benchmarks.report import show
from benchmarks.themes import BENCHMARKS

PAGE = Path("maxmargin-bench.html")


def main(arguments: Sequence[str] | None = None, scale: Scale = FULL) -> None:
    options = parse(arguments)
    if options.render:
        kept = store.read(options.render)
        options.render.with_suffix(".md").write_text(page.markdown(kept), "utf-8")
        PAGE.write_text(page.html(kept), "utf-8")
        print(PAGE)
    else:
        measure(options.names or BENCHMARKS, QUICK if options.quick else scale, options.keep)


def measure(names: Sequence[str], scale: Scale, file: Path | None) -> None:
    """Run, show and keep one benchmark after the other."""
    source = store.origin(scale)
    print("\n".join(f"{name}: {value}" for name, value in source["machine"].items()))
    for name in names:
        print(f"\n{name} ...", file=sys.stderr, flush=True)
        report = BENCHMARKS[name].run(scale)
        show(report)
        if file:
            store.keep(file, report, source)
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
        help=f"measure nothing: write FILE.md and {PAGE} from what was kept",
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(
            f"no benchmark called {', '.join(sorted(unknown))}: use {', '.join(BENCHMARKS)}"
        )
    return options


if __name__ == "__main__":
    main()
