"""The command with data at addresses and in folders."""

import importlib

import pytest

from maxmargin import persistence

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")
pa = pytest.importorskip("pyarrow")
parquet = importlib.import_module("pyarrow.parquet")
web = importlib.import_module("streams.web")


@pytest.fixture
def site():
    with web.a_site() as site:
        yield site


ROWS = "".join(
    f"{k % 2} 1:{k % 2 * 2 - 1 + 0.1 * (k % 7)} 2:{k % 5}\n" for k in range(200)
).encode()


def test_fit_test_predict_and_evaluate(site, command, report, tmp_path):
    site.files = {"rows.svm": ROWS, "more.svm": ROWS[: len(ROWS) // 2].rpartition(b"\n")[0] + b"\n"}
    (tmp_path / "rows.svm").write_bytes(ROWS)
    secret = site.url("rows.svm").replace("//", "//me:secret@") + "?token=abcdef"
    model, checkpoint = tmp_path / "model.mm", tmp_path / "checkpoint"
    learned = report(
        *("fit", secret, "--model", model, "--checkpoint", checkpoint, "--every", 50),
        *("--test", site.url("more.svm")),
    )
    assert learned["data"] == site.url("rows.svm") + "?..."
    assert learned["test"]["data"] == site.url("more.svm")
    local = report("fit", tmp_path / "rows.svm", "--model", tmp_path / "local.mm")
    assert learned["mistakes"] == local["mistakes"]
    assert model.read_bytes() == (tmp_path / "local.mm").read_bytes()
    for path in (model, checkpoint):
        assert b"secret" not in path.read_bytes()
    _, shown, _ = command("info", model)
    assert "secret" not in shown
    _, there, _ = command("predict", model, site.url("rows.svm"))
    _, here, _ = command("predict", model, tmp_path / "rows.svm")
    assert there == here != ""
    tested = report("evaluate", model, site.url("rows.svm"))
    assert tested["rows"] == report("evaluate", site.url("rows.svm"))["rows"] == 200


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "{none}"),
        ("fit", "{rows}", "--test", "{none}"),
        ("evaluate", "{none}"),
        ("predict", "{model}", "{none}"),
    ],
)
def test_addresses_where_nothing_is(arguments, site, command, report, tmp_path):
    site.files = {"rows.svm": ROWS}
    report("fit", site.url("rows.svm"), "--model", tmp_path / "model.mm")
    none = site.url("none.svm").replace("//", "//me:secret@")
    places = {"none": none, "rows": site.url("rows.svm"), "model": tmp_path / "model.mm"}
    code, printed, errors = command(*(each.format(**places) for each in arguments))
    assert (code, printed) == (1, "")
    assert errors == f"maxmargin: {site.url('none.svm')}: No such file or directory\n"


def test_a_package_that_is_missing_is_named(command, monkeypatch):
    known = importlib.import_module("fsspec.registry").known_implementations
    monkeypatch.setitem(known, "far", {"class": "nosuch.FS", "err": "Install farfs to get there"})
    code, _, errors = command("fit", "far://there/rows.svm")
    assert (code, errors) == (1, "maxmargin: far://there/rows.svm: Install farfs to get there\n")


def test_a_folder_of_parquet_files(command, report, tmp_path):
    for year in (2024, 2025):
        folder = tmp_path / f"rows/year={year}"
        folder.mkdir(parents=True)
        table = pa.table({"x": [0.5, -1.0, 2.0] * 20, "label": ["a", "b", "a"] * 20})
        parquet.write_table(table, folder / "part.parquet")
    model, rows = tmp_path / "model.mm", str(tmp_path / "rows")
    assert report("fit", rows, "--model", model, "--test", rows)["rows"] == 120
    assert [each["name"] for each in persistence.load(model).recipe_.columns_] == ["x", "year"]
    for place, times in (("*/part.parquet", 40), ("year=2025", 20), ("year=2025/*.parquet", 20)):
        code, printed, _ = command("predict", model, f"{rows}/{place}")
        assert (code, printed.splitlines()) == (0, ["a", "b", "a"] * times)
