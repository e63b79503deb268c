"""The command with data at addresses and in folders."""

import importlib

import pytest

from maxmargin import persistence

fsspec = pytest.importorskip("fsspec")
pa = pytest.importorskip("pyarrow")
parquet = importlib.import_module("pyarrow.parquet")
ROWS = "".join(
    f"{k % 2} 1:{k % 2 * 2 - 1 + 0.1 * (k % 7)} 2:{k % 5}\n" for k in range(200)
).encode()


@pytest.fixture
def address():
    memory = fsspec.filesystem("memory")
    memory.pipe("/rows.svm", ROWS)
    yield "memory://rows.svm"
    memory.rm("/rows.svm")


def test_fit_predict_and_evaluate(address, command, report, tmp_path):
    (tmp_path / "rows.svm").write_bytes(ROWS)
    model, local = tmp_path / "model.mm", tmp_path / "local.mm"
    learned = report("fit", address, "--model", model, "--test", address)
    assert learned["data"] == learned["test"]["data"] == address
    assert learned["mistakes"] == report("fit", tmp_path / "rows.svm", "--model", local)["mistakes"]
    assert model.read_bytes() == local.read_bytes()
    _, there, _ = command("predict", model, address)
    _, here, _ = command("predict", model, tmp_path / "rows.svm")
    assert there == here != ""
    assert report("evaluate", model, address)["rows"] == report("evaluate", address)["rows"] == 200


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "{none}"),
        ("fit", "{rows}", "--test", "{none}"),
        ("evaluate", "{none}"),
        ("predict", "{model}", "{none}"),
    ],
)
def test_addresses_where_nothing_is(arguments, address, command, report, tmp_path):
    report("fit", address, "--model", tmp_path / "model.mm")
    places = {"none": "memory://none.svm", "rows": address, "model": tmp_path / "model.mm"}
    code, printed, errors = command(*(each.format(**places) for each in arguments))
    assert (code, printed) == (1, "")
    assert errors.startswith("maxmargin: memory://none.svm: ")


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
