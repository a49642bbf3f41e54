"""ONNX's own cases of single operators, with inputs and outputs, on the CPU."""

import warnings
import zlib
from functools import cache

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.graph import free_variables
from autotune.importers import from_onnx
from autotune.importers.onnx.call import UnknownInput
from autotune.network import compile_network
from tests.importers.onnx.unsupported import UNSUPPORTED

onnx = pytest.importorskip("onnx")
# Other versions have other cases: new operators, and in old ones wrong results.
same_version = pytest.mark.skipif(
    not onnx.__version__.startswith("1.23."), reason="the list is of the cases of onnx 1.23"
)
NUMBERS = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13}
# Each of these is compiled as well; the others are computed in numpy.
COMPILED = (
    "conv", "pool", "gemm", "matmul", "einsum", "lstm", "gru", "rnn", "attention", "softmax",
    "layer_normalization", "instancenorm", "group_normalization", "lrn", "gather", "scatter",
    "top_k", "resize", "upsample", "pad", "onehot", "cumsum", "where", "argmax", "reduce_l2",
    "reduce_log_sum_exp", "slice", "split", "depthtospace", "bitshift", "mod", "div", "pow",
    "clip", "prelu", "gelu", "dft", "quantizelinear", "if", "loop", "scan", "tile", "isinf",
    "cumprod", "col2im", "tensorscatter", "maxpool_with_argmax", "maxunpool",
    "deform_conv", "tfidfvectorizer",
)  # fmt: skip


# ONNX computes its expected results in loops of Python. Of three cases that takes as long as all
# else here, and they are left out, but where all cases run.
MOST_WINDOWS = 1 << 15


@pytest.fixture(scope="module", autouse=True)
def quick_references(pytestconfig):
    common = pytest.importorskip("onnx.reference.ops.op_pool_common")
    pool = common.pool

    def quick(padded, x_shape, kernel, strides, out_shape, *rest, **more):
        made = (*x_shape[:2], *out_shape)
        if np.prod(made) > MOST_WINDOWS:
            return np.full(made, np.nan, padded.dtype)
        return pool(padded, x_shape, kernel, strides, out_shape, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        if not pytestconfig.getoption("--all-cases"):
            patch.setattr(common, "pool", quick)
        yield


def has_results(case):
    expected = numbers(case.data_sets[0][1][0])
    return expected.size <= MOST_WINDOWS or not np.isnan(expected).all()


@cache
def cases():
    """Return all cases of numbers of the dtypes that there are here."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    return {each.name: each for each in found if is_of_numbers(each.model) and has_results(each)}


def is_of_numbers(model):
    types = [each.type for each in (*model.graph.input, *model.graph.output)]
    kinds = {each.WhichOneof("value") for each in types}
    own = all(node.domain in ("", "ai.onnx") for node in model.graph.node)
    return kinds == {"tensor_type"} and own and {t.tensor_type.elem_type for t in types} <= NUMBERS


def numbers(given):
    """Return the array of an input or output, which may be a protobuf."""
    from onnx import numpy_helper

    return numpy_helper.to_array(given) if hasattr(given, "data_type") else np.asarray(given)


def imported(case):
    """Read the model of a case; inputs that must be known are given as values."""
    arrays = [numbers(each) for each in case.data_sets[0][0]]
    given = dict(zip([each.name for each in case.model.graph.input], arrays, strict=True))
    values = {k: v for k, v in given.items() if not v.size and v.dtype.kind in "iu"}
    while True:
        shapes = {k: v.shape for k, v in given.items() if k not in values and v.ndim}
        try:
            network = from_onnx(case.model.SerializeToString(), shapes, values=values)
        except UnknownInput as error:
            values |= {each.name: given[each.name] for each in free_variables([error.value])}
            continue
        return network, [given[each.name] for each in network.graph.inputs]


def check(case, compiled=False):
    network, arrays = imported(case)
    if compiled:
        results = [
            each.numpy() for each in compile_network(network.graph, "c").instance()(*arrays)
        ]
    else:
        results = network.graph.run(*arrays, dtype=None)
    for result, expected in zip(results, case.data_sets[0][1], strict=True):
        expected = numbers(expected)
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        tolerance = 1e-2 if expected.dtype == "float16" else 1e-3
        wide = [np.asarray(each, "float64") for each in (result, expected)]
        np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance * 1e-2)


@same_version
def test_cases_of_single_operators_give_the_results_of_onnx(pytestconfig):
    """One case in eight by default, as of the tests that have many."""
    failed = {}
    some = 1 if pytestconfig.getoption("--all-cases") else 8
    for name, case in cases().items():
        if name in UNSUPPORTED or zlib.crc32(name.encode()) % some:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check(case)
        except Exception as error:  # all of them are listed
            failed[name] = f"{type(error).__name__}: {str(error)[:200]}"
    assert not failed, "\n".join(f"{name}: {error}" for name, error in failed.items())


@same_version
def test_what_is_listed_as_unsupported_is():
    working = []
    for name in UNSUPPORTED & cases().keys():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check(cases()[name])
        except (GraphError, AssertionError):
            continue
        working.append(name)
    assert not working, f"remove these from the list: {working}"


def compiled_names():
    """Return one case of each operator that is compiled: the first that is supported."""
    found = {}
    for name in cases():
        kind = next((each for each in COMPILED if name.startswith(f"test_{each}")), None)
        if kind and name not in UNSUPPORTED and "expanded" not in name:
            found.setdefault(kind, name)
    return found


def test_a_case_of_each_family_is_compiled():
    for name in compiled_names().values():
        check(cases()[name], compiled=True)
