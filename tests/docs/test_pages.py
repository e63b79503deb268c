"""Every block of code in README.md and docs/ is run, and prints what the page shows.

The blocks of a page run one after the other, in one empty folder and in one namespace:

- ``python``: comments directly below a statement that prints are what it prints. A block with
  ``>>>`` is a doctest.
- ``console``: commands begin with ``$``; what follows is their output, errors included. A command
  without shown output may print anything.
- ``sh``: commands alone.
- ``text``, other languages and indented blocks are not meant to be run: formulas, files, output.

A server that a page starts (``maxmargin serve``) runs until the page ends or starts another, and
at another address than the page says.

``...`` stands for any output, and times, rates and our version may be others than shown. A block
that cannot be run says why, in a comment on the line before that readers do not see:
``<!-- not run: installs -->``.
"""

from __future__ import annotations

import ast
import doctest
import functools
import importlib
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("markdown_it")
from docs.markup import DOCS, ROOT, blocks, words_of_code

from maxmargin.client import Client

PAGES = [*DOCS, *filter(Path.exists, [ROOT / "README.md"])]
REAL_DATA = "needs real data"  # such blocks run where the data are
REASONS = {"needs a GPU", REAL_DATA, "installs", "runs for hours", "another program"}
VARYING = re.compile(
    r"(\d+ min )?[\d.,]+ m?s\b|[\d.]+ [kM]B\b|[\d,]+ rows/s|(?<=seconds\": )[\d.]+"
    r"|(?<=_second\": )\d+|(?<=maxmargin )\d+\.\d+\.\w+"
)
ADDRESS = "http://127.0.0.1:8765"  # where servers on pages are
COMMANDS = ("$ ", "maxmargin ", "python ", "pip ")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, terminals of one width, and pictures that nobody looks at."""
    for package in ("pandas", "pyarrow", "typer"):
        pytest.importorskip(package)
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    yield tmp_path
    pyplot.close("all")


@pytest.mark.unseeded
@each_page
def test_blocks_run_and_print_what_is_shown(page, folder, monkeypatch, capsys):
    if page.name == "tables.md":
        write_customers(folder, monkeypatch)
    if page.name == "river.md":
        pytest.importorskip("river")
    if page.name in {"serve.md", "production.md"}:
        for package in ("starlette", "uvicorn", "httptools", "msgspec"):
            pytest.importorskip(package)
    names = {"__name__": "__main__"}
    with Shell(monkeypatch, capsys) as shell:
        run_blocks(page, shell, names, capsys)
    for picture in folder.glob("*.png"):
        assert picture.stat().st_size > 5000, picture.name


def run_blocks(page, shell, names, capsys):
    for block in map(shell.addressed, blocks(page)):
        if block.reason and (block.reason != REAL_DATA or "MAXMARGIN_DATA" not in os.environ):
            continue
        where = f"{page.name}:{block.line}"
        if block.language == "python":
            if ">>>" in block.text:
                run_doctest(block, names, where)
            else:
                run_python(block, names, where, capsys)
        elif block.language == "console":
            for command, shown in transcript(block.text):
                shell.compare(command, shown, where)
        elif block.language == "sh":
            for command in filter(None, block.text.replace("\\\n", "").splitlines()):
                shell.compare(command, "", where)


@each_page
def test_blocks_that_are_not_run_are_few_and_say_why(page):
    shown = [block for block in blocks(page) if block.language in {"python", "console", "sh"}]
    reasons = [block.reason for block in blocks(page) if block.reason]
    assert set(reasons) <= REASONS
    assert len(reasons) <= len(shown) / 2, "more than half of the page is not run"


@each_page
def test_no_command_hides_where_it_is_not_run(page):
    """Commands stand in blocks that are run; of `make` it is enough that it knows the target."""
    for block in blocks(page):
        assert not block.language.startswith("{code"), "MyST's own blocks are not run"
        if block.language in {"", "text"}:
            for line in block.text.splitlines():
                assert not line.startswith(COMMANDS), f"{page.name}:{block.line}: {line}"
        targets = re.findall(r"^(?:\$ )?make ([\w-]+)", block.text, re.MULTILINE)
        for target in targets:
            assert f"\n{target}:" in (ROOT / "Makefile").read_text("utf-8")


def test_options_exist(folder, monkeypatch, capsys):
    """Of commands in the text, and in blocks that are not run, too."""
    shell = Shell(monkeypatch, capsys)
    line = re.compile(r"^(?:\$ )?(?:.*\| )?maxmargin ([a-z]+)([^|\n]*)", re.MULTILINE)
    help_of = functools.cache(lambda name: shell.maxmargin(f"maxmargin {name} --help"))
    for page in PAGES:
        texts = words_of_code(page)
        texts += [block.text for block in blocks(page) if block.language in {"console", "sh"}]
        for name, arguments in line.findall("\n".join(texts).replace("\\\n", " ")):
            code, known, _ = help_of(name)
            assert code == 0, f"{page.name}: maxmargin {name}"
            for option in re.findall(r"(?<!\S)--[\w-]+", arguments):
                assert re.search(rf"{option}\b(?!-)", known), f"{page.name}: {name} {option}"


def write_customers(folder, monkeypatch):
    """The table that pages speak of, and one to test on."""
    monkeypatch.syspath_prepend(ROOT)
    customers = importlib.import_module("benchmarks.customers")
    customers.write(folder / "customers.csv", rows=20_000, seed=0)
    customers.write(folder / "new.csv", rows=5_000, seed=1)


def run_python(block, names, where, capsys):
    """Statement by statement, to see what each of them prints."""
    tree = ast.parse(block.text, where)
    lines = block.text.splitlines()
    ast.increment_lineno(tree, block.line)
    for statement in tree.body:
        exec(compile(ast.Module([statement], []), where, "exec"), names)
        printed = capsys.readouterr().out
        comments = []
        for line in lines[statement.end_lineno - block.line :]:
            if not line.startswith("#"):
                break
            comments.append(line[1:].removeprefix(" "))
        if printed and comments:
            compare("\n".join(comments), printed, f"{where}, line {statement.end_lineno + 1}")


def run_doctest(block, names, where):
    example = doctest.DocTestParser().get_doctest(block.text, names, where, where, block.line)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    report = []
    runner.run(example, out=report.append, clear_globs=False)
    assert not runner.failures, "".join(report)
    names.update(example.globs)


def transcript(text):
    """Commands, and what is shown of their output."""
    commands = []
    for line in text.replace("\\\n", "").splitlines():
        if line.startswith("$ "):
            commands.append([line.removeprefix("$ "), ""])
        else:
            commands[-1][1] += line + "\n"
    return commands


def compare(shown, printed, where):
    wanted, got = (
        "".join(line.rstrip() + "\n" for line in VARYING.sub("#", text).strip().splitlines())
        for text in (shown, printed)
    )
    same = doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS)
    assert same, f"{where} shows\n{shown}\nand this is printed:\n{printed}"


class Shell:
    """Runs pipelines. Our command runs in this process, where it is loaded already."""

    def __init__(self, monkeypatch, capsys):
        self.monkeypatch = monkeypatch
        self.capsys = capsys
        self.server = None
        self.address = ADDRESS

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def addressed(self, block):
        """The block, with the address that the server really has."""
        return block._replace(text=block.text.replace(ADDRESS, self.address))

    def serve(self, program, given):
        """Starts a server, after the one that runs has stopped."""
        self.stop()
        command = [sys.executable, "-m", *shlex.split(program), "--port", "0"]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        said = self.server.stdout.readline()
        self.address = said.removeprefix("Serving on ").strip()
        with Client(self.address) as client:
            while not client.is_ready():
                assert self.server.poll() is None
                time.sleep(0.05)
        return 0, said.replace(self.address, ADDRESS), ""

    def stop(self):
        if self.server is not None:
            self.server.terminate()
            with self.server.stdout:
                assert self.server.wait(60) == 0
            self.server = None

    def compare(self, command, shown, where):
        code, printed = self.run(command)
        refused = shown.startswith("maxmargin: ")
        assert (code != 0) == refused, f"{where}: {command}\n{printed}"
        if shown:
            compare(shown, printed, f"{where}: {command}")

    def run(self, command):
        """The exit code of the last program, and what is printed, complaints last."""
        code, printed, complaints = 0, "", ""
        for program in command.replace(" > ", " | cat > ").split(" | "):
            run = self.maxmargin if program.startswith("maxmargin ") else self.other
            if program.startswith("maxmargin serve "):
                run = self.serve
            code, printed, errors = run(program, printed)
            complaints += errors
        return code, printed + complaints

    def maxmargin(self, program, given=""):
        from maxmargin.cli import main

        source = Path("stdin")
        source.write_text(given, "utf-8")
        self.monkeypatch.setattr(sys, "argv", shlex.split(program, comments=True))
        with source.open(encoding="utf-8") as stdin:
            self.monkeypatch.setattr(sys, "stdin", stdin)
            with pytest.raises(SystemExit) as end:
                main()
        source.unlink()
        return end.value.code or 0, *self.capsys.readouterr()

    def other(self, program, given):
        done = subprocess.run(program, shell=True, input=given, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr
