"""Few long rows are divided among blocks, and come out as whole ones do."""

import autotune.templates
import numpy as np
import pytest
from autotune.templates.rows import rows_cuda, scan_cuda
from autotune.templates.rows.rows_shape import Rows
from autotune.templates.rows.scan_cuda import Scan
from autotune.templates.rows.split_rows import SplitRows

from autotune.emulator import run_emulated
from autotune.task import create
from tests.templates.emulated import arrays_of

ROWS, SCANS = SplitRows(rows_cuda), SplitRows(scan_cuda)
GROUPS = Rows("layer_norm", 4, 600, "float32", 1e-5, True, True, channels=6, groups=2)
ODD_GROUPS = Rows("layer_norm", 4, 606, "float32", 1e-5, True, True, channels=6, groups=2)
CASES = [
    (ROWS, Rows("softmax", 3, 1003), {"keep": 0, "vec": 1}, 1e-5),
    (ROWS, Rows("log_softmax", 2, 1000), {"keep": 0, "vec": 4}, 1e-5),
    (ROWS, Rows("layer_norm", 2, 1000, "float16", 1e-5, True, True), {"keep": 0, "vec": 8}, 2e-3),
    (ROWS, Rows("rms_norm", 1, 1001, "bfloat16", 1e-5, True), {"keep": 0, "vec": 1}, 1e-2),
    (ROWS, GROUPS, {"keep": 0, "vec": 2}, 1e-5),
    (ROWS, Rows("softmax", 3, 1003, "float16"), {"keep": 0, "vec": 8}, 2e-3),
    (ROWS, Rows("layer_norm", 3, 1003, epsilon=1e-5, gain=True), {"keep": 0, "vec": 4}, 1e-5),
    (ROWS, ODD_GROUPS, {"keep": 0, "vec": 4}, 1e-5),
    (SCANS, Scan(2, 1003), {"items": 4, "vec": 1}, 1e-5),
    (SCANS, Scan(3, 1003), {"items": 2, "vec": 4}, 1e-5),
    (SCANS, Scan(3, 1511, "float16"), {"items": 1, "vec": 8}, 2e-3),
    (SCANS, Scan(1, 1003), {"items": 2, "vec": 4}, 1e-5),
    (SCANS, Scan(1, 1511, "bfloat16"), {"items": 1, "vec": 8}, 1e-2),
    (SCANS, Scan(1, 4096, "float16"), {"items": 2, "vec": 8}, 2e-3),
]  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("split", [2, 8, 64])
@pytest.mark.parametrize(("family", "shape", "knobs", "rtol"), CASES)
def test_rows_that_are_divided_match_their_reference_in_the_emulator(
    family, shape, knobs, rtol, split
):
    source = family.kernel(shape, {"threads": 64, "rows": 1, "split": split, **knobs})
    arrays = arrays_of(source)
    run_emulated(source.kernel("cuda"), arrays, orders=(0, 1))
    wanted = source.reference(*(each.astype(np.float64) for each in arrays[:-1]))
    error = np.abs(arrays[-1].astype(np.float64) - wanted).max()
    assert error < rtol * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("name", "args", "split"),
    [
        ("softmax", (7, 250_001), 64), ("cumsum", (1, 1_000_003), 256),
        ("group_norm", (2, 320, 4096, 32), 8), ("layer_norm", (4096, 4096), None),
        ("log_softmax", (131, 262_147, "float16"), 4), ("softmax", (200, 131_072), None),
    ],
)  # fmt: skip
def test_untuned_few_long_rows_fill_a_device_and_many_have_no_such_knob(name, args, split):
    default = create(f"{name}.cuda", args, "cuda -arch=sm_90").default()
    knobs = {row[0]: row[2] for row in default.to_json_dict()["entity"]}
    assert knobs.get("split") == split


@pytest.mark.parametrize("name", ["softmax", "cumsum"])
def test_untuned_vectors_of_few_long_rows_have_16_bytes_whether_they_divide_rows_or_not(name):
    default = create(f"{name}.cuda", (7, 250_001, "float16"), "cuda -arch=sm_90").default()
    assert default["vec"].val == 8


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 44783), (16, 16384), (16, 26572), (33, 8192)])
@pytest.mark.parametrize("name", ["cumsum", "softmax"])
def test_what_an_untuned_row_takes_is_in_its_space(name, rows, columns, dtype):
    assert create(f"{name}.cuda", (rows, columns, dtype), "cuda -arch=sm_90").default() is not None


def test_a_record_from_before_rows_could_be_divided_still_makes_its_kernel():
    task = create("softmax.cuda", (7, 250_001), "cuda -arch=sm_90")
    old = {"threads": 1024, "rows": 1, "vec": 1, "keep": 0}
    shape = Rows("softmax", 7, 250_001)
    entity = [[name, "ot", value] for name, value in old.items()]
    config = autotune.task.ConfigEntity.from_json_dict(
        {"index": 0, "code_hash": None, "entity": entity}
    )
    made = task.instantiate(config).kernel("cuda")
    assert made.source == rows_cuda.kernel(shape, old).kernel("cuda").source
