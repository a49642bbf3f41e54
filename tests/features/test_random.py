"""What features say of random schedules agrees with their lowered loops."""

import random
from math import prod

import pytest

from autotune.features import ana_lower, get_itervar_feature
from autotune.ir.visitor import Visitor
from autotune.lowering import lower_schedule
from tests.lowering.random_schedules import cpu, gpu
from tests.lowering.workloads import ALL


class Stores(Visitor):
    """Collects how often each store runs, by the name of its buffer."""

    def __init__(self):
        self.found, self.around = [], []

    def visit_For(self, node):
        self.around.append(node.extent.value)
        self.visit(node.body)
        self.around.pop()

    def visit_Store(self, node):
        self.found.append((node.buffer.name, prod(self.around)))


def lowered_stores(schedule, args):
    nests, stores = {}, Stores()
    lower_schedule(schedule, args, hook=nests.__setitem__)
    for _, nest in nests["make_nests"]:
        stores.visit(nest)
    return stores.found


@pytest.mark.parametrize("seed", range(24))
def test_every_store_runs_as_often_as_the_features_say(seed):
    rng = random.Random(seed)
    work = list(ALL.values())[seed % len(ALL)]()
    schedule = (cpu if seed % 2 else gpu)(rng, work)
    nest = ana_lower(schedule, work.args)
    runs = {a.name: prod(nest.loops[i].extent for i in a.loops) for a in nest.accesses}
    by_tensor = {}
    for name, count in runs.items():
        by_tensor.setdefault(name.rpartition("_")[0], []).append(count)
    stored = [pair for pair in lowered_stores(schedule, work.args) if pair[0] in by_tensor]
    assert stored
    for tensor, count in stored:
        # A store that sets the first value of a reduction is no part of the features.
        assert count in by_tensor[tensor] or count < max(by_tensor[tensor])
    outermost = [loop for loop in get_itervar_feature(schedule, work.args) if loop[1][2] == 1]
    counted = {block[0]: block[3] * block[4] for loop in outermost for block in loop[3:]}
    assert counted == runs
