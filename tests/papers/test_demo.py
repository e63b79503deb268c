"""The demo in a small form: what it trains, what it draws, what it prints."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from papers.whole_pages import assert_whole
from sklearn.exceptions import ConvergenceWarning

import maxmargin
from maxmargin import Certificate
from maxmargin_papers.demo import demo_problems, demo_tables, demo_training, run

DOCS = Path(__file__).parents[2] / "docs"


def silent(amount, note=""):
    """Show no progress."""


@pytest.fixture(scope="module")
def tiny_problems():
    return [
        demo_problems.r_of_k(rows=60, passes=4),
        demo_problems.plane(rows=30, passes=4),
        demo_problems.breast_cancer(passes=2),
    ]


@pytest.fixture(scope="module")
def page(tiny_problems, tmp_path_factory):
    """The page that all learners make of the tiny problems."""
    out = tmp_path_factory.mktemp("demo") / "page.html"
    run(out, tiny_problems)
    return out.read_text(encoding="utf-8")


# ------------------------------------------------------------------------------- what is trained
def test_every_online_learner_with_a_certificate_takes_part():
    public = [getattr(maxmargin, name) for name in maxmargin.__all__]
    classifiers = {
        thing.__name__
        for thing in public
        if inspect.isclass(thing) and hasattr(thing, "facts") and thing.facts.certificate
        if getattr(thing, "kernel", "linear") == "linear" and hasattr(thing(), "partial_fit")
        if "soft_margin" in thing().get_params()
    }
    assert set(demo_training.all_learners()) == classifiers
    assert "ROMMA" in classifiers


def test_test_rows_are_not_training_rows():
    for problem in demo_problems.all_problems():
        seen = {row.tobytes() for row in problem.X}
        assert not any(row.tobytes() in seen for row in problem.X_test)


def test_solvers_come_first_and_online_learners_by_certificate(tiny_problems):
    outcomes = demo_training.train(tiny_problems[0], ["Perceptron", "ROMMA", "AMIRA"], silent)
    assert [one.name for one in outcomes[:2]] == ["MaxMargin", "LinearSVC"]
    ratios = [one.certificate.ratio for one in outcomes[2:]]
    assert ratios == sorted(ratios, reverse=True)
    assert {one.name for one in outcomes[2:]} == {"Perceptron", "ROMMA", "AMIRA"}


def test_settings_are_chosen_by_certificate(tiny_problems):
    problem = tiny_problems[0]
    *_, chosen = demo_training.train(problem, ["AMIRA"], silent)
    tried = demo_training.settings_to_try("AMIRA", problem, 1.0)
    assert len(tried) > 1
    assert chosen.settings in tried
    shared = {"max_iter": problem.passes, "shuffle": False, "intercept_scaling": problem.radius}
    with pytest.warns(ConvergenceWarning):
        ratios = [
            maxmargin.AMIRA(**one, **shared).fit(problem.X, problem.y).certificate_.ratio
            for one in tried
        ]
    assert chosen.certificate.ratio == max(ratios)


def test_margins_of_real_data_are_soft_for_all_learners():
    problem = demo_problems.breast_cancer(passes=2)
    mean_square = np.mean(np.linalg.norm(problem.X, axis=1) ** 2)
    assert problem.soft_margin == pytest.approx(mean_square, rel=0.05)
    exact, svm, *others = demo_training.train(problem, ["PUMMA", "AMIRA"], silent)
    assert [one.clf.soft_margin for one in (exact, *others)] == [problem.soft_margin] * 3
    assert svm.settings["C"] == pytest.approx(0.5 / problem.soft_margin)
    assert 0.999 <= exact.certificate.ratio < 1.0


def test_a_soft_margin_is_certified_for_classifiers_from_elsewhere():
    """With rows that have a coordinate of their own, the margin is 1 / |w| there."""
    problem = demo_problems.breast_cancer()
    exact, svm = demo_training.train(problem, [], silent)
    signs = np.where(problem.y == 1, 1.0, -1.0)
    lacking = np.maximum(0.0, 1.0 - signs * svm.clf.decision_function(problem.X))
    square = np.sum(svm.clf.coef_**2) + lacking @ lacking / problem.soft_margin
    assert svm.certificate.margin == pytest.approx(square**-0.5, rel=1e-6)
    assert svm.certificate.margin <= exact.certificate.bound
    assert exact.certificate.margin <= svm.certificate.bound
    assert svm.certificate.ratio > 0.98


@pytest.mark.parametrize("name", ["ROMMA", "Perceptron", "NORMA", "AMIRA"])
def test_replay_ends_where_fit_ended(name, tiny_problems):
    problem = tiny_problems[0]
    *_, one = demo_training.train(problem, [name], silent)
    last = one.moments[-1]
    assert last.updates == one.clf.n_updates_
    assert last.bound == one.clf.certificate_.bound  # to the bit
    assert last.margin == pytest.approx(one.clf.certificate_.margin, rel=1e-12)


def test_no_bound_of_a_run_is_below_a_margin_of_any_run(tiny_problems):
    outcomes = demo_training.train(tiny_problems[0], ["ROMMA", "Perceptron", "AMIRA"], silent)
    moments = [moment for one in outcomes for moment in one.moments]
    margins = [m.margin for m in moments] + [one.certificate.margin for one in outcomes]
    assert min(m.bound for m in moments) >= max(margins)
    for one in outcomes:
        updates = [moment.updates for moment in one.moments]
        assert updates == sorted(updates)


# -------------------------------------------------------------------------------- what is printed
class Learner(SimpleNamespace):
    """Whatever is asked of a learner."""


def outcome(*certificates, converged=True, kind=Learner):
    """An outcome with one certificate, or with one per class."""
    if len(certificates) == 1:
        joined = certificates[0]
    else:
        worst = min(certificates, key=lambda one: one.ratio)
        joined = Certificate(worst.margin, worst.bound, certificates)
    clf = kind(n_iter_=7, n_updates_=1234, converged_=converged)
    return demo_training.Outcome({}, clf, joined, 0.0312, 0.0456)


def test_numbers_of_a_learner():
    assert demo_tables.cells(outcome(Certificate(0.9, 1.0))) == (
        "0.9000",
        "1.000",
        "90.00 %",
        "3.1 %",
        "7",
        "1,234",
        "46 ms",
    )
    assert len(demo_tables.cells(outcome(Certificate(0.9, 1.0)))) == len(demo_tables.HEADINGS)


@pytest.mark.parametrize(
    ("certificates", "text"),
    [
        ([Certificate(0.9, 1.0)], "90.00 %"),
        ([Certificate(-0.1, 1.0)], "-"),
        ([Certificate(0.9, 1.0), Certificate(0.3, 0.5), Certificate(0.5, 0.6)], "60.00 %"),
        ([Certificate(0.9, 1.0), Certificate(-0.1, 0.5), Certificate(0.5, 0.6)], "2 of 3"),
    ],
)
def test_certified(certificates, text):
    assert demo_tables.certified_text(outcome(*certificates)) == text


def test_what_all_runs_prove_together():
    runs = [outcome(Certificate(0.9, 1.5)), outcome(Certificate(0.2, 1.25))]
    assert demo_training.best_margin(runs) == (0.9, 1.25)
    assert "between 0.9 and 1.25" in demo_tables.what_is_proved(runs)
    exact = [outcome(Certificate(0.9, 0.90000001))]
    assert "between 0.9 and 0.9001" in demo_tables.what_is_proved(exact)
    failed = [outcome(Certificate(-0.9, 1.5)), outcome(Certificate(-0.2, 1.25))]
    assert "at most 1.25" in demo_tables.what_is_proved(failed)


def test_the_weakest_class_counts():
    one = outcome(Certificate(0.9, 1.0), Certificate(0.2, 0.4))
    other = outcome(Certificate(0.8, 1.1), Certificate(0.3, 0.5))
    assert demo_training.best_margin([one, other]) == (0.3, 0.4)
    assert "of the weakest class" in demo_tables.what_is_proved([one, other])


def test_tables_are_plain_and_fit_100_columns(tmp_path, tiny_problems, capsys, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    run(tmp_path / "page.html", tiny_problems)
    printed, errors = capsys.readouterr()
    assert errors == ""
    assert "\x1b" not in printed
    assert max(len(line) for line in printed.splitlines()[:-1]) <= 100
    assert "\N{HORIZONTAL ELLIPSIS}" not in printed  # nothing was cut off
    for name in (*demo_training.SOLVERS, *demo_training.all_learners()):
        assert len(re.findall(rf"^ {name}\(", printed, flags=re.MULTILINE)) == len(tiny_problems)
    assert printed.splitlines()[-1].endswith(f"The plots are in {tmp_path / 'page.html'}")


# ----------------------------------------------------------------------------------- what is drawn
def test_page_has_a_section_per_problem_with_every_learner(page, tiny_problems):
    sections = dict(re.findall(r'<section id="([^"]*)">(.*?)</section>', page, flags=re.DOTALL))
    assert list(sections) == [
        *("maxmargin", "online", "fair"),
        *(problem.slug for problem in tiny_problems),
        "next",
    ]
    for problem in tiny_problems:
        section = sections[problem.slug]
        assert f"<h2>{problem.name}</h2>" in section
        for name in (*demo_training.SOLVERS, *demo_training.all_learners()):
            assert f">{name}<" in section.replace("<wbr>", "")


def test_page_begins_with_definitions_and_ends_with_next_steps(page):
    terms = re.findall(r"<dt[^>]*>(.*?)</dt>\s*<dd>(.*?)</dd>", page, flags=re.DOTALL)
    assert [term for term, _ in terms] == ["Margin", "Bound", "Certificate", "Soft margin"]
    assert all(text.count(".") == 1 and text.endswith(".") for _, text in terms)
    assert page.index("<dl>") < page.index("<section")
    commands = re.findall(r"<code>maxmargin (\w+)", page[page.index('id="next"') :])
    assert {"fit", "algorithms", "reproduce"} <= set(commands)
    for name in re.findall(r"<code>docs/([^<]*)</code>", page):
        assert (DOCS / name).is_file()


def test_page_is_whole_and_pictures_have_its_font(page):
    assert_whole(page)
    body = page.partition("</head>")[2]
    assert "font-family" not in body
    assert ">margin of MaxMargin</text>" in body


def test_many_classes(tmp_path, capsys):
    run(tmp_path / "page.html", [demo_problems.digits(passes=2)], ["Perceptron"])
    printed = capsys.readouterr().out
    assert "of the weakest class" in printed
    assert re.search(r"Perceptron\(.*\d of 10", printed)
