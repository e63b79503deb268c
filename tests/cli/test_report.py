"""The page about a model and its errors."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import maxmargin
from maxmargin import AMIRA, AutoMargin, ConformalClassifier
from maxmargin.cli.report import MISTAKES, SAMPLE, SEED

pytest.importorskip("jinja2")


class Page(HTMLParser):
    """The texts of a page, the cells of its tables, and whether its elements are closed."""

    VOID = ("meta", "path", "circle")

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.lines, self.links = [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.links += [value for name, value in attributes if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.lines.append([])

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open or not data.strip():
            return
        self.texts.append(data.strip())
        if self.open[-1] in ("td", "th"):
            self.lines[-1].append(data.strip())


@pytest.fixture
def page(command, tmp_path):
    def write(model, rows, *options):
        out = tmp_path / "report.html"
        assert command("report", model, rows, "-o", out, *options) == (
            0,
            f"The page is {out}.\n",
            "",
        )
        return Page(out.read_text(encoding="utf-8"))

    return write


@pytest.fixture
def shop(tmp_path):
    """A table whose labels depend on words and on a number, with some that are wrong."""
    random = np.random.default_rng(0)
    lines = []
    for k in range(600):
        word, spent = ("slow", 10.0) if random.random() < 0.4 else ("fine", 90.0)
        spent += random.normal(scale=3.0)
        leaves = (word == "slow") != (random.random() < 0.05)
        lines.append(f"{k},{spent:.1f},{word} <b>bill</b>,{'yes' if leaves else 'no'}")
    names = "id,spent,comment,leaves"
    for name, some in (("train", lines[:400]), ("test", lines[400:])):
        (tmp_path / f"{name}.csv").write_text("\n".join([names, *some, ""]))
    return tmp_path


@pytest.fixture
def churn(command, shop):
    model = shop / "churn.mm"
    options = ("--label", "leaves", "--drop", "id", "--kind", "comment=text", "-m", model)
    assert command("fit", shop / "train.csv", *options)[0] == 0
    return model


def test_numbers_are_those_of_evaluate(page, report, churn, shop):
    found = page(churn, shop / "test.csv")
    numbers = report("evaluate", churn, shop / "test.csv")
    assert f"{100 * numbers['accuracy']:.2f} %" in found.texts
    bound = float(found.texts[found.texts.index("expected error at most") + 1].split()[0])
    assert numbers["error_bound"] <= bound / 100 <= numbers["error_bound"] + 1e-4
    confusion = [[str(cell) for cell in line] for line in numbers["confusion"]]
    assert ["no", *confusion[0]] in found.lines
    assert ["yes", *confusion[1]] in found.lines


def test_the_page_loads_nothing(page, churn, shop):
    page(churn, shop / "test.csv")
    text = (shop / "report.html").read_text(encoding="utf-8")
    assert "http" not in re.sub("http-equiv", "", text)
    assert "<script" not in text
    assert Page(text).links == []


def test_cells_of_the_file_are_text(page, churn, shop):
    texts = page(churn, shop / "test.csv").texts
    assert any("<b>bill</b>" in text for text in texts)


def test_calibration_counts_all_rows(page, churn, shop):
    lines = page(churn, shop / "test.csv").lines
    bins = [line for line in lines if re.fullmatch(r"\d+ to \d+ %", line[0] if line else "")]
    assert sum(int(line[1]) for line in bins) == 200


def test_mistakes_are_those_of_the_file(page, churn, shop):
    clf = maxmargin.load(churn)
    texts = page(churn, shop / "test.csv").texts
    heads = [text for text in texts if text.startswith("Row ")]
    lines = (shop / "test.csv").read_text().splitlines()[1:]
    shares = []
    for head in heads:
        place, truth, label, share = re.fullmatch(
            r"Row (\d+): (\w+), predicted (\w+) with probability ([\d.]+) %", head
        ).groups()
        _, spent, comment, there = lines[int(place) - 1].split(",")
        assert (there, label) == (truth, {"yes": "no", "no": "yes"}[truth])
        row = {"id": None, "spent": float(spent), "comment": comment}
        assert clf.predict_one(row) == label
        assert max(clf.predict_proba_one(row).values()) == pytest.approx(
            float(share) / 100, abs=1e-4
        )
        shares.append(float(share))
    assert shares == sorted(shares, reverse=True)
    assert 1 < len(heads) <= MISTAKES


def test_rows_that_are_skipped_move_no_place(command, churn, shop):
    lines = (shop / "test.csv").read_text().splitlines()
    (shop / "bad.csv").write_text("\n".join([lines[0], *["1,oh,x,no"] * 7, *lines[1:], ""]))
    heads = []
    for name in ("test", "bad"):
        out = shop / f"{name}.html"
        assert command("report", churn, shop / f"{name}.csv", "-o", out, "--skip-errors")[0] == 0
        heads.append(re.findall(r"Row (\d+):", out.read_text(encoding="utf-8")))
    assert [int(place) + 7 for place in heads[0]] == list(map(int, heads[1]))
    assert "7 rows could not be read" in out.read_text(encoding="utf-8")


def test_columns_of_a_linear_learner(page, rows, folder, tmp_path):
    X, _ = rows
    clf = AMIRA(random_state=0).fit_stream(folder / "rows.svm")
    maxmargin.save(clf, tmp_path / "m.mm")
    texts = page(tmp_path / "m.mm", folder / "rows.svm").texts
    chosen = np.random.default_rng(SEED).random(len(X)).argsort()[:SAMPLE]
    sizes = np.abs(clf.coef_[0] * X[chosen]).mean(axis=0)
    order = np.argsort(-sizes)
    first = texts.index(f"column {order[0] + 1}")
    expected = [text for k in order for text in (f"column {k + 1}", f"{sizes[k]:.3g}")]
    assert texts[first : first + len(expected)] == expected


def test_many_classes(page, tmp_path):
    random = np.random.default_rng(2)
    y = random.integers(12, size=300)
    X = np.eye(12)[y] + 0.4 * random.normal(size=(300, 12))
    text = "".join(
        f"{label} " + " ".join(f"{k}:{value:.3f}" for k, value in enumerate(x, 1)) + "\n"
        for label, x in zip(y, X, strict=True)
    )
    (tmp_path / "rows.svm").write_text(text)
    clf = ConformalClassifier(AutoMargin()).fit_stream(tmp_path / "rows.svm")
    maxmargin.save(clf, tmp_path / "m.mm")
    texts = page(tmp_path / "m.mm", tmp_path / "rows.svm").texts
    assert "The most frequent confusions of 12 classes:" in texts
    assert str(clf.coverage_) in texts


def test_a_pipe_is_refused(command, churn, shop, from_stdin):
    from_stdin(shop / "test.csv")
    code, _, errors = command("report", churn, "-", "-o", shop / "r.html", "--format", "csv")
    assert (code, errors) == (
        2,
        "maxmargin: <stdin> can be read only once: report needs a file.\n",
    )
    assert not (shop / "r.html").exists()


def test_the_model_is_not_overwritten(command, churn, shop):
    before = churn.read_bytes()
    assert command("report", churn, shop / "test.csv", "-o", churn)[0] == 2
    assert churn.read_bytes() == before
