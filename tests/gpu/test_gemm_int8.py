"""Products of 8-bit integers on a device: exact in all layouts and sizes, tuned or not."""

import autotune.templates  # registers the tasks
import numpy as np
import pytest

import autotune
from autotune.runtime import cuda
from autotune.task import create
from autotune.tvm import nd

pytestmark = pytest.mark.gpu

# m, n, k, batch, whether a and b are transposed, and which of them serves all of a batch.
PRODUCTS = {
    "nt": (512, 1024, 1024, 1, False, True, ""),
    "nn": (512, 1024, 1024, 1, False, False, ""),
    "tn": (200, 1000, 528, 1, True, False, ""),
    "tt": (136, 264, 144, 3, True, True, "b"),
    "edges": (999, 1001, 1008, 1, False, True, ""),
    "any sizes": (777, 1003, 1001, 1, False, True, ""),
    "any sizes, nn": (333, 517, 385, 2, False, False, "a"),
    "few rows": (17, 1030, 516, 1, False, True, ""),
    "few rows, streamed": (17, 1030, 528, 1, False, True, ""),
    "few rows, nn, streamed": (33, 1032, 4112, 1, False, False, ""),
    "one row": (1, 24, 130, 1, False, True, ""),
    "long": (136, 200, 16400, 1, False, True, ""),
    "nn, short": (1056, 1312, 176, 1, False, False, ""),
    "tn, an odd k": (260, 132, 93, 1, True, False, ""),
    "tn, an odd k, batched": (260, 132, 93, 3, True, False, "a"),
    "tt, short": (448, 192, 624, 1, True, True, ""),
    "one row of any length": (1, 1958, 6423, 1, False, True, ""),
    "one row of any length, nn": (1, 597, 4725, 1, False, False, ""),
    "few rows of any length, tn": (9, 301, 4099, 1, True, False, ""),
    "few rows of any length, tt": (40, 199, 5001, 1, True, True, ""),
    "tiny": (48, 67, 13, 1, False, False, ""),
    "one": (1, 1, 1, 1, False, False, ""),
}
DRAWN = 6


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_integers_are_exact_on_the_device(name):
    m, n, k, batch, *turned, shared = PRODUCTS[name]
    rest = (False, "none", False, False, 1.0, shared)
    task = create("gemm.cuda", (m, n, k, "int8", batch, *turned, *rest), "cuda")
    space, rng = task.config_space, np.random.default_rng(0)
    configurations = [space.get(i) for i in space.sample(DRAWN, rng)]
    for config in [task.default(), *configurations]:
        source = task.instantiate(config)
        function, out = autotune.build(source, target="cuda"), source.args[-1]
        a, b = (rng.integers(-128, 128, each.shape).astype(np.int8) for each in source.args[:2])
        wanted = source.reference(a, b)
        for _ in range(3):
            result = nd.array(np.full(out.shape, -1, np.int32), cuda(0))
            function(nd.array(a, cuda(0)), nd.array(b, cuda(0)), result)
            np.testing.assert_array_equal(result.numpy(), wanted, err_msg=str(config))
