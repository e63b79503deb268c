"""Pipelines in files: they predict the same, and nothing but what is listed can be in them."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import sklearn
from campaigns.modelfiles import _outcome, edit_arrays, edit_header, put_together, taken_apart
from persistence.states import X, made, two
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)

from maxmargin import MaxMargin, Perceptron, load, save
from maxmargin.persistence import ModelFileError, describe
from maxmargin.streams import Recipe

STEPS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    StandardScaler(with_mean=False, with_std=False),
    MinMaxScaler((-1.0, 2.0), clip=True),
    MaxAbsScaler(),
    RobustScaler(quantile_range=(10.0, 80.0), unit_variance=True),
    RobustScaler(with_centering=False),
    Normalizer("l1"),
]
FAR = X * [1.0, 100.0, 0.01] + [0.0, 5.0, 1.0]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.mm"


def again(pipeline, path):
    save(pipeline, path)
    return load(path)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_pipeline_predicts_the_same_to_the_bit(step, dtype, path):
    rows = FAR.astype(dtype)
    pipeline = make_pipeline(clone(step), MaxMargin(soft_margin=1.0)).fit(rows, two)
    found = again(pipeline, path)
    assert str(found) == str(pipeline)
    assert found[0].transform(rows).tobytes() == pipeline[0].transform(rows).tobytes()
    outputs = found.decision_function(rows)
    assert outputs.tobytes() == pipeline.decision_function(rows).tobytes()
    assert vars(found[0]).keys() == vars(pipeline[0]).keys()
    before = path.read_bytes()
    save(found, path)
    assert path.read_bytes() == before


def test_several_steps_and_their_names(path):
    steps = [("middle", RobustScaler()), ("unit", Normalizer()), ("end", made(Perceptron))]
    pipeline = Pipeline(steps, verbose=False).fit(FAR, two)
    found = again(pipeline, path)
    assert list(found.named_steps) == ["middle", "unit", "end"]
    np.testing.assert_array_equal(found.predict(FAR), pipeline.predict(FAR))
    assert describe(path)["steps"] == ["RobustScaler", "Normalizer"]
    assert describe(path)["estimator"] == "Perceptron"


def test_steps_and_learner_go_on_learning(path):
    """Also where values were missing, and rows had weights."""
    rows = FAR.copy()
    rows[3, 1] = np.nan
    scaler = StandardScaler().fit(rows, sample_weight=np.linspace(0.5, 1.5, 40))
    learner = Perceptron(random_state=0).partial_fit(X, two, classes=["no", "yes"])
    pipeline = make_pipeline(scaler, learner)
    found = again(pipeline, path)
    for each in (pipeline, found):
        each[0].partial_fit(FAR[::-1])
        each[1].partial_fit(each[0].transform(FAR), two)
    assert found[0].mean_.tobytes() == pipeline[0].mean_.tobytes()
    assert found[0].var_.tobytes() == pipeline[0].var_.tobytes()
    assert found[1].coef_.tobytes() == pipeline[1].coef_.tobytes()


def test_a_pipeline_that_is_not_fitted(path):
    pipeline = make_pipeline(MinMaxScaler(clip=True), Recipe(scale=False), MaxMargin())
    found = again(pipeline, path)
    assert str(found) == str(pipeline)
    np.testing.assert_array_equal(
        found.fit(FAR, two).decision_function(FAR), pipeline.fit(FAR, two).decision_function(FAR)
    )


@pytest.mark.parametrize("container", ["default", "pandas"])
def test_names_of_features_and_frames_between_steps(container, path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(FAR, columns=["size", "age", "height"])
    pipeline = make_pipeline(StandardScaler(), MaxMargin()).set_output(transform=container)
    pipeline.fit(table, two)
    found = again(pipeline, path)
    assert found.feature_names_in_.tolist() == ["size", "age", "height"]
    assert type(found[0].transform(table)) is type(pipeline[0].transform(table))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outputs = found.decision_function(table)
    np.testing.assert_array_equal(outputs, pipeline.decision_function(table))
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(table[["age", "size", "height"]])


def test_a_recipe_as_the_first_step(path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"size": FAR[:, 1], "city": np.where(X[:, 2] > 0.0, "Ulm", "Bern")})
    pipeline = make_pipeline(Recipe(), StandardScaler(with_mean=False), MaxMargin())
    pipeline.fit(table, two)
    found = again(pipeline, path)
    outputs = found.decision_function(table)
    assert outputs.tobytes() == pipeline.decision_function(table).tobytes()


# ---------------------------------------------------------------------------- what cannot be saved
@pytest.mark.parametrize(
    ("step", "what"),
    [
        (PCA(2), "a PCA"),
        (FunctionTransformer(np.log1p), "a FunctionTransformer"),
        (ColumnTransformer([("all", StandardScaler(), [0])]), "a ColumnTransformer"),
        (make_pipeline(StandardScaler()), "a Pipeline"),
        ("passthrough", "'passthrough'"),
        (type("StandardScaler", (StandardScaler,), {})(), "a StandardScaler"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_steps_are_named(step, what, path):
    pipeline = Pipeline([("scale", StandardScaler()), ("odd", step), ("end", MaxMargin())])
    with pytest.raises(
        TypeError, match=f"The step 'odd' of the pipeline cannot be saved: it is {what}"
    ) as error:
        save(pipeline, path)
    assert "Recipe as the first step" in str(error.value)
    assert "skops.io.dump" in str(error.value)
    assert not path.exists()


def test_other_pipelines_are_refused(path):
    with pytest.raises(TypeError, match=r"pipelines that end with one, can be saved, not .*PCA"):
        save(make_pipeline(StandardScaler(), PCA()), path)
    with pytest.raises(TypeError, match="The parameter 'memory' of the pipeline cannot be saved"):
        save(make_pipeline(StandardScaler(), MaxMargin(), memory="there"), path)
    with pytest.raises(TypeError, match=r"can be saved, not .*Mine"):
        save(type("Mine", (Pipeline,), {})([("end", MaxMargin())]), path)
    pipeline = make_pipeline(StandardScaler(), MaxMargin()).fit(X, two)
    pipeline[0].remark = print
    with pytest.raises(
        TypeError, match=r"'standardscaler' of the pipeline .* nothing else: remark"
    ):
        save(pipeline, path)
    assert not path.exists()


# -------------------------------------------------------------------------------------- tampering
class Opened:
    """A file of a pipeline, taken apart."""

    def __init__(self, path, *steps):
        self.path = path
        save(make_pipeline(*(steps or (StandardScaler(),)), MaxMargin()).fit(FAR, two), path)
        self.header, self.chunks = taken_apart(path.read_bytes())
        self.content = self.header["content"]
        self.steps = [dict(step["dict"]) for step in self.content["steps"]]
        self.about = dict(self.content["pipeline"]["dict"])

    def attribute(self, name, value=None):
        """The tree of an attribute of the first step; of another value, if one is given."""
        pairs = self.steps[0]["attributes"]["dict"]
        found = dict(pairs).get(name, None)
        if value is not None:
            pairs[:] = [pair for pair in pairs if pair[0] != name] + [[name, value]]
        return found

    def put(self, array, name):
        """Another array for an attribute."""
        number = self.attribute(name)["array"]
        self.header["arrays"][number] = {"dtype": array.dtype.str, "shape": list(array.shape)}
        self.chunks[number] = array.tobytes()

    def written(self):
        self.content["steps"] = [{"dict": [list(p) for p in step.items()]} for step in self.steps]
        self.content["pipeline"] = {"dict": [list(pair) for pair in self.about.items()]}
        self.path.write_bytes(put_together(self.header, self.chunks))
        return self.path

    def is_refused(self, match):
        self.written()
        with pytest.raises(ModelFileError, match=match):
            load(self.path)


@pytest.fixture
def opened(path):
    return Opened(path)


def test_an_unchanged_file_is_taken(opened):
    assert isinstance(load(opened.written()), Pipeline)


@pytest.mark.parametrize(
    "name",
    [
        "PCA",
        "FunctionTransformer",
        "MaxMargin",
        "os.system",
        "sklearn.pipeline.Pipeline",
        "",
        7,
        None,
        ["StandardScaler"],
        "standardscaler",
    ],
)
def test_a_class_that_is_not_listed(opened, name):
    opened.steps[0]["class"] = name
    opened.is_refused("the step 'standardscaler' is of a class that files do not have")


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(2),
        np.zeros(4),
        np.zeros((1, 3)),
        np.zeros((3, 1)),
        np.zeros(0),
        np.zeros(3, np.int64),
        np.zeros(3, bool),
        np.zeros(3, "S8"),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
@pytest.mark.parametrize("name", ["mean_", "scale_"])
def test_arrays_of_another_type_or_shape(opened, name, array):
    opened.put(array, name)
    opened.is_refused(f"'standardscaler': {name} is not of the type or the shape that fit gives it")


@pytest.mark.parametrize(
    "value",
    [
        "text",
        1.0,
        True,
        [0.0, 0.0, 0.0],
        {"tuple": [0.0]},
        {"dict": []},
        {"objects": [1, 2, 3]},
        {"texts": ["a", "b", "c"], "length": 1},
        {"float": "nan"},
    ],
    ids=str,
)
def test_attributes_that_are_no_arrays(opened, value):
    opened.attribute("mean_", value)
    opened.is_refused("mean_ is not of the type or the shape that fit gives it")


@pytest.mark.parametrize("value", [-1.0, {"float": "nan"}, {"float": "inf"}, "3", True, [1], 2**70])
def test_counts_of_rows_that_are_none(opened, value):
    opened.attribute("n_samples_seen_", value)
    opened.is_refused("n_samples_seen_ is not of the type")


@pytest.mark.parametrize("width", [0, -1, 2, 4, 3.0, "3", True, 2**61, 2**70])
def test_another_number_of_features(opened, width):
    opened.attribute("n_features_in_", width)
    opened.is_refused("the step 'standardscaler'")


@pytest.mark.parametrize("width", [1, 2, 4, 2**40, 2**61])
def test_a_step_without_arrays_has_the_width_of_the_next(path, width):
    opened = Opened(path, Normalizer())
    opened.attribute("n_features_in_", width)
    opened.is_refused(f"'normalizer' has {width} features, and the next step 3")


@pytest.mark.parametrize(
    "name", ["__class__", "transform", "fit", "__dict__", "_parameter_constraints"]
)
def test_attributes_that_fit_does_not_make(opened, name):
    opened.attribute(name, 1)
    opened.is_refused(f"it must have what fit makes, and nothing else: {name}")


def test_attributes_that_are_missing(opened):
    pairs = opened.steps[0]["attributes"]["dict"]
    pairs[:] = [pair for pair in pairs if pair[0] != "scale_"]
    opened.is_refused("nothing else: scale_")


@pytest.mark.parametrize(
    "names",
    [{"objects": ["a", "b"]}, {"objects": ["a", "b", 1]}, {"objects": ["a", "b", None]}, ["a"] * 3],
    ids=str,
)
def test_names_of_features_that_are_none(opened, names):
    opened.attribute("feature_names_in_", names)
    opened.is_refused("feature_names_in_ is not of the type")


@pytest.mark.parametrize(
    ("name", "value"),
    [("with_mean", "yes"), ("with_mean", {"array": 0}), ("copy", None), ("with_std", False)],
)
def test_parameters_that_do_not_fit(opened, name, value):
    opened.steps[0]["parameters"] = {"dict": [[name, value]]}
    opened.is_refused("the step 'standardscaler'")


def test_parameters_of_other_classes(opened):
    opened.steps[0]["parameters"] = {"dict": [["func", "print"]]}
    opened.is_refused("the parameters of the step 'standardscaler' are not those of StandardScaler")


@pytest.mark.parametrize("value", ["numpy", None, 1, "__class__"])
def test_containers_that_there_are_not(opened, value):
    opened.steps[0]["container"] = value
    opened.is_refused("the step 'standardscaler' cannot give rows as")


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", 1], "ab", ["a", "b", "c"], None])
def test_each_step_has_a_name(opened, names):
    opened.about["names"] = names
    opened.is_refused("each step of the pipeline must have a name of its own")


@pytest.mark.parametrize("names", [["a__b", "c"], ["", "c"]])
def test_names_of_steps(opened, names):
    opened.about["names"] = names
    opened.is_refused("names of steps must not be empty or contain '__'")


def test_what_is_missing_in_a_pipeline(opened):
    for name in ("steps", "last", "pipeline"):
        changed = copy.deepcopy(opened)
        changed.written()
        del changed.content[name]
        changed.path.write_bytes(put_together(changed.header, changed.chunks))
        with pytest.raises(ModelFileError):
            load(changed.path)
    opened.content["last"] = None
    opened.is_refused("there is no learner at the end of the pipeline")


def test_a_recipe_that_is_damaged(path):
    pytest.importorskip("pyarrow")
    opened = Opened(path, Recipe())
    tree = dict(opened.steps[0]["tree"]["dict"])
    opened.steps[0]["tree"] = {"dict": [[k, v] for k, v in tree.items() if k != "means"]}
    opened.is_refused("the recipe is damaged")


def test_changed_files_are_refused_or_hold_a_pipeline_that_works(path, monkeypatch):
    def executed(*args):
        raise AssertionError("something was unpickled")

    random, outcomes = np.random.default_rng(0), {"refused": 0, "loaded": 0}
    steps = (StandardScaler(), MinMaxScaler(clip=True), RobustScaler(), Normalizer())
    save(make_pipeline(*steps, MaxMargin()).fit(FAR, two), path)
    data = path.read_bytes()
    monkeypatch.setattr(pickle, "loads", executed)
    monkeypatch.setattr(pickle, "load", executed)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for mutation in (edit_header, edit_arrays) * 100:
            path.write_bytes(changed := mutation(data, random))
            outcomes[_outcome(path, changed == data)] += 1
    assert min(outcomes.values()) > 10


# --------------------------------------------------------------------------------------- versions
def test_another_version_of_scikit_learn_is_warned_about(opened):
    assert opened.about["scikit-learn"] == sklearn.__version__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(opened.written())
    opened.about["scikit-learn"] = "1.0"
    opened.written()
    with pytest.warns(InconsistentVersionWarning, match="StandardScaler from version 1.0") as told:
        found = load(opened.path)
    assert told[0].filename == __file__
    assert found.predict(FAR).size == 40
    opened.about["scikit-learn"] = 1.0
    opened.is_refused("the version of scikit-learn is missing")
