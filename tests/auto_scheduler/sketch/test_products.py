"""What rules know of products in a graph."""

import gc
import weakref

from autotune.auto_scheduler.sketch.products import product_of
from autotune.auto_scheduler.transform_steps.loops import TENSOR_CORE, WGMMA
from tests.auto_scheduler.tensor_core_programs import product


def test_what_is_known_of_an_operation_does_not_keep_it():
    op = product(64, 64, 64)[-1].op
    assert product_of(op, TENSOR_CORE) is product_of(op, TENSOR_CORE) is not None
    assert product_of(op, WGMMA) is not None
    kept = weakref.ref(op)
    del op
    gc.collect()
    assert kept() is None
