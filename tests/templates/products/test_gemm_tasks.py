"""Tasks of products on a CPU: their sizes, and the order in which threads take them."""

import heapq
import subprocess
from types import SimpleNamespace

import pytest
from autotune.templates import common, cpu_tiles
from autotune.templates.cpu_tiles import VectorUnit
from autotune.templates.products import gemm_cpu, gemm_packed_cpu
from autotune.templates.products.gemm_packed_cpu import PackedGemm
from autotune.templates.products.gemm_shape import Gemm

from autotune.target import Limits

# A task that prints its rows and columns, instead of what multiplies.
PRINTED = """
#include <stdio.h>
static void task(int rows, int depth, int from, int to, const float* a, const float* b, float* c) {
  printf("%d %d\\n", rows, to - from);
}
"""


def tasks(shape, folder):
    """Returns rows and columns of the tasks of an untuned product on two cores, in their order."""
    target = SimpleNamespace(limits=Limits(sm_count=2), attrs={})
    kernel = gemm_cpu.kernel(shape, gemm_cpu.default_choice(shape, target))
    defines = "".join(f"#define {name} {value}\n" for name, value in kernel.defines.items())
    text = common.text("vectors.h", "tile.h", "even_parts.h", "gemm_tasks.c")
    text = text.replace("#define ALL_PANELS", PRINTED + "#define ALL_PANELS", 1)
    (folder / "f.c").write_text(f"{defines}{text}\nint main() {{ gemm_nn(0, 0, 0); }}\n")
    subprocess.run(["cc", "-O0", "-w", "-o", "f", "f.c"], cwd=folder, check=True)
    said = subprocess.run(["./f"], cwd=folder, check=True, capture_output=True, text=True).stdout
    return [tuple(map(int, line.split())) for line in said.splitlines()]


@pytest.mark.parametrize("shape", [(512, 512, 512), (1000, 1000, 1000), (333, 611, 420)])
def test_two_cores_that_take_the_tasks_of_a_product_end_together(shape, tmp_path, monkeypatch):
    monkeypatch.setattr(cpu_tiles, "vector_unit", lambda _: VectorUnit(16, 32))
    m, n, _ = shape
    sizes = [rows * columns for rows, columns in tasks(Gemm(*shape), tmp_path)]
    ends = [0, 0]
    for size in sizes:
        heapq.heapreplace(ends, ends[0] + size)
    assert sum(sizes) == m * n
    assert max(ends) <= 1.01 * m * n / 2


def test_each_task_of_packed_weights_prefetches_the_whole_next_part_of_a_panel():
    """By the tiles that the smallest task has."""
    shape = PackedGemm(34, 512, 256)
    choice = {"rows": 4, "vectors": 2, "by_panels": 0, "block_m": 16, "panels": 2, "depth": 128}
    fetched = int(gemm_packed_cpu.kernel(shape, choice).defines["FETCHED"])
    # Nine tiles in three parts.
    assert cpu_tiles.least_units(34, 16, 4) == 3
    assert 3 * fetched >= 16 > 3 * (fetched - 1)
