"""Files with the right checksum and the wrong content are refused, before any loop sees them."""

import numpy as np
import pytest
from fuzzing.modelfiles import fuzz_model_files, put_together, taken_apart
from persistence.states import VARIANTS, X, _learners, fitted, made, streamed

from maxmargin import NOCA, PUMMA, Forgetron, Perceptron, Projectron
from maxmargin.persistence import ModelFileError, load, save


class Tampered:
    """A file taken apart, to be changed and put together again."""

    def __init__(self, clf, folder):
        self.path = folder / "model.mm"
        save(clf, self.path)
        self.header, self.chunks = taken_apart(self.path.read_bytes())
        self.model = self.header["content"]["model"]
        self.attributes = self.model["attributes"]

    def part(self, *names):
        tree = self.attributes["_mixture" if "_mixture" in self.attributes else "_model"]
        for name in names:
            tree = tree["fields"][name]
        return tree

    def array(self, *names):
        """The array of a part, to be written to."""
        number = self.part(*names)["array"]
        entry = self.header["arrays"][number]
        self.chunks[number] = bytearray(self.chunks[number])
        dtype = entry["dtype"]
        dtype = [tuple(each) for each in dtype] if isinstance(dtype, list) else dtype
        return np.frombuffer(self.chunks[number], dtype).reshape(entry["shape"])

    def replace(self, array, *names):
        number = self.part(*names)["array"]
        self.header["arrays"][number] = {"dtype": array.dtype.str, "shape": list(array.shape)}
        self.chunks[number] = array.tobytes()

    def is_refused(self, match=None):
        self.path.write_bytes(put_together(self.header, [bytes(each) for each in self.chunks]))
        with pytest.raises(ModelFileError, match=match) as caught:
            load(self.path)
        return str(caught.value)


def variant(name):
    parameters, rows, labels = VARIANTS[name]
    return streamed(made(_learners(parameters)[0], **parameters), rows, labels)


def test_an_unchanged_file_is_taken(tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.path.write_bytes(put_together(tampered.header, tampered.chunks))
    load(tampered.path)


@pytest.mark.parametrize("shape", [(1, 3), (2, 4), (4,), (0, 4), (1, 4, 1)])
def test_weights_of_another_shape(shape, tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.replace(np.zeros(shape), "linear", "weights")
    assert "weights" in tampered.is_refused()


@pytest.mark.parametrize("dtype", ["<f4", "<i8", "|b1", "|S8"])
def test_weights_of_another_type(dtype, tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.replace(np.zeros((1, 4), dtype), "linear", "weights")
    tampered.is_refused("LinearSpace.weights")


@pytest.mark.parametrize("dtype", [">f8", "<c16", "|O", "<M8[s]", "<U4", "|V8", "f8", "<f8,<f8", 3])
def test_data_types_that_no_file_has(dtype, tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.header["arrays"][0]["dtype"] = dtype
    tampered.is_refused()


def test_more_weights_than_features(tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.part("linear")["fields"]["width"] = 4  # the intercept would lie behind the last one
    tampered.is_refused()


def test_vectors_behind_the_certificate_of_different_numbers(tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.replace(np.zeros((0, 4)), "linear", "witness", "mark_share")
    tampered.is_refused("Witness do not fit together")


def test_another_number_of_problems(tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.attributes["classes_"]["texts"] = ["a", "b", "c"]
    tampered.is_refused("weight vectors for 3 classes")


def test_classes_out_of_order(tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.attributes["classes_"]["texts"] = ["yes", "no"]
    tampered.is_refused("not in order")


def test_another_number_of_features(tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.attributes["n_features_in_"] = 5
    tampered.is_refused("3 features, not for 5")


def test_a_model_for_other_parameters(tmp_path):
    clf = fitted(made(Perceptron))
    for name, value in {"p": 3.0, "kernel": "rbf", "average": True, "budget": 3}.items():
        tampered = Tampered(clf, tmp_path)
        settings = dict(tampered.attributes["_structure"]["dict"])
        tampered.attributes["_structure"]["dict"] = [*(settings | {name: value}).items()]
        tampered.is_refused("parameters")


def test_a_learner_with_the_model_of_another(tmp_path):
    tampered, other = (Tampered(streamed(made(each)), tmp_path) for each in (Perceptron, PUMMA))
    tampered.model["estimator"] = "PUMMA"
    tampered.is_refused("parameters")
    other.attributes["_model"] = tampered.attributes["_model"]
    other.chunks, other.header["arrays"] = tampered.chunks, tampered.header["arrays"]
    other.is_refused()


@pytest.mark.parametrize("name", ["os.system", "Certificate", "certify", "object", "Mixture", ""])
def test_classes_that_are_no_learners(name, tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.model["estimator"] = name
    tampered.is_refused()
    tampered.model["estimator"] = "Perceptron"
    tampered.attributes["_model"]["part"] = name
    tampered.is_refused()


def test_attributes_that_no_learner_has(tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.attributes["predict"] = 3
    tampered.is_refused("attributes that no learner has")


def test_parameters_that_the_learner_has_not(tmp_path):
    tampered = Tampered(fitted(made(Perceptron)), tmp_path)
    tampered.model["parameters"]["__class__"] = 3
    tampered.is_refused("not those of Perceptron")


def test_slots_out_of_range(tmp_path):
    for value in (-1, 5, 2**62):
        tampered = Tampered(streamed(made(Forgetron, budget=4)), tmp_path)
        tampered.array("slots", "taken")[0] = value
        tampered.is_refused("Slots.taken")


def test_slots_of_another_number(tmp_path):
    tampered = Tampered(streamed(made(Forgetron, budget=4)), tmp_path)
    tampered.part()["fields"]["room"] = tampered.part()["fields"]["budget"] = 5
    tampered.is_refused()


def test_kernel_values_that_are_not_kept(tmp_path):
    tampered = Tampered(streamed(made(Forgetron, budget=4)), tmp_path)
    tampered.replace(np.zeros((0, 4)), "keeper", "inner")
    tampered.is_refused("Replacing do not fit together")


def test_a_factor_of_another_size(tmp_path):
    clf = streamed(made(Projectron))
    room = clf._state.model.room
    tampered = Tampered(clf, tmp_path)
    tampered.replace(np.zeros((room, room - 1)), "keeper", "inverse")
    tampered.is_refused("Projecting.inverse")


@pytest.mark.parametrize(("name", "value"), [("indptr", 10**6), ("indptr", -1), ("indices", 3)])
def test_sparse_rows_that_point_elsewhere(name, value, tmp_path):
    tampered = Tampered(variant("poly, sparse"), tmp_path)
    number = tampered.part()["fields"]["supports"]["X"]["csr"][name]["array"]
    array = np.frombuffer(tampered.chunks[number], "<i4").copy()
    array[1] = value
    tampered.chunks[number] = array.tobytes()
    tampered.is_refused("sparse matrix")


def test_sparse_rows_whose_starts_overflow(tmp_path):
    tampered = Tampered(variant("poly, sparse"), tmp_path)
    number = tampered.part()["fields"]["supports"]["X"]["csr"]["indptr"]["array"]
    array = np.frombuffer(tampered.chunks[number], "<i4").copy()
    array[1] = -(2**31)  # the difference to the next one is positive, in 32 bits
    tampered.chunks[number] = array.tobytes()
    tampered.is_refused("sparse matrix")


def test_members_that_are_no_supports(tmp_path):
    tampered = Tampered(variant("kernel, in pairs"), tmp_path)
    tampered.array("members")[0, 0] = 1000
    tampered.is_refused("members")


def test_more_components_than_there_is_room_for(tmp_path):
    tampered = Tampered(streamed(made(NOCA, max_components=6)), tmp_path)
    tampered.array("state")["components"] = 7
    tampered.is_refused("Mixture do not fit together")


def test_components_of_no_class(tmp_path):
    tampered = Tampered(streamed(made(NOCA, max_components=6)), tmp_path)
    tampered.array("owners")[0] = 2
    tampered.is_refused("Mixture.owners")


def test_random_states_out_of_range(tmp_path):
    clf = Perceptron(random_state=np.random.RandomState(0))
    tampered = Tampered(clf, tmp_path)
    state = dict(tampered.model["parameters"]["random_state"]["random"]["state"]["dict"])
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
    tampered.array("linear", "weights")[0, 0] = 3.25
    tampered.path.write_bytes(put_together(tampered.header, [bytes(c) for c in tampered.chunks]))
    clf = load(tampered.path)
    assert clf._state.model.linear.weights[0, 0] == 3.25
    assert clf.partial_fit(X[:3], ["no", "yes", "no"]).predict(X).size == X.shape[0]
