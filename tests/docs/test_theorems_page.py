"""The page of theorems: it names them all, its examples run, and its pictures keep to them."""

import doctest
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import maxmargin

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "theorems.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not installed")


def page():
    return PAGE.read_text("utf-8")


def learners():
    return [getattr(maxmargin, name) for name in maxmargin.ALGORITHMS]


def theorems(learner):
    """The functions that compute theorems: all public ones that need no learner to be called."""
    static = (name for name, one in vars(learner).items() if isinstance(one, staticmethod))
    return sorted(name for name in static if not name.startswith("_"))


def all_theorems():
    return {f"{each.__name__}.{name}" for each in learners() for name in theorems(each)}


@pytest.fixture(scope="module")
def pictures():
    """The package that draws, and its module about theorems."""
    pytest.importorskip("matplotlib")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        import pictures

        yield pictures
    for name in [name for name in sys.modules if name.partition(".")[0] == "pictures"]:
        del sys.modules[name]


def drawings(pictures):
    return [each for each in pictures.PICTURES if each.__module__ == "pictures.theorems"]


@pytest.fixture(scope="module")
def panels(pictures):
    """The panels of all pictures."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pictures.theorems, "_drawn", lambda *checks: found.extend(checks))
        for picture in drawings(pictures):
            picture()
    return found


# -------------------------------------------------------------------------------------------- names
def test_links_to_every_theorem_and_to_no_other():
    linked = set(re.findall(r"\{meth\}`[^<`]*<maxmargin\.(\w+\.\w+)>`", page()))
    assert linked - {"NORMA.tuned"} == all_theorems()


def test_theorems_are_static_methods():
    """So that none is left out above."""
    for learner in learners():
        found = {
            name
            for name in dir(learner)
            if re.fullmatch(r"max_\w+|\w+_bound|margin_fraction|distortion|stepwise_from", name)
            and callable(getattr(learner, name, None))
        }
        assert found <= set(theorems(learner))


def test_links_to_proofs_that_exist():
    headings = re.findall(r"^##+ (.+)$", (DOCS / "theory.md").read_text("utf-8"), re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
    linked = re.findall(r"\(theory\.md#([^)]+)\)", page())
    assert len(linked) > 5
    assert set(linked) <= anchors


# ----------------------------------------------------------------------------------------- examples
def test_examples_print_what_they_say():
    blocks = re.findall(r"^```python\n(.*?)^```$", page(), re.DOTALL | re.MULTILINE)
    names, runner = {}, doctest.DocTestRunner(verbose=False)
    for number, block in enumerate(blocks, 1):
        test = doctest.DocTestParser().get_doctest(block, names, f"block {number}", str(PAGE), 0)
        assert test.examples
        runner.run(test, clear_globs=False)
        names = test.globs
    assert runner.failures == 0
    assert runner.tries > 50


# ----------------------------------------------------------------------------------------- pictures
def test_pictures_keep_to_the_theorems(panels):
    assert len(panels) == 46
    for check in panels:
        assert check.holds(), check.title
        for bound in check.proved.values():
            assert bound.shape == check.observed.shape == check.at.shape
            assert np.isfinite(bound).all()


def test_a_check_can_fail(panels):
    ones = np.ones(2)
    few = panels[0]._replace(proved={"one": ones, "two": 2.0 * ones}, observed=0.5 * ones)
    assert few._replace(is_floor=False).holds()
    assert few._replace(is_floor=False, observed=ones).holds()
    assert not few._replace(is_floor=False, observed=np.array([0.5, 1.1])).holds()
    assert not few._replace(is_floor=True, observed=np.array([2.0, 1.9])).holds()
    assert few._replace(is_floor=True, observed=np.array([2.0, 2.5])).holds()


def test_every_bound_is_drawn(panels):
    """But for what only helps to call another one."""
    drawn = {
        f"{re.match('[A-Za-z]+', one.title)[0]}.{name}" for one in panels for name in one.proved
    }
    helpers = {"PUMMA.distortion", "Forgetron.max_norm"}
    helpers |= {f"DirectionalPerceptron.{name}" for name in ("step_spread", "best_rate")}
    in_words = {"DirectionalPerceptron.critical_rate", "NOCA.max_founding_errors"}
    assert all_theorems() - drawn == helpers | in_words


def test_every_picture_is_on_the_page_in_both_themes(pictures):
    names = [each.__name__.replace("_", "-") for each in drawings(pictures)]
    for theme in ("light", "dark"):
        shown = re.findall(
            rf"^```{{image}} _static/pictures/(.+)-{theme}\.svg\n:alt: .+\n:class: only-{theme}$",
            page(),
            re.MULTILINE,
        )
        assert sorted(shown) == sorted(names)


def test_pictures_are_drawn(pictures, tmp_path):
    chosen = (pictures.theorems.relaxation, pictures.theorems.columns)
    pictures.draw(tmp_path, chosen)
    assert len(list(tmp_path.iterdir())) == 2 * len(chosen)
    assert "max_updates_paper" in (tmp_path / "relaxation-dark.svg").read_text("utf-8")
