"""Products on a CPU with packed weights, and batches of operands that may be transposed."""

import itertools

import numpy as np
import pytest
from autotune.templates import cpu_tiles
from autotune.templates.cpu_tiles import VectorUnit
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_batched_cpu, gemm_packed_cpu
from autotune.templates.products.gemm_packed_cpu import PackedGemm
from autotune.templates.products.gemm_shape import Gemm

from autotune import Target
from autotune.errors import TemplateError
from autotune.graph import ops
from tests.templates.on_cpu import run_over_nan

# Rows, columns and products of a sum that tiles and parts do not divide.
EXTENTS = [(1, 1, 1), (3, 17, 70), (13, 64, 33), (40, 100, 130), (37, 5, 200)]
TILES = [(6, 4, 16, 64), (5, 2, 8, 64), (14, 1, 4, 128), (4, 3, 8, 96)]


@pytest.mark.many_cases
@pytest.mark.parametrize(("rows", "vectors", "lanes", "depth"), TILES)
@pytest.mark.parametrize("number", range(len(EXTENTS)))
def test_blocks_of_weights_give_the_right_sums(number, rows, vectors, lanes, depth):
    """All extents with both blocks, of which one goes by panels."""
    tile, (m, n, k) = {"rows": rows, "vectors": vectors, "depth": depth}, EXTENTS[number]
    bias, residual, relu = [*itertools.product([False, True], repeat=3)][number]
    epilogue = Epilogue(bias, residual, False, "relu" if relu else "none")
    shape = PackedGemm(m, n, k, epilogue=epilogue, columns=lanes)
    for j, (block_m, panels) in enumerate(((16, 2), (64, 1))):
        block = {"block_m": block_m, "panels": panels, "by_panels": (number + j) % 2}
        run_over_nan(shape, gemm_packed_cpu, tile | block)


@pytest.mark.many_cases
@pytest.mark.parametrize("transposed", [*itertools.product([False, True], repeat=2)])
@pytest.mark.parametrize("number", range(len(TILES)))
def test_batches_of_transposed_operands_give_the_right_sums(number, transposed):
    """Each tile and each pair of operands has all extents, together every second one."""
    tile = dict(zip(("rows", "vectors", "lanes", "depth"), TILES[number], strict=True))
    tile["block_m"] = 16
    every = [*zip(EXTENTS, ("", "a", "b", "", "b"), strict=True)]
    for (m, n, k), shared in every[(number + sum(transposed)) % 2 :: 2]:
        run_over_nan(Gemm(m, n, k, "float32", 2, *transposed, shared), gemm_batched_cpu, tile)


@pytest.mark.parametrize("columns", [4, 8, 16])
@pytest.mark.parametrize("unit", [VectorUnit(16, 32), VectorUnit(8, 16)])
def test_untuned_choices_are_in_the_space_whatever_vectors_a_block_has(unit, columns, monkeypatch):
    monkeypatch.setattr(cpu_tiles, "vector_unit", lambda _: unit)
    with Target("llvm") as current:
        for m, n, k in (*EXTENTS, (197, 3072, 768), (128, 768, 3072), (2048, 50257, 768)):
            packed = PackedGemm(m, n, k, columns=columns)
            for family, shape in ((gemm_packed_cpu, packed), (gemm_batched_cpu, Gemm(m, n, k))):
                choice = family.default_choice(shape, current)
                assert family.violation(shape, choice, current) is None
                options = family.candidates(shape)
                assert all(value in options[name] for name, value in choice.items())


def test_weights_are_packed_in_blocks_of_outputs_with_zeros_beyond():
    weight = np.arange(15, dtype="float32").reshape(5, 3)
    packed = ops.PackedWeight(4).reference(weight)
    assert packed.shape == (2, 3, 4)
    assert packed[0].tolist() == weight[:4].T.tolist()
    assert packed[1].tolist() == [[12, 0, 0, 0], [13, 0, 0, 0], [14, 0, 0, 0]]


def test_other_blocks_and_activations_are_refused():
    with pytest.raises(TemplateError, match="blocks have 4, 8, 16 columns"):
        PackedGemm(4, 4, 4, columns=5)
    with pytest.raises(TemplateError, match="bias, residual and ReLU"):
        PackedGemm(4, 4, 4, epilogue=Epilogue(activation="gelu"))
