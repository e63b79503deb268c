"""Recipes: features against naive references, any chunking to the bit, kinds, gaps, files."""

import datetime
import gzip
import io
import warnings

import numpy as np
import pytest
from extent import everything_or
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize

from maxmargin import Pegasos, Perceptron, load, save, streams
from maxmargin.evaluate import progressive
from maxmargin.streams import Recipe, StreamError
from maxmargin.streams.column_kinds import dates_of

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

# Most tables here have an identifier, which is left out with a warning.
pytestmark = pytest.mark.filterwarnings("ignore:column .* is left out")

CITIES = np.array(["Rome", "Ulm", "Łódź", "Bern"])


def raw_table(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.normal(40.0, 12.0, rows)
    age[rng.random(rows) < 0.1] = np.nan
    days = rng.integers(0, 900, rows)
    return pd.DataFrame(
        {
            "id": [f"c{seed}-{k}" for k in range(rows)],
            "age": age,
            "spent": [f"{x:.2f}" for x in np.exp(rng.normal(6.0, 2.0, rows))],
            "city": np.where(rng.random(rows) < 0.1, "", rng.choice(CITIES, rows)),
            "member": rng.choice(["true", "false"], rows),
            "since": (np.datetime64("2020-01-01") + days).astype(str),
            "note": [
                " ".join(rng.choice(["good", "Bad", "grüße", "so so", "late"], 6))
                for _ in range(rows)
            ],
            "y": rng.choice(["no", "yes"], rows),
        }
    )


def csv_of(table):
    return table.to_csv(index=False).encode()


def prepared(source):
    blocks = [sparse.csr_matrix(block.X) for block in source.blocks()]
    for X in blocks:  # they become wider
        X.resize(X.shape[0], blocks[-1].shape[1])
    return sparse.vstack(blocks).tocsr()


def of_buckets(recipe, X):
    """The hashed features, at their buckets."""
    running, found = recipe.running_, np.zeros((X.shape[0], 2**recipe.hash_bits))
    first = X.shape[1] - running.size()
    found[:, running.buckets] = X.toarray()[:, first + running.bucket_columns]
    return found


def same(X, Z):
    assert X.shape == Z.shape
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(X, name), getattr(Z, name))


# ------------------------------------------------------------------------------ naive references
def standardised_one_by_one(values):
    """Means and deviations of all values up to each, afresh each time."""
    out = []
    for k in range(len(values)):
        seen = [x for x in values[: k + 1] if not np.isnan(x)]
        x = values[k]
        deviation = np.std(seen) if seen else 0.0
        out.append(0.0 if np.isnan(x) or deviation == 0.0 else (x - np.mean(seen)) / deviation)
    return np.array(out)


numbers = st.lists(
    st.one_of(st.just(np.nan), st.floats(-1e6, 1e6), st.sampled_from([0.0, 1.0, 1e9])),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(numbers)
def test_running_standardisation_is_that_of_all_rows_so_far(values):
    X = np.array(values)[:, np.newaxis]
    kinds = {"x0": "number"}
    source = streams.open(X, np.zeros(len(values)), recipe=Recipe(kinds))
    Z = prepared(source).toarray()[:, 0]
    expected = standardised_one_by_one(values)
    # A deviation that is tiny beside the values is mostly rounding.
    np.testing.assert_allclose(Z, expected, rtol=1e-6, atol=1e-6 * max(1.0, np.abs(expected).max()))


def test_the_end_of_a_stream_is_standard_scaling():
    rng = np.random.default_rng(0)
    X = rng.normal(5.0, 3.0, (500, 4))
    recipe = Recipe().fit(X)
    np.testing.assert_allclose(recipe.transform(X), StandardScaler().fit_transform(X), atol=1e-10)


def test_sparse_rows_are_refused():
    for use in (Recipe().fit, lambda X: streams.open(X, np.arange(3), recipe=Recipe())):
        with pytest.raises(StreamError, match="a recipe takes no sparse rows: AutoMargin"):
            use(sparse.eye(3, format="csr"))


def test_words_are_those_of_scikit_learn():
    texts = ["Hello hello world a bc", "", None, "Grüße an Čapek x yy", "  ", "ab-cd_e 12 A_B"]
    recipe = Recipe({"t": "text"}, hash_bits=10).fit(pd.DataFrame({"t": texts}))
    analyse = HashingVectorizer().build_analyzer()
    hasher = FeatureHasher(2**10, input_type="string", alternate_sign=False)
    tokens = [[f"t={word}" for word in analyse(text or "")] for text in texts]
    expected = normalize(hasher.transform(tokens))
    found = of_buckets(recipe, recipe.transform(pd.DataFrame({"t": texts})))
    np.testing.assert_allclose(found, expected.toarray(), atol=1e-15)


def test_categories_have_columns_in_the_order_in_which_they_come():
    table = pd.DataFrame({"c": ["b", "a", "", "b", "c", "d", "NA"]})
    recipe = Recipe({"c": "category"}, max_categories=3)
    X = prepared(streams.open(table.assign(y=[0, 1] * 3 + [0]), recipe=recipe)).toarray()
    missing, other = 0, 1
    places = [2, 3, missing, 2, 4, other, missing]
    np.testing.assert_array_equal(X, np.eye(5)[places])
    fitted = clone(recipe).fit(table)
    assert fitted.get_feature_names_out().tolist() == [
        *("c is missing", "c is another", "c=b", "c=a", "c=c"),
    ]
    assert fitted.transform(pd.DataFrame({"c": ["new", "a"]})).toarray().tolist() == [
        [0, 1, 0, 0, 0],
        [0, 0, 0, 1, 0],
    ]


def test_dates_are_taken_apart():
    when = ["2020-01-31", "2021-12-06T23:59:00", "1969-12-31 00:00", None]
    recipe = Recipe({"d": "date"}, scale=False).fit(pd.DataFrame({"d": when}))
    row = dict(enumerate(recipe.get_feature_names_out()))
    found = recipe.transform(pd.DataFrame({"d": when}))
    names = [{row[k] for k in found[i].indices if k > 1} for i in range(4)]
    assert names == [
        {"d month 1", "d weekday 5", "d hour 0"},
        {"d month 12", "d weekday 1", "d hour 23"},
        {"d month 12", "d weekday 3", "d hour 0"},
        set(),
    ]
    ages = found[:, 0].toarray().ravel()
    days = (datetime.date(2020, 1, 31) - datetime.date(1970, 1, 1)).days
    assert ages[0] == days
    assert ages[2] == -1.0
    assert found[3, 1] == 1.0  # it is missing


@pytest.mark.parametrize("categories", ["one-hot", "hash"])
def test_interactions(categories):
    table = pd.DataFrame({"a": ["u", "v", "u"], "b": ["p", "p", "q"], "n": [1.0, 2.0, 3.0]})
    kinds = {"a": "category", "b": "category", "n": "number"}
    recipe = Recipe(
        kinds,
        scale=False,
        categories=categories,
        hash_bits=12,
        interactions=[("a", "b"), ("n", "a"), ("n", "n")],
    ).fit(table)
    X = of_buckets(recipe, recipe.transform(table))
    hasher = FeatureHasher(2**12, input_type="pair", alternate_sign=False)
    rows = [
        [(f"a={a}*b={b}", 1.0), (f"n*a={a}", n), ("n*n", n * n)]
        + ([(f"a={a}", 1.0), (f"b={b}", 1.0)] if categories == "hash" else [])
        for a, b, n in table.itertuples(index=False)
    ]
    np.testing.assert_allclose(X, hasher.transform(rows).toarray())


# ------------------------------------------------------------------------------------ what is what
def test_columns_are_taken_for_what_they_look_like():
    table = raw_table()
    table["count"] = range(len(table))
    table["same"] = "x"
    table["copy"] = table.y
    table["empty"] = ""
    source = streams.open(io.BytesIO(csv_of(table)), label="y", recipe=Recipe(), format="csv")
    found = {one["name"]: one for one in source.schema()["recipe"].columns_}
    kinds = {name: one["kind"] for name, one in found.items()}
    assert kinds == {
        "id": "drop",
        "age": "number",
        "spent": "number",
        "city": "category",
        "member": "boolean",
        "since": "date",
        "note": "text",
        "count": "drop",
        "same": "category",
        "copy": "category",
        "empty": "drop",
    }
    assert "identifier" in found["id"]["note"]
    assert "identifier" in found["count"]["note"]
    assert "constant" in found["same"]["note"]
    assert "label" in found["copy"]["note"]
    assert found["age"]["note"] == found["city"]["note"] == ""


@pytest.mark.parametrize("text", ["abc", "1,2,3", "12,34.5", "SKU123", "1.2.3", "--5", "1e999"])
def test_what_is_no_number_is_named(text):
    table = pd.DataFrame({"x": ["1", "2", text]})
    message = r"Row 2, column 'x': (expected a number|the number is infinite)"
    with pytest.raises(ValueError, match=message):
        Recipe({"x": "number"}).fit(table)


def test_dates_of_other_countries():
    for texts, kind in [
        (["31.12.2020", "01.02.2021"] * 3, "date"),
        (["12/31/2020", "02/01/2021"] * 3, "date"),
        (["31|12|20", "01|02|21"] * 3, "date:%d|%m|%y"),
    ]:
        table = pd.DataFrame({"d": texts})
        recipe = Recipe({"d": kind}, scale=False).fit(table)
        ages = recipe.transform(table)[:, 0].toarray().ravel()
        assert ages[:2].tolist() == [18627.0, 18659.0]


def test_a_date_that_is_none_is_named():
    with pytest.raises(ValueError, match="Row 1, column 'd': expected a date, found '2020-02-30'"):
        Recipe({"d": "date"}).fit(pd.DataFrame({"d": ["2020-02-28", "2020-02-30"]}))


# ------------------------------------------------------------------------------------------- gaps
def test_the_mean_stands_for_what_is_missing_and_a_column_says_so():
    table = pd.DataFrame({"x": [1.0, np.nan, 3.0, np.nan], "z": [1.0, 2.0, 3.0, 5.0]})
    X = prepared(streams.open(table.assign(y=[0, 1, 0, 1]), recipe=Recipe(scale=False))).toarray()
    np.testing.assert_array_equal(X[:, 0], [1.0, 1.0, 3.0, 2.0])
    np.testing.assert_array_equal(X[:, 2], [0.0, 1.0, 0.0, 1.0])
    assert X.shape == (4, 3)


def test_rows_with_gaps_are_refused_or_left_out():
    table = raw_table(200)
    gaps = int(table.age.isna().sum())
    text = csv_of(table)
    recipe = Recipe(missing="error")
    kept = streams.open(io.BytesIO(text), label="y", recipe=recipe, format="csv", on_error="skip")
    assert prepared(kept).shape[0] == 200 - gaps
    assert kept.skipped == gaps
    first = int(np.argmax(table.age.isna())) + 1
    refused = streams.open(io.BytesIO(text), label="y", recipe=recipe, format="csv")
    with pytest.raises(StreamError, match=f"row {first}, column 'age': the number is missing"):
        prepared(refused)


# ----------------------------------------------------------------------------- chunks, files, ends
@pytest.mark.parametrize("form", ["csv", "parquet", "frame", "dicts"])
@pytest.mark.parametrize("block_size", [1, 3000, 2**22])
def test_any_chunking_gives_the_same_features(tmp_path, form, block_size):
    table = raw_table(250)
    recipe = Recipe(interactions=[("city", "age")], max_categories=3)
    options = {"label": "y", "recipe": recipe, "block_size": block_size}
    if form == "csv":
        (tmp_path / "t.csv").write_bytes(csv_of(table))
        source = streams.open(tmp_path / "t.csv", **options)
    elif form == "parquet":
        table.to_parquet(tmp_path / "t.parquet")
        source = streams.open(tmp_path / "t.parquet", **options)
    elif form == "frame":
        source = streams.open(table, **options)
    else:
        rows = [({k: v for k, v in row.items() if k != "y"}, row["y"]) for row in dicts(table)]
        source = streams.open(rows, recipe=recipe)
    same(prepared(source), prepared(streams.open(table, label="y", recipe=recipe)))


def dicts(table):
    return [
        {name: None if value != value else value for name, value in row.items()}
        for row in table.to_dict("records")
    ]


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_partial_fit_in_any_pieces(data):
    table = raw_table(120).drop(columns="y")
    cuts = sorted(data.draw(st.lists(st.integers(30, 119), max_size=4)))
    whole = Recipe().fit(table[:30]).partial_fit(table[30:])
    parts = Recipe().fit(table[:30])
    for begin, end in zip([30, *cuts], [*cuts, 120], strict=True):
        if end > begin:
            parts.partial_fit(table[begin:end])
    same(whole.transform(table), parts.transform(table))
    assert whole.columns_ == parts.columns_


def test_the_recipe_travels_with_the_learner(tmp_path):
    table = raw_table(400)
    source = streams.open(table, label="y", recipe=Recipe())
    clf = Pegasos().fit_stream(source)
    new = raw_table(50, seed=5).drop(columns="y")
    by_hand = clf.recipe_.transform(new)
    expected = by_hand @ clf.coef_.ravel() + clf.intercept_[0]
    np.testing.assert_allclose(clf.decision_function(new), expected, atol=1e-12)
    assert clf.feature_names_in_.size == clf.coef_.shape[1]
    save(clf, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(new), clf.decision_function(new))
    one = dicts(new)[7]
    assert again.predict_one(one) == clf.predict(new)[7]
    # Going on, row by row and in one go, gives the same learner and the same recipe.
    more, labels = raw_table(30, seed=6).drop(columns="y"), raw_table(30, seed=6).y
    for row, label in zip(dicts(more), labels, strict=True):
        again.learn_one(row, label)
    clf.partial_fit(more, labels)
    np.testing.assert_array_equal(again.coef_, clf.coef_)
    assert repr(again.recipe_.tree()) == repr(clf.recipe_.tree())


def test_later_passes_leave_the_recipe_as_it_is():
    table = raw_table(200)
    one = Perceptron().fit_stream(streams.open(table, label="y", recipe=Recipe()))
    three = Perceptron().fit_stream(streams.open(table, label="y", recipe=Recipe()), passes=3)
    assert repr(one.recipe_.tree()) == repr(three.recipe_.tree())
    assert three.n_updates_ > one.n_updates_


def test_rows_of_weight_0_say_nothing():
    table = raw_table(200)
    table["w"] = np.where(np.arange(200) % 3 == 1, 0.0, 1.0)
    table.loc[1, "city"] = "only here"
    options = {"label": "y", "weight": "w"}
    weighted = Perceptron().fit_stream(
        streams.open(table, recipe=Recipe(max_categories=5), **options)
    )
    kept = table[table.w > 0.0]
    kinds = {one["name"]: one["kind"] for one in weighted.recipe_.columns_}
    recipe = Recipe(kinds, max_categories=5)
    alone = Perceptron().fit_stream(streams.open(kept, recipe=recipe, **options))
    np.testing.assert_array_equal(weighted.coef_, alone.coef_)
    assert "city=only here" not in weighted.recipe_.get_feature_names_out()


def test_a_class_that_comes_late_begins_anew(tmp_path):
    table = pd.concat([raw_table(6000), raw_table(50, seed=3).assign(y="maybe")])
    (tmp_path / "t.csv").write_bytes(csv_of(table))
    options = {"label": "y", "recipe": Recipe()}
    clf = Perceptron().fit_stream(streams.open(tmp_path / "t.csv", **options))
    assert clf.classes_.tolist() == ["maybe", "no", "yes"]
    known = Perceptron().fit_stream(
        streams.open(tmp_path / "t.csv", **options), classes=["maybe", "no", "yes"]
    )
    np.testing.assert_array_equal(clf.coef_, known.coef_)
    assert repr(clf.recipe_.tree()) == repr(known.recipe_.tree())


def test_a_checkpoint_anywhere_ends_with_the_same_learner(tmp_path):
    (tmp_path / "t.csv").write_bytes(csv_of(raw_table(400)))

    def source():
        recipe = Recipe(hash_bits=8)  # checkpoints are small
        return streams.open(tmp_path / "t.csv", label="y", recipe=recipe, block_size=2500)

    whole = Perceptron().fit_stream(source(), passes=2)

    class Stop(Exception):
        pass

    blocks = 2 * len(list(source().blocks()))
    assert blocks >= 8
    # In the first blocks, in the last, where the second pass begins, and at some between.
    some = {1, 2, *range(4, blocks, 5), blocks // 2, blocks // 2 + 1, blocks - 1}
    for stop in everything_or(sorted(some), list(range(1, blocks))):
        rows, seen = source(), [0]
        reach = rows.reach

        def stopping(block, reach=reach, seen=seen, stop=stop):
            reach(block)
            seen[0] += 1
            if seen[0] == stop:
                raise Stop

        rows.reach = stopping
        path = tmp_path / f"at{stop}"
        with pytest.raises(Stop):
            Perceptron().fit_stream(rows, passes=2, checkpoint=path, every=1)
        resumed = Perceptron().fit_stream(source(), passes=2, checkpoint=path, every=1)
        np.testing.assert_array_equal(resumed.coef_, whole.coef_)
        assert repr(resumed.recipe_.tree()) == repr(whole.recipe_.tree())


def test_going_on_with_another_recipe_is_refused(tmp_path):
    table = raw_table(100)
    (tmp_path / "t.csv").write_bytes(csv_of(table))
    first = streams.open(tmp_path / "t.csv", label="y", recipe=Recipe(), block_size=2500)
    Perceptron().fit_stream(first, checkpoint=tmp_path / "c")
    other = streams.open(tmp_path / "t.csv", label="y", recipe=Recipe(scale=False), block_size=2500)
    with pytest.raises(ValueError, match="read differently"):
        Perceptron().fit_stream(other, checkpoint=tmp_path / "c")


def test_a_damaged_recipe_is_refused():
    tree = Recipe().fit(raw_table(100).drop(columns="y")).tree()
    Recipe.from_tree(tree)
    for name, value in [
        ("rows", -1.0),
        ("rows", None),
        ("counts", tree["counts"][:-1]),
        ("means", tree["means"] * np.nan),
        ("missing", tree["missing"].astype(float)),
        ("vocabularies", [["a", "a"]]),
        ("vocabularies", []),
        ("columns", tree["columns"][1:-1]),
        ("parameters", {**tree["parameters"], "hash_bits": 60}),
        ("parameters", {"kindly": 1}),
    ]:
        with pytest.raises(ValueError, match=r"damaged|hash_bits|column"):
            Recipe.from_tree({**tree, name: value})


def test_progressive_takes_prepared_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5)) * [1e-3, 1.0, 1e3, 10.0, 5.0] + [0, 5, 1e4, 3, -7]
    y = (X[:, 0] * 1e3 + X[:, 1] - 5.0 > 0).astype(int)
    scaled = progressive(Perceptron(), streams.open(X, y, recipe=Recipe())).accuracy
    bare = progressive(Perceptron(), X, y).accuracy
    assert scaled > 0.9 > bare


def test_river_like_calls():
    recipe = Recipe({"a": "number", "c": "category"}, scale=False)
    recipe.learn_one({"a": 1.0, "c": "u"}).learn_one({"a": None, "c": "v"})
    assert recipe.transform_one({"a": 3.0, "c": "v"}) == {"a": 3.0, "c=v": 1.0}
    assert recipe.transform_one({"c": "w"}) == {"a": 1.0, "c is another": 1.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing": "zero"}, "missing must be one of"),
        ({"na_values": "NA"}, "na_values= must be a list of texts"),
        ({"categories": "dummy"}, "categories must be"),
        ({"max_categories": 0}, "max_categories"),
        ({"hash_bits": 31}, "hash_bits"),
        ({"kinds": {"age": "money"}}, "kind of column 'age'"),
        ({"kinds": {"agee": "number"}}, "no column 'agee'"),
        ({"drop": ["nothing"]}, "no column 'nothing'"),
        ({"interactions": ["age*city"]}, "pairs"),
        ({"interactions": [("age", "note")]}, "which has no interactions"),
        ({"interactions": [("age", "id")]}, "no column 'id'; there are"),
    ],
)
def test_parameters_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**options).fit(raw_table(100))


def test_it_is_a_transformer_like_others():
    recipe = Recipe({"age": "number"}, drop=["note"])
    assert clone(recipe).get_params() == recipe.get_params()
    table = raw_table(100).drop(columns="y")
    X = recipe.fit_transform(table)
    assert X.shape == (100, len(recipe.get_feature_names_out()))
    assert recipe.n_features_in_ == 7
    assert recipe.feature_names_in_.tolist() == list(table.columns)
    with pytest.raises(ValueError, match="no column 'city'"):
        recipe.transform(table.drop(columns="city"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("user_id", "drop"),
        ("userId", "drop"),
        ("ID", "drop"),
        ("paid", "number"),
        ("idle", "number"),
    ],
)
def test_identifiers_by_their_names(name, kind):
    values = np.random.default_rng(0).permutation(1000)[:200]
    (found,) = Recipe().fit(pd.DataFrame({name: values, "x": values % 7})).columns_[:1]
    assert found["kind"] == kind


def kinds_of(source):
    return {one["name"]: (one["kind"], one["note"]) for one in source.schema()["recipe"].columns_}


@pytest.mark.parametrize("form", ["csv", "frame"])
@pytest.mark.parametrize("block_size", [1, 2**22])
def test_leading_zeros_make_names(tmp_path, form, block_size):
    rng = np.random.default_rng(0)
    codes = rng.choice([f"{code:05d}" for code in rng.integers(0, 99999, 40)], 200)
    table = pd.DataFrame({"zip": codes, "x": rng.normal(size=200), "y": rng.integers(0, 2, 200)})
    (tmp_path / "t.csv").write_bytes(csv_of(table))
    rows = tmp_path / "t.csv" if form == "csv" else table
    source = streams.open(rows, recipe=Recipe(), block_size=block_size)
    X = prepared(source)
    clf = Perceptron().fit_stream(source)
    assert kinds_of(source)["zip"] == ("category", "leading zeros: treated as names, not numbers")
    assert [f"zip={code}" in clf.feature_names_in_ for code in codes] == [True] * 200
    same(prepared(streams.open(table, recipe=Recipe({"zip": "category"}))), X)
    told = streams.open(rows, recipe=Recipe({"zip": "number"}), block_size=block_size)
    assert prepared(told).shape == (200, 2)


def test_values_that_come_again_after_the_first_rows_are_kept():
    """Only an identifier by its name is left out, and never in silence."""
    rng = np.random.default_rng(0)
    late = [f"u{k}" for k in [*range(5000), *rng.integers(0, 5000, 1000)]]
    some = [f"v{k}" for k in rng.integers(0, 60_000, 6000)]
    table = pd.DataFrame({"user": late, "shop_id": some, "y": rng.integers(0, 2, 6000)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source = streams.open(table, recipe=Recipe(hash_bits=10))
    note = "nearly each row has its own value"
    assert kinds_of(source) == {"user": ("category", note), "shop_id": ("category", note)}
    X = prepared(source)
    assert X.shape == (6000, 2**10)  # all buckets occur
    again = late.index(late[5500])
    common = X[again].multiply(X[5500])
    assert common.nnz >= 1  # both have the feature of the user
    numbered = table.assign(user=np.arange(6000) % 5500)
    with pytest.warns(UserWarning, match="column 'user' is left out"):
        streams.open(numbered, recipe=Recipe(hash_bits=10))
    by_name = table.rename(columns={"user": "user_id"})
    left_out = r"column 'user_id' is left out: .* use kinds=\{'user_id': 'hashed'\}; if not, drop="
    with pytest.warns(UserWarning, match=left_out):
        source = streams.open(by_name, recipe=Recipe(hash_bits=10))
    assert kinds_of(source)["user_id"][0] == "drop"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        streams.open(by_name, recipe=Recipe(drop=["user_id"], hash_bits=10))
        kept = streams.open(by_name, recipe=Recipe({"user_id": "hashed"}, hash_bits=10))
    assert kinds_of(kept)["user_id"][0] == "category"


@pytest.mark.parametrize("is_pipe", [True, False])
@pytest.mark.parametrize("block_size", [100, 2**22])
def test_rows_with_bad_cells_are_skipped_and_the_column_stays_one_of_numbers(
    tmp_path, is_pipe, block_size
):
    rng = np.random.default_rng(0)
    stars = rng.integers(1, 6, 300).astype(str).astype(object)
    stars[[17, 30, 31]] = ["oops", "bad", "5 stars"]
    table = pd.DataFrame({"stars": stars, "y": rng.integers(0, 2, 300)})
    text = csv_of(table)
    (tmp_path / "t.csv").write_bytes(text)
    rows = io.BytesIO(text) if is_pipe else tmp_path / "t.csv"
    block_size = 2**22 if is_pipe else block_size
    options = {"format": "csv", "on_error": "skip", "block_size": block_size}
    source = streams.open(rows, recipe=Recipe(scale=False), **options)
    X = prepared(source)
    assert source.skipped == 3
    expected = np.delete(stars, [17, 30, 31]).astype(float)
    np.testing.assert_array_equal(X.toarray(), expected[:, np.newaxis])


FORMS = ["csv", "frame", "dicts"]


@pytest.mark.parametrize("form", FORMS)
def test_values_that_are_said_to_be_missing(tmp_path, form):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "x": rng.normal(size=120).round(3).astype(str),
            "price": [f"{x:.2f}" for x in rng.uniform(1, 9, 120)],
            "day": (np.datetime64("2020-01-01") + rng.integers(0, 90, 120)).astype(str),
            "on": rng.choice(["true", "false"], 120),
            "city": rng.choice(CITIES, 120),
            "y": rng.choice(["no", "yes"], 120),
        }
    )
    empty, written = table.copy(), table.copy()
    for k, name in enumerate(["x", "price", "day", "on", "city"]):
        gaps = rng.choice(120, 15, replace=False)
        empty.loc[gaps, name] = ""
        written.loc[gaps, name] = ["unknown", "--", "-"][k % 3]
    na = ["unknown", "--", "-"]

    def opened(table, recipe, **options):
        if form == "frame":
            return streams.open(table, recipe=recipe, **options)
        if form == "csv":
            path = tmp_path / f"{len(list(tmp_path.iterdir()))}.csv"
            path.write_bytes(csv_of(table))
            return streams.open(path, recipe=recipe, block_size=900, **options)
        rows = [({k: v for k, v in row.items() if k != "y"}, row["y"]) for row in dicts(table)]
        return streams.open(rows, recipe=recipe, **options)

    expected = opened(empty, Recipe())
    X = prepared(expected)
    source = opened(written, Recipe(na_values=na))
    same(prepared(source), X)
    given = Recipe(na_values=na[:1])
    same(prepared(opened(written, given, na_values=na[1:])), X)  # said to the source
    assert given.na_values == na[:1]
    clf = Perceptron().fit_stream(source)
    save(clf, tmp_path / "model")
    again = load(tmp_path / "model")
    assert list(again.recipe_.na_values) == na
    new = written.drop(columns="y")
    np.testing.assert_array_equal(
        again.decision_function(new), clf.decision_function(empty.drop(columns="y"))
    )
    assert again.predict_one(dicts(new)[3]) == clf.predict(new)[3]
    with pytest.raises(ValueError, match="cannot be added to a recipe that has seen rows"):
        opened(written, again.recipe_, na_values=["missing"])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("kind", "sound", "found"),
    [("number", "1.5", "--"), ("date", "2020-01-01", "unknown"), ("boolean", "true", "-")],
)
def test_a_value_of_another_kind_is_refused_with_a_remedy(tmp_path, form, kind, sound, found):
    table = pd.DataFrame({"v": [sound, found], "y": ["a", "b"]})
    (tmp_path / "t.csv").write_bytes(csv_of(table))
    rows = table if form == "frame" else tmp_path / "t.csv"
    if form == "dicts":
        rows = [({"v": sound}, "a"), ({"v": found}, "b")]
    remedy = rf"expected a {kind}, found '{found}' \(kinds=.*, na_values=\['{found}'\] such values"
    with pytest.raises(StreamError, match=remedy):
        prepared(streams.open(rows, recipe=Recipe({"v": kind})))
    source = streams.open(rows, recipe=Recipe({"v": kind}, na_values=[found]))
    assert prepared(source).shape[0] == 2


@pytest.mark.parametrize("values", [pd.to_timedelta(range(4), "h"), [[1, 2]] * 4], ids=["td", "[]"])
def test_columns_of_unknown_types_are_left_out_with_a_warning(values):
    frame = pd.DataFrame({"span": values, "age": [1.0, 2.0, 3.0, 4.0]})
    with pytest.warns(UserWarning, match=r"column 'span' is left out: it is of the type .*drop="):
        assert Recipe().fit(frame).columns_[0]["kind"] == "drop"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Recipe(drop=["span"]).fit(frame)


# ------------------------------------------------------------- what was taken for something else
ROME = datetime.timezone(datetime.timedelta(hours=1))


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([5, None], pa.timestamp("us")), "number"),
        (pa.array([5, None], pa.duration("s")), "number"),
        (pa.array([{"a": 1}, None]), "category"),
        (pa.array([20200101, None]), "date"),
        (pa.array([7, 1]), "boolean"),
        (pa.array([np.inf, 1.0]), "boolean"),
        (pa.array(["31.02.2021", "01.02.2021"]), "date:%d.%m.%Y"),
        (pa.array(["12 34", "1 234"]), "number"),
        (pa.array(["5 $ 6", "1"]), "number"),
    ],
)
def test_values_of_another_kind_are_refused_by_the_name_of_their_column(column, kind):
    recipe = Recipe({"x": kind})
    with pytest.raises(ValueError, match="column 'x': "):
        recipe.partial_fit(pa.table({"x": column}))
    assert not hasattr(recipe, "plan_")


@pytest.mark.parametrize(
    ("kind", "typed", "texts", "objects"),
    [
        ("number", pa.array([1, None, 3]).dictionary_encode(), ["1", "", "3"], [1, pd.NA, 3.0]),
        ("category", pa.array([True, None, False]), ["true", "NA", "false"], [True, pd.NA, False]),
        ("category", pa.array([1.0, None, 2.5]), ["1", "", "2.5"], [1.0, None, 2.5]),
        ("boolean", pa.array([1, None, 0]), ["1", "", "0"], [1, None, False]),
        (
            "date:%d.%m.%Y %H",
            pa.array([datetime.datetime(2020, 5, 1, 22, tzinfo=ROME), None, None]).cast(
                pa.timestamp("us", "+01:00")
            ),
            ["01.05.2020 22", "", ""],
            [datetime.datetime(2020, 5, 1, 22, tzinfo=ROME), None, None],
        ),
    ],
)
def test_a_recipe_for_types_reads_texts_and_objects_alike(kind, typed, texts, objects):
    recipe = Recipe({"x": kind}, scale=False).fit(pa.table({"x": typed}))
    expected = sparse.csr_matrix(recipe.transform(pa.table({"x": typed})))
    for rows in (pd.DataFrame({"x": texts}), [{"x": each} for each in objects]):
        same(sparse.csr_matrix(recipe.transform(rows)), expected)


@pytest.mark.parametrize(("zone", "minutes"), [("+01:00", 60), ("-05:30", -330), ("UTC", 0)])
def test_times_are_those_of_a_clock_in_their_zone(zone, minutes):
    times, missing, _ = dates_of(pa.array([10**9, None], pa.timestamp("s", zone)), "%Y")
    assert times[0] == 10**9 + 60 * minutes
    assert missing.tolist() == [False, True]


def test_gaps_are_looked_for_in_as_many_rows_however_they_come():
    X = np.arange(8000.0).reshape(4000, 2)
    X[3000, 1] = np.nan
    y = np.arange(4000) % 2
    rows = [({"a": a, "b": b}, label) for (a, b), label in zip(X.tolist(), y, strict=True)]
    recipe = Recipe({"a": "number", "b": "number"})
    sources = [
        *(streams.open(X, y, recipe=Recipe(), block_size=size) for size in (100, 2**22)),
        *(streams.open(each, recipe=recipe) for each in (rows, iter(rows))),
    ]
    first, *others = map(prepared, sources)
    assert first.shape == (4000, 3)
    for other in others:
        same(other, first)


def test_dicts_go_on_where_a_table_ended():
    table = raw_table(60)
    clf = Perceptron().fit_stream(streams.open(table, label="y", recipe=Recipe()))
    rows = [({k: v for k, v in row.items() if k != "y"}, row["y"]) for row in dicts(table)]
    expected = Perceptron()
    expected.fit_stream(streams.open(table, label="y", recipe=Recipe()))
    expected.fit_stream(table)
    np.testing.assert_array_equal(clf.fit_stream(rows).coef_, expected.coef_)


def test_weights_of_0_in_partial_fit_say_nothing():
    table = raw_table(60).drop(columns="y")
    y = np.arange(60) % 2
    first = streams.open(table.assign(y=y), recipe=Recipe())
    weighted, alone = (Perceptron().fit_stream(first) for _ in range(2))
    weighted.partial_fit(table, y, sample_weight=np.arange(60) % 3)
    alone.partial_fit(table[np.arange(60) % 3 > 0], y[np.arange(60) % 3 > 0])
    assert repr(weighted.recipe_.tree()) == repr(alone.recipe_.tree())


def test_features_of_the_same_name_are_told_apart():
    rows = [{"x": 1.0, "x is missing": 7.0}, {"x": None, "x is missing": 8.0}]
    recipe = Recipe(scale=False).fit(rows)
    assert recipe.transform_one(rows[1]) == {
        "x": 1.0,
        "x is missing": 8.0,
        "x is missing (2)": 1.0,
    }


# --------------------------------------------------------------------------- what users met first
def test_the_index_of_a_frame_is_no_column():
    rng = np.random.default_rng(0)
    noise = pd.DataFrame({"x": rng.normal(size=400), "c": rng.choice(["u", "v"], 400)})
    y = np.repeat(["no", "yes"], 200)
    scores = cross_val_score(
        make_pipeline(Recipe(), Perceptron(random_state=0)),
        noise,
        y,
        cv=KFold(4, shuffle=True, random_state=0),
        error_score="raise",
    )
    assert scores.max() < 0.7
    shuffled = noise.iloc[rng.permutation(400)]
    assert Recipe().fit(shuffled).feature_names_in_.tolist() == ["x", "c"]


def test_a_source_can_be_learned_from_again():
    source = streams.open(raw_table(300), label="y", recipe=Recipe())
    first, second = Perceptron().fit_stream(source), Perceptron().fit_stream(source)
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert repr(first.recipe_.tree()) == repr(second.recipe_.tree())


def test_notes_are_true_at_the_end():
    table = pd.DataFrame({"late": [0.0] * 200, "full": ["a"] * 200, "same": [1.0] * 200})
    recipe = Recipe({"full": "category"}, max_categories=3).fit(table)
    assert {one["note"] for one in recipe.columns_} == {"constant so far"}
    recipe.partial_fit(pd.DataFrame({"late": [1.0] * 4, "full": list("bcde"), "same": [1.0] * 4}))
    notes = [one["note"] for one in recipe.columns_]
    assert notes == ["", "3 values have columns: all others share one", "constant so far"]


def test_a_format_that_is_none_is_refused():
    with pytest.raises(ValueError, match="'%Q' is not a date format"):
        Recipe({"since": "date:%Q"}).fit(raw_table(60))


def test_what_may_have_been_meant():
    with pytest.raises(ValueError, match=r"no column 'agee'; there are .*did you mean 'age'"):
        Recipe(drop=["agee"]).fit(raw_table(60))


def test_labels_have_no_blanks_around_them():
    text = b"x,y\n1, yes\n2, no\n3,yes\n"
    (block,) = streams.open(io.BytesIO(text), format="csv", label="y", recipe=Recipe()).blocks()
    assert block.y.tolist() == ["yes", "no", "yes"]


def test_arff_is_named(tmp_path):
    (tmp_path / "t.arff").write_text("@relation x\n@data\n1,2\n")
    with pytest.raises(StreamError, match="ARFF"):
        streams.open(tmp_path / "t.arff")


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson", "t.json", "t.txt", "t.jsonl.gz"])
def test_lines_of_json_are_a_table(tmp_path, name):
    path, data = tmp_path / name, b'{"a": 1, "c": "x", "label": 0}\n{"a": 2.5, "label": 1}\n'
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    recipe = Recipe({"c": "category"}, scale=False)
    (block,) = streams.open(path, recipe=recipe).blocks()
    assert block.X.toarray().tolist() == [[1, 0, 0, 1], [2.5, 1, 0, 0]]
    assert block.y.tolist() == [0, 1]


def test_a_list_of_objects_in_json_is_refused(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('[{"a": 1, "label": 0},\n {"a": 2, "label": 1}]')
    with pytest.raises(StreamError, match="must have one object in each line: convert it"):
        streams.open(path)


def test_frames_of_features():
    numbers = pd.DataFrame({"a": [1.0, 2.0, np.nan], "b": [1.0, 2.0, 4.0]}, index=list("xyz"))
    features = Recipe().set_output(transform="pandas").fit_transform(numbers)
    assert features.columns.tolist() == ["a", "b", "a is missing"]
    assert features.index.tolist() == ["x", "y", "z"]
    with pytest.raises(ValueError, match=r"disable Pandas output with set_output"):
        Recipe().set_output(transform="pandas").fit_transform(numbers.assign(c=["u", "v", "u"]))
