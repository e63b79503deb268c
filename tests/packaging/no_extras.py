"""``python no_extras.py PROGRAM`` runs a program as if no extra of the package were installed."""

import re
import runpy
import sys
from importlib.abc import MetaPathFinder
from importlib.metadata import requires

EXTRAS = {
    *("typer", "click", "rich"),
    *("matplotlib", "jinja2"),
    *("pyarrow", "narwhals"),
    *("fsspec", "aiohttp"),
    *("onnx", "onnxruntime", "skl2onnx"),
    *("pandas", "polars", "skops"),
    *("starlette", "uvicorn", "httptools", "uvloop", "msgspec"),
    "river",
}
# scikit-learn brings narwhals from version 1.9 on.
BROUGHT = {re.split(r"[^\w-]", each)[0] for each in requires("scikit-learn") if "extra" not in each}


class Absent(MetaPathFinder):
    """Finds none of the libraries that come with extras."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] in EXTRAS - BROUGHT:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


if __name__ == "__main__":
    sys.meta_path.insert(0, Absent())
    program, *sys.argv[1:] = sys.argv[1:]
    runpy.run_path(program, run_name="__main__")
