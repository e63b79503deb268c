"""Files with the right checksum and the wrong content are refused, before any loop sees them."""

from collections.abc import MutableMapping

import numpy as np
import pytest
from campaigns.modelfiles import fuzz_model_files, put_together, taken_apart
from persistence.states import VARIANTS, X, _learners, fitted, made, streamed, three

from maxmargin import NOCA, NORMA, PUMMA, BisectionPerceptron, Forgetron, Perceptron, Projectron
from maxmargin.persistence import ModelFileError, load, save
from maxmargin.persistence.container import described
from maxmargin.training.protocol import state_of


class Pairs:
    """The ``[key, value]`` pairs of a dictionary in a file, by their keys."""

    def __init__(self, pairs):
        self.pairs = pairs

    def __getitem__(self, key):
        return dict(self.pairs)[key]

    def __setitem__(self, key, value):
        del self[key]
        self.pairs.append([key, value])

    def __delitem__(self, key):
        self.pairs[:] = [pair for pair in self.pairs if pair[0] != key]

    def __iter__(self):
        return iter(dict(self.pairs))


class Leaves(MutableMapping):
    """The attributes that belong to the model, by their paths."""

    def __init__(self, attributes):
        self.attributes = attributes

    def __getitem__(self, path):
        return self.attributes[f"model.{path}"]

    def __setitem__(self, path, value):
        self.attributes[f"model.{path}"] = value

    def __delitem__(self, path):
        del self.attributes[f"model.{path}"]

    def __iter__(self):
        names = [name for name in self.attributes if name.startswith("model.")]
        return iter([name.removeprefix("model.") for name in names])

    def __len__(self):
        return len(list(iter(self)))


class Tampered:
    """A file taken apart, to be changed and put together again."""

    def __init__(self, clf, folder):
        self.path = folder / "model.mm"
        save(clf, self.path)
        self.header, self.arrays = taken_apart(self.path.read_bytes())
        self.model = self.header["content"]["model"]
        self.attributes = self.model["attributes"]
        self.leaves = Leaves(self.attributes)

    @property
    def structure(self):
        """The parameters that the model was made for."""
        return Pairs(self.attributes["structure"]["dict"])

    def array(self, path):
        """The array at a path, to be written to."""
        return self.arrays[f"model.{path}"]

    def replace(self, array, path):
        self.leaves[path] = {"array": f"model.{path}", **described(array)}
        self.arrays[f"model.{path}"] = array

    def attribute(self, name, array):
        self.attributes[name] = {"array": name, **described(array)}
        self.arrays[name] = array

    def write(self):
        self.path.write_bytes(put_together(self.header, self.arrays))

    def is_refused(self, match=None):
        self.write()
        with pytest.raises(ModelFileError, match=match) as caught:
            load(self.path)
        return str(caught.value)


def variant(name):
    parameters, rows, labels = VARIANTS[name]
    return streamed(made(_learners(parameters)[0], **parameters), rows, labels)


def test_an_unchanged_file_is_taken(tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.write()
    load(tampered.path)


@pytest.mark.parametrize("shape", [(1, 3), (2, 4), (4,), (0, 4), (1, 4, 1)])
def test_weights_of_another_shape(shape, tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.replace(np.zeros(shape), "linear.weights")
    tampered.is_refused("linear.weights has the shape")


@pytest.mark.parametrize("dtype", ["<f4", "<i8", "|b1", "|S8"])
def test_weights_of_another_type(dtype, tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.replace(np.zeros((1, 4), dtype), "linear.weights")
    tampered.is_refused("linear.weights is an array of")


@pytest.mark.parametrize(
    "dtype", [">f8", "<c16", "|O", "<M8[s]", "<U4", "|V8", "<f8,<f8", "nix", 3]
)
def test_data_types_that_no_file_has(dtype, tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.leaves["linear.weights"]["dtype"] = dtype
    tampered.is_refused()


@pytest.mark.parametrize("width", [0, 2, 4, 2**61, -1, 3.0, None])
def test_more_or_fewer_features_than_weights(width, tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.attributes["width"] = width  # the intercept would lie elsewhere
    tampered.is_refused()
    tampered.attributes["features"] = width
    tampered.is_refused()


def test_vectors_behind_the_certificate_of_different_numbers(tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.replace(np.zeros((0, 4)), "linear.witness.mark_share")
    tampered.is_refused("linear.witness do not fit together")


def test_a_witness_of_classes_together_without_marks(tmp_path):
    """The loop would write to them."""
    tampered = Tampered(variant("k-best"), tmp_path)
    tampered.replace(np.zeros((0, 4)), "linear.witness.mark")
    tampered.is_refused("linear.witness do not fit together")


@pytest.mark.parametrize("which", ["averaged", "together"])
def test_averages_that_are_not_kept_or_not_asked_for(which, tmp_path):
    tampered = Tampered(variant(which), tmp_path)
    lines = 0 if which == "averaged" else 3
    tampered.replace(np.zeros((lines, 4)), "linear.witness.average")
    tampered.is_refused("linear.witness.average")


def test_means_whose_past_is_missing(tmp_path):
    """The loop would read behind its end."""
    tampered = Tampered(streamed(made(NORMA, average=True)), tmp_path)
    tampered.replace(np.zeros(0), "linear.witness.past")
    tampered.is_refused("linear.witness.past")


def test_another_number_of_problems(tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.attribute("classes", np.array(["a", "b", "c"]))
    tampered.is_refused(r"linear.weights has the shape \(1, 4\), not \(3, 4\)")


def test_classes_out_of_order(tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.attribute("classes", np.array(["yes", "no"]))
    tampered.is_refused("not in order")


def test_another_number_of_features(tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.attributes["features"] = 5
    tampered.is_refused("3 features, not for 5")


# Where it shows that a model was made for another value.
FIELDS = {
    "p": "linear.geometry.units is missing",
    "kernel": "kernel.gamma",
    "average": "linear.witness.average",
    "budget": "kernel.gamma",
}


def test_a_model_for_other_parameters(tmp_path):
    clf = fitted(made(Perceptron))
    for name, value in {"p": 3.0, "kernel": "rbf", "average": True, "budget": 3}.items():
        tampered = Tampered(clf, tmp_path)
        tampered.structure[name] = value
        tampered.is_refused("parameters" if name in ("kernel", "budget") else FIELDS[name])
    for name, value in {"p": 1.0, "kernel": "sigmoid", "degree": 0, "budget": [], "C": 1}.items():
        tampered = Tampered(clf, tmp_path)
        tampered.structure[name] = value
        tampered.is_refused("parameter")
    for name in Tampered(clf, tmp_path).structure:
        tampered = Tampered(clf, tmp_path)
        del tampered.structure[name]
        tampered.is_refused("parameters")


@pytest.mark.parametrize(("name", "value"), [("degree", 4), ("coef0", 1.0), ("kernel", "rbf")])
def test_a_kernel_for_other_parameters(name, value, tmp_path):
    tampered = Tampered(variant("poly, sparse"), tmp_path)
    tampered.structure[name] = value
    tampered.is_refused("supports.points.squares" if name == "kernel" else f"kernel.{name}")


def test_a_learner_with_the_model_of_another(tmp_path):
    tampered, other = (Tampered(streamed(made(each)), tmp_path) for each in (Perceptron, PUMMA))
    tampered.model["estimator"] = "PUMMA"
    tampered.is_refused("parameters")
    other.leaves.clear()
    other.leaves.update(tampered.leaves)
    other.arrays = tampered.arrays
    other.is_refused("linear.witness.share")


@pytest.mark.parametrize("name", ["os.system", "Certificate", "certify", "object", "Mixture", ""])
def test_classes_that_are_no_learners(name, tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.model["estimator"] = name
    tampered.is_refused()


@pytest.mark.parametrize("name", ["predict", "more", "rounds", "_state", "__class__"])
def test_attributes_that_no_learner_has(name, tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.attributes[name] = {"dict": []}
    tampered.is_refused(f"attributes that no learner has: {name}")


@pytest.mark.parametrize("path", ["linear", "linear.width", "linear.witness.split", "spec", ""])
def test_leaves_that_no_model_has(path, tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.leaves[path] = 3
    tampered.is_refused(f"not one for the parameters: {path}")


@pytest.mark.parametrize("which", ["p-norm", "k-best", "in pairs", "poly, sparse", "random"])
def test_leaves_that_are_missing(which, tmp_path):
    clf = variant(which)
    for path in Tampered(clf, tmp_path).leaves:
        if not path.endswith(("bounds", "kernel.center", "factors")):  # they need not be there
            tampered = Tampered(clf, tmp_path)
            del tampered.leaves[path]
            assert path.removesuffix(".matrix").removesuffix(".X") in tampered.is_refused()


@pytest.mark.parametrize(
    ("which", "path", "value"),
    [
        ("p-norm", "p", 1.5),
        ("p-norm", "tail.offset", -1.0),
        ("p-norm", "tail.private", {"float": "nan"}),
        ("p-norm", "tail.offset", {"float": "inf"}),
        ("p-norm", "tail.offset", 1),
        ("poly, sparse", "kernel.gamma", -0.5),
        ("poly, sparse", "kernel.adapts", 0),
        ("poly, sparse", "kernel.dtype", "float16"),
        ("poly, sparse", "next_mark", -1),
        ("poly, sparse", "next_mark", 2**62),
        ("random", "largest_square", -1.0),
        ("random", "store.dtype", "int64"),
        ("random", "eviction.random", 3),
    ],
)
def test_numbers_that_cannot_be(which, path, value, tmp_path):
    tampered = Tampered(variant(which), tmp_path)
    tampered.leaves[path] = value
    assert path in tampered.is_refused()


@pytest.mark.parametrize("column", ["trials", "mistakes"])
def test_counts_below_zero(column, tmp_path):
    tampered = Tampered(streamed(made(Perceptron)), tmp_path)
    tampered.array("tally")[column] = -1
    tampered.is_refused(f"tally has a {column} that is not a count")


def test_parameters_that_the_learner_has_not(tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.model["parameters"]["__class__"] = 3
    tampered.is_refused("not those of Perceptron")


def test_slots_out_of_range(tmp_path):
    for value in (-1, 5, 2**62):
        tampered = Tampered(streamed(made(Forgetron, budget=4)), tmp_path)
        tampered.array("store.slots.taken")[0] = value
        tampered.is_refused("store.slots.taken")


def test_slots_of_another_number(tmp_path):
    tampered = Tampered(streamed(made(Forgetron, budget=4)), tmp_path)
    tampered.structure["budget"] = 5
    tampered.is_refused("store.points")
    tampered = Tampered(variant("random"), tmp_path)
    tampered.replace(np.zeros((5, 3)), "store.points.0.X")
    tampered.is_refused("store.points")


def test_kernel_values_that_are_not_kept(tmp_path):
    tampered = Tampered(streamed(made(Forgetron, budget=4)), tmp_path)
    tampered.replace(np.zeros((0, 4)), "eviction.inner")
    tampered.is_refused(r"eviction.inner has the shape \(0, 4\)")


def test_a_factor_of_another_size(tmp_path):
    clf = streamed(made(Projectron))
    room = state_of(clf).model.store.capacity()
    tampered = Tampered(clf, tmp_path)
    tampered.replace(np.zeros((room, room - 1)), "eviction.inverse")
    tampered.is_refused("eviction.inverse")


@pytest.mark.parametrize(("name", "value"), [("indptr", 10**6), ("indptr", -1), ("indices", 3)])
def test_sparse_rows_that_point_elsewhere(name, value, tmp_path):
    tampered = Tampered(variant("poly, sparse"), tmp_path)
    tampered.array(f"supports.points.X.{name}")[1] = value
    tampered.is_refused("sparse matrix")


def test_sparse_rows_whose_starts_overflow(tmp_path):
    tampered = Tampered(variant("poly, sparse"), tmp_path)
    # The difference to the next one is positive, in 32 bits.
    tampered.array("supports.points.X.indptr")[1] = -(2**31)
    tampered.is_refused("sparse matrix")


def test_members_that_are_no_supports(tmp_path):
    tampered = Tampered(variant("kernel, in pairs"), tmp_path)
    tampered.array("members")[0, 0] = 1000
    tampered.is_refused("members")
    tampered.array("members")[0, 0] = -3
    tampered.is_refused("members")


def test_a_pair_with_a_private_coordinate_that_is_not_there(tmp_path):
    clf = fitted(made(PUMMA, soft_margin=0.5))
    tampered = Tampered(clf, tmp_path)
    tampered.array("pair.numbers")[0, 0] = X.shape[0]
    tampered.is_refused("pair.numbers")


@pytest.mark.parametrize("value", [-1, 2])
def test_supports_of_no_class(value, tmp_path):
    tampered = Tampered(variant("poly, sparse"), tmp_path)
    tampered.array("supports.labels")[0] = value
    tampered.is_refused("supports.labels")
    tampered = Tampered(variant("oldest"), tmp_path)
    tampered.array("store.labels")[0, 0] = value
    tampered.is_refused("store.labels")


def test_supports_without_squares(tmp_path):
    """Distances are made of them."""
    tampered = Tampered(variant("kernel, in pairs"), tmp_path)
    del tampered.leaves["supports.points.squares"]
    tampered.is_refused("supports.points.squares")


def test_sparse_supports_where_rows_are_numbers(tmp_path):
    gram = X @ X.T
    tampered = Tampered(fitted(made(Perceptron, kernel="precomputed"), gram), tmp_path)
    other = Tampered(variant("poly, sparse"), tmp_path)
    del tampered.leaves["supports.points.X"], tampered.arrays["model.supports.points.X"]
    for path in ("X.data", "X.indices", "X.indptr", "X.matrix"):
        tampered.leaves[f"supports.points.{path}"] = other.leaves[f"supports.points.{path}"]
    tampered.arrays |= {name: other.arrays[name] for name in other.arrays if ".X." in name}
    tampered.is_refused("supports.points.X")


def test_supports_that_are_no_rows_of_the_fit(tmp_path):
    gram = X @ X.T
    tampered = Tampered(fitted(made(Perceptron, kernel="precomputed"), gram), tmp_path)
    tampered.array("supports.points.X")[0] = X.shape[0]
    tampered.is_refused("supports.points.X")


@pytest.mark.parametrize("rounds", [[], [[3]], [[{"tuple": [0.5, "a", 1, "reached"]}]], [[], []]])
def test_rounds_that_are_none(rounds, tmp_path):
    tampered = Tampered(fitted(made(BisectionPerceptron)), tmp_path)
    tampered.attributes["rounds"] = rounds
    if rounds:
        tampered.is_refused()
    else:  # a search that came to no round
        tampered.write()
        assert load(tampered.path).rounds_ == []


def test_bounds_and_margins_of_other_problems(tmp_path):
    clf = fitted(made(Perceptron, kernel="rbf", gamma=0.5), labels=three)
    assert clf.certificate_.bound > 0.0  # from now on bounds are known
    for path in ("bounds", "margins"):
        tampered = Tampered(clf, tmp_path)
        holder = tampered.leaves if path == "bounds" else tampered.attributes
        name = holder[path]["array"]
        tampered.arrays[name] = tampered.arrays[name][:2]
        holder[path]["shape"] = [2]
        tampered.is_refused("for each problem")


def test_more_components_than_there_is_room_for(tmp_path):
    tampered = Tampered(streamed(made(NOCA, max_components=6)), tmp_path)
    tampered.array("mixture.state")["components"] = 7
    tampered.is_refused("mixture do not fit together")


def test_components_of_no_class(tmp_path):
    tampered = Tampered(streamed(made(NOCA, max_components=6)), tmp_path)
    tampered.array("mixture.owners")[0] = 2
    tampered.is_refused("mixture.owners")


def test_random_states_out_of_range(tmp_path):
    clf = Perceptron(random_state=np.random.RandomState(0))
    tampered = Tampered(clf, tmp_path)
    state = dict(tampered.model["parameters"]["random_state"]["state"]["dict"])
    for pair in state["state"]["dict"]:
        if pair[0] == "pos":
            pair[1] = 10**9
    tampered.is_refused("random numbers")


def test_mutated_files_never_do_harm():
    outcomes = fuzz_model_files(500, seed=0)
    assert min(outcomes.values()) > 20  # both things happen


def test_a_loaded_learner_that_was_tampered_with_still_learns(tmp_path):
    """Numbers may be anything: they are the user's business."""
    tampered = Tampered(streamed(made(Perceptron)), tmp_path)
    tampered.array("linear.weights")[0, 0] = 3.25
    tampered.write()
    clf = load(tampered.path)
    assert state_of(clf).model.linear.weights[0, 0] == 3.25
    assert clf.partial_fit(X[:3], ["no", "yes", "no"]).predict(X).size == X.shape[0]
