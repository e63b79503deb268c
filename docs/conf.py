"""How Sphinx builds the site: ``make docs``. Nothing is fetched from the network."""

import gzip
import os
import re
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import matplotlib
from sphinx.application import Sphinx

import maxmargin
from maxmargin_papers.reproduction.reproduction_page import render_kept

HERE = Path(__file__).parent
(HERE / "extra").mkdir(exist_ok=True)  # Sphinx looks for it before pages are written there
sys.path.insert(0, str(HERE))
matplotlib.use("agg")

import pictures  # noqa: E402 - found by the line above

project = "maxmargin"
author = "The maxmargin developers"
copyright = author
version = release = maxmargin.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # its files are part of the site
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
nitpicky = False
default_role = "code"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "maxmargin"
html_static_path = ["_static"]
html_extra_path = ["extra", "llms.txt"]  # copied to the top of the site
html_css_files = ["maxmargin.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "maxmargin"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    # Code needs the whole width.
    "secondary_sidebar_items": {"gallery/**": []},
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}
html_sidebars = {"index": [], "start": [], "choose": [], "theorems": [], "gallery/index": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def has_electricity() -> bool:
    folder = os.environ.get("MAXMARGIN_DATA")
    return bool(folder) and (Path(folder) / "electricity" / "elecNormNew.arff.gz").exists()


# Examples that need data which are not here are shown, but not run.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_" if has_electricity() else r"plot_(?!electricity)",
    "download_all_examples": False,
    # Notebooks run in Colab and JupyterLab as they are.
    "first_notebook_cell": "%pip install --quiet 'maxmargin[all]'\n%matplotlib inline",
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,  # such a page loads scripts from elsewhere
    "show_signature": False,
    "min_reported_time": 600,
    "backreferences_dir": "api/examples",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "doc_module": ("maxmargin",),
}
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")

# Names of other libraries that the pages link to. Their own inventories would have to be fetched;
# the addresses of their pages follow from the names.
ELSEWHERE = {
    "sklearn": (
        "https://scikit-learn.org/stable/",
        "modules/generated/{name}.html#{name}",
        """sklearn.calibration.CalibratedClassifierCV sklearn.compose.ColumnTransformer
        sklearn.exceptions.ConvergenceWarning sklearn.feature_extraction.text.HashingVectorizer
        sklearn.linear_model.PassiveAggressiveClassifier sklearn.linear_model.Perceptron
        sklearn.linear_model.SGDClassifier sklearn.model_selection.GridSearchCV
        sklearn.pipeline.Pipeline sklearn.preprocessing.StandardScaler sklearn.svm.LinearSVC
        sklearn.svm.SVC""",
    ),
    "numpy": (
        "https://numpy.org/doc/stable/",
        "reference/generated/{name}.html#{name}",
        "numpy.ndarray numpy.memmap numpy.load",
    ),
}
# Labels that docstrings which we inherit refer to.
LABELS = {
    "sklearn": "accuracy_score std:label -1 "
    "modules/model_evaluation.html#accuracy-score Accuracy score\n"
}


def write_inventories() -> dict[str, tuple[str, str]]:
    """Inventories, in Sphinx's format, of the names in ``ELSEWHERE``."""
    folder = HERE / "_build" / "inventories"
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for library, (address, page, names) in ELSEWHERE.items():
        head = f"# Sphinx inventory version 2\n# Project: {library}\n# Version: stable\n"
        head += "# The remainder of this file is compressed using zlib.\n"
        lines = LABELS.get(library, "") + "".join(
            f"{name} py:{kind_of(name)} 1 {page.format(name=name)} -\n" for name in names.split()
        )
        file = folder / f"{library}.inv"
        file.write_bytes(head.encode() + zlib.compress(lines.encode()))
        mapping[library] = (address, str(file))
    return mapping


def kind_of(name: str) -> str:
    last = name.rpartition(".")[2]
    return "class" if last[0].isupper() or last in ("ndarray", "memmap") else "function"


intersphinx_mapping = write_inventories()


def write_reproduction() -> None:
    """The page of the last full run of ``maxmargin reproduce``, from what was kept of it."""
    kept = gzip.decompress((HERE / "reproduction.json.gz").read_bytes()).decode()
    (HERE / "extra" / "reproduction.html").write_text(render_kept(kept), "utf-8")


def let_pictures_scroll(_app: Sphinx, page: str, _template: str, context: Any, _tree: Any) -> None:
    """Pictures of the gallery are as wide as those of other pages, and scroll on a phone."""
    if page.startswith("gallery/") and "body" in context:
        picture = r'<img [^>]*class = "sphx-glr-single-img"[^>]*>'
        wide = r'<div class="wide-picture">\g<0></div>'
        context["body"] = re.sub(picture, wide, context["body"])


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", let_pictures_scroll)
    app.connect("builder-inited", lambda _: write_reproduction())
    app.connect("builder-inited", lambda _: pictures.draw(HERE / "_static" / "pictures"))
