"""Winograd's convolution in C: the plain convolution's results, by fewer multiplications."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from autotune.templates import cpu_tiles
from autotune.templates.convolutions import winograd_cpu
from autotune.templates.convolutions.conv2d_shape import Conv2d
from autotune.templates.convolutions.winograd_cpu import Winograd, tile_of
from autotune.templates.convolutions.winograd_cuda import transformed_filters
from autotune.templates.cpu_tiles import VectorUnit
from autotune.templates.epilogue import Epilogue

from autotune import Target
from autotune.driver import build
from autotune.errors import TemplateError
from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.network import compile_network
from autotune.target import Limits
from autotune.task import create

LLVM = Target("llvm")
ALL = Epilogue(True, True, True, "relu")
SHAPE = Winograd(2, 9, 13, 7, 5, 2, (1, 2, 0, 1), "NCHW", ALL)
CHOICE = {"rows": 3, "vectors": 2, "lanes": 4, "block_m": 4, "panels": 2, "channels": 2}


def error_of(shape, choice):
    """Return the largest error of a kernel beside the plain convolution in float64.

    It is relative to the root mean square; outputs are NaN before.
    """
    with LLVM:
        module = build(winograd_cpu.kernel(shape, choice), name="f")
    epilogue = shape.epilogue
    plain = Conv2d(
        shape.images, shape.h, shape.w, shape.co, shape.ci, 3, 3, (1, 1), shape.padding,
        epilogue.bias, epilogue.activation == "relu", epilogue.residual, epilogue.affine,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    data, weight, *operands, out = (rng.standard_normal(a.shape) for a in plain.arguments())
    wanted = plain.reference()(data, weight, *operands)
    arrays = [data, transformed_filters(weight, shape.tile), *operands, np.full_like(out, np.nan)]
    arrays = [each.astype("float32") for each in arrays]
    module(*arrays)
    assert np.isfinite(arrays[-1]).all()
    return np.max(np.abs(arrays[-1] - wanted)) / np.sqrt(np.mean(wanted**2))


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("shape", "changes"),
    [
        (SHAPE, {}),
        (SHAPE, {"panels": 1, "channels": 8, "block_m": 16}),
        (replace(SHAPE, h=3, w=3, padding=(0, 0, 0, 0)), {"vectors": 1}),
        (replace(SHAPE, h=4, w=30, padding=(4, 3, 4, 3), epilogue=Epilogue(residual=True)), {}),
        (Winograd(1, 21, 6, 3, 9), {"panels": 4, "channels": 4, "lanes": 8, "vectors": 1}),
    ],
)
def test_tiles_of_any_image_give_the_plain_convolution(shape, changes):
    for tile in (2, 4):
        assert error_of(replace(shape, tile=tile), CHOICE | changes) < 2e-5


def test_errors_stay_near_those_of_plain_sums_for_many_channels():
    for tile in (2, 4):
        shape = Winograd(1, 12, 12, 16, 256, tile)
        assert error_of(shape, winograd_cpu.default_choice(shape, LLVM)) < 3e-5


@pytest.mark.parametrize(("floats", "registers"), [(8, 16), (16, 32)], ids=["avx2", "avx512"])
@pytest.mark.parametrize("cores", [1, 2, 16])
def test_untuned_tasks_keep_seven_of_eight_cores_busy_and_fit_the_cache(
    monkeypatch, cores, floats, registers
):
    unit = VectorUnit(floats, registers)
    monkeypatch.setattr(cpu_tiles, "vector_unit", lambda target: unit)
    target = SimpleNamespace(limits=Limits(sm_count=cores), attrs={})
    for channels, size in ((512, 7), (256, 14), (128, 28), (64, 56), (16, 224)):
        shape = Winograd(1, size, size, channels, channels)
        choice = winograd_cpu.default_choice(shape, target)
        assert winograd_cpu.violation(shape, choice, target) is None
        assert all(value in winograd_cpu.candidates(shape)[name] for name, value in choice.items())
        width = choice["panels"] * choice["vectors"] * choice["lanes"]
        if tile_of(size, size) == 4:
            tasks = -(-channels // choice["block_m"]) * -(-shape.tiles // width)
            assert 8 * tasks >= 7 * cores


def test_what_is_not_computed_on_a_cpu_is_said():
    with pytest.raises(TemplateError, match="activation must be none or relu on a CPU"):
        create("winograd_conv2d.cpu", (1, 9, 9, 4, 4, 4, 1, False, "silu"), "llvm")


def test_networks_transform_known_filters_once():
    rng = np.random.default_rng(0)
    data = Variable(TensorType((1, 16, 13, 14)), "data")
    weight = Constant.of(rng.normal(size=(20, 16, 3, 3)).astype("float32"))
    bias = Constant.of(rng.normal(size=(20, 1, 1)).astype("float32"))
    conv = apply(ops.Conv2d(padding=(1, 0, 2, 1)), data, weight)
    graph = Graph.of(apply(ops.Relu(), apply(ops.Add(), conv, bias)))
    network = compile_network(graph, LLVM, jobs=2)
    (unit,) = network.plan.kernels
    assert unit.choice.workload.name == "winograd_conv2d.cpu"
    array = rng.normal(size=(1, 16, 13, 14)).astype("float32")
    (got,), (want,) = network.instance()(array), graph.run(array)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)
