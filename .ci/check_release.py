"""``python .ci/check_release.py TAG`` fails unless the tree can be published under this tag."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def problems(root: Path, tag: str) -> Iterator[str]:
    """What stands against a release, one line each."""

    def read(name: str) -> str:
        return (root / name).read_text("utf-8")

    (version,) = re.findall(r'^__version__ = "(.+)"$', read("src/maxmargin/__init__.py"), re.M)
    if tag != f"v{version}":
        yield f"the tag is {tag}, but src/maxmargin/__init__.py has version {version}"
    if f"\nversion: {version}\n" not in read("CITATION.cff"):
        yield f"CITATION.cff is not about version {version}"
    newest = re.findall(r"^## (.+)$", read("CHANGELOG.md"), re.M)[0]
    if not newest.startswith(version):
        yield f"CHANGELOG.md begins with {newest!r}, not with {version}"
    urls = re.search(r"^\[project\.urls\]\n(.*?)\n\n", read("pyproject.toml"), re.M | re.S)
    if urls is None or "Documentation" not in urls[1]:
        yield "pyproject.toml has no [project.urls] with Documentation"
    elif ".invalid" in urls[1]:
        yield "[project.urls] in pyproject.toml still has placeholders (.invalid)"


if __name__ == "__main__":
    found = list(problems(ROOT, sys.argv[1] if len(sys.argv) > 1 else ""))
    for problem in found:
        print(f"not ready for release: {problem}", file=sys.stderr)
    sys.exit(bool(found))
