"""The programs of a task: its sketches, annotated for its target, with their cost models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from autotune.auto_scheduler.graph.access import AccessAnalyzer
from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.search.analytical.cpu import CpuCostModel
from autotune.auto_scheduler.search.analytical.cpu_parameters import CpuParameters
from autotune.auto_scheduler.search.analytical.gpu import GpuCostModel
from autotune.auto_scheduler.search.analytical.gpu_parameters import GpuParameters
from autotune.auto_scheduler.search.analytical.in_block import InBlockCostModel
from autotune.auto_scheduler.search.analytical.online import OnlineCostModel
from autotune.auto_scheduler.search.analytical.online_warpgroups import OnlineWarpgroupCostModel
from autotune.auto_scheduler.search.analytical.products import ProductCostModel
from autotune.auto_scheduler.search.analytical.several import SeveralCostModel, other_stages
from autotune.auto_scheduler.search.analytical.tensor_cores import (
    TensorCoreCostModel,
    multiplied_stages,
)
from autotune.auto_scheduler.search.analytical.warpgroups import WarpgroupCostModel
from autotune.auto_scheduler.search.params import Param
from autotune.auto_scheduler.search.program_search import AnalyticalCostModel
from autotune.auto_scheduler.search.space.annotate_cpu import cpu_program
from autotune.auto_scheduler.search.space.annotate_gpu import gpu_program
from autotune.auto_scheduler.search.space.program import Program
from autotune.auto_scheduler.sketch import SketchRule, generate_sketches
from autotune.auto_scheduler.sketch.in_block import RowsInBlock
from autotune.auto_scheduler.sketch.lanes import ElementsInOneRun, LanesAlongChannels
from autotune.auto_scheduler.sketch.online import RowsInParts
from autotune.auto_scheduler.sketch.packing import PackInBlock
from autotune.auto_scheduler.sketch.permuted import CopyPermuted
from autotune.auto_scheduler.sketch.phases import SumInPhases
from autotune.auto_scheduler.sketch.plain_sums import SplitPlainSums, parts_of_sums
from autotune.auto_scheduler.sketch.split_reduction import SplitAcrossBlocks
from autotune.auto_scheduler.sketch.stored import StoreOperand
from autotune.auto_scheduler.sketch.tensor_cores import TensorCores
from autotune.auto_scheduler.sketch.transposed_tiles import TransposeTiles
from autotune.auto_scheduler.sketch.transposing import TileTransposed
from autotune.auto_scheduler.sketch.warpgroups import WarpgroupTensorCores
from autotune.auto_scheduler.states.loop_state import StateObject, plain_state
from autotune.auto_scheduler.states.step_trie import StepTrie
from autotune.auto_scheduler.transform_steps import (
    OnlineStep,
    RfactorStep,
    SplitStep,
    TransformStep,
)
from autotune.auto_scheduler.transform_steps.loops import WARPGROUPS, WGMMA
from autotune.te.tensor import Operation
from autotune.utils.garbage import collection_paused
from autotune.utils.math import divisors

# The rules that TVM does not have.
OUR_RULES: tuple[SketchRule, ...] = (
    SumInPhases(),
    SplitAcrossBlocks(),
    SplitPlainSums(),
    ElementsInOneRun(),
    LanesAlongChannels(),
    PackInBlock(),
    RowsInBlock(),
    RowsInParts(),
    TensorCores(),
    WarpgroupTensorCores(),
    CopyPermuted(),
    StoreOperand(),
    TileTransposed(),
    TransposeTiles(),
)
# Most sketches of a task, and of large graphs stages of all sketches together: each takes about a
# millisecond before anything is proposed, and each sketch has to be tried.
_MOST_SKETCHES, _FEWEST_SKETCHES, _MOST_STAGES = 64, 16, 640
# In how many parts a reduction is split that blocks or cores share.
_PARTS = (2, 4, 8, 16, 32, 64)
# The same where two reductions are split, each of which multiplies the programs; and where more
# are, of which the first that divides is taken.
_FEW, _ONE = (8, 32), (16, 8, 32, 4, 2, 64)


@collection_paused()
def sketches_of(
    task: SearchProblem,
    params: Mapping[str, Param],
    custom_rules: Sequence[SketchRule] = (),
    policy: object = None,
) -> list[StateObject]:
    """Return the sketches of a task by TVM's rules and ours; of very many, some."""
    rules = (*custom_rules, *OUR_RULES)
    most = _MOST_STAGES // len(task.compute_dag.init_state.stages)
    most = min(max(most, _FEWEST_SKETCHES), _MOST_SKETCHES)
    found = generate_sketches(task, params, rules, policy, most)
    return [each.state_object for each in found]


def programs_of(
    task: SearchProblem, sketches: Sequence[StateObject], params: Mapping[str, Param]
) -> list[AnalyticalCostModel]:
    """Return the analytical cost models of the programs that sketches become."""
    innermost = int(params["max_innermost_split_factor"])
    on_gpu = task.target.backend.on_gpu
    starts = {dag: StepTrie(plain_state(dag)) for dag in {each.dag for each in sketches}}
    decided = [s for each in sketches for s in with_parts(each, on_gpu, starts[each.dag])]
    hardware = task.hardware_params
    if not on_gpu:
        vector = int(params["max_vectorize_size"])
        rewrite = task.layout_rewrite_option
        made = [cpu_program(each, hardware, innermost, vector) for each in decided]
        host = CpuParameters.of(task.target.mcpu)
        return [CpuCostModel(each, hardware, rewrite, host) for each in made]
    device = GpuParameters.of(task.target, hardware)
    found = [
        gpu_program(each, hardware, innermost, device.sms, starts[each.dag]) for each in decided
    ]
    models = [_gpu_cost_model(each, device) for each in found]
    # Parts of sums may be too short for an instruction, or no multiple of its steps.
    return [
        each
        for each in models
        if not isinstance(each, ProductCostModel | SeveralCostModel) or each.divides_steps
    ]


def _gpu_cost_model(program: Program, device: GpuParameters) -> AnalyticalCostModel:
    multiplied = multiplied_stages(program)
    if not multiplied:
        return GpuCostModel(program, device)
    roots = [program.state.attach[each][0] for each in multiplied]
    if roots[0] in program.state.attach:
        first, second = multiplied
        if not isinstance(program.state.transform_steps[0], OnlineStep):
            return InBlockCostModel(program, first, second, device)
        by_warpgroups = program.state.stages[second].attrs.tensor_core == WGMMA
        kind = OnlineWarpgroupCostModel if by_warpgroups else OnlineCostModel
        return kind(program, first, second, device)
    products = [_product_cost_model(program, each, device) for each in multiplied]
    others = other_stages(program, device)
    several = len(products) > 1 or others.tiled
    return SeveralCostModel(program, products, others) if several else products[0]


def _product_cost_model(
    program: Program, stage_id: int, device: GpuParameters
) -> ProductCostModel:
    if program.state.stages[stage_id].attrs.tensor_core in WARPGROUPS:
        return WarpgroupCostModel(program, stage_id, device)
    return TensorCoreCostModel(program, stage_id, device)


def with_parts(sketch: StateObject, on_gpu: bool, start: StepTrie) -> list[StateObject]:
    """Return a sketch once for each number of parts that its factored reductions may have.

    The shapes of what a factored reduction leaves depend on that number, so it is decided first.

    Args:
        sketch: a sketch, whose lengths may be open.
        on_gpu: whether it is for a GPU.
        start: the plain state of its graph, from which other sketches took steps.
    """
    done = [start]
    steps = sketch.transform_steps
    several = sum(isinstance(step, RfactorStep) for step in steps)
    for place, step in enumerate(steps):
        following = steps[place + 1] if place + 1 < len(steps) else None
        done = [new for node in done for new in _take(node, step, following, several, on_gpu)]
    return [node.state for node in done]


def _take(
    node: StepTrie,
    step: TransformStep,
    following: TransformStep | None,
    several: int,
    on_gpu: bool,
) -> Iterable[StepTrie]:
    """Take a step, with each length that is to be decided; extents are noted as they are now."""
    if not isinstance(step, SplitStep):
        return [node.take(step)]
    state = node.state
    extent = state.stages[step.stage_id].iters[step.iter_id].extent or 0
    step, op = replace(step, extent=extent), state.stages[step.stage_id].op
    if step.lengths != (None,) or not isinstance(following, RfactorStep):
        return [node.take(step)]
    outer = following.iter_id == step.iter_id
    plain = on_gpu and not AccessAnalyzer(state.stage_ops).needs_multi_level_tiling(op)
    parts = _plain_parts(op, extent, several) if plain else _parts(extent, several)
    lengths = [extent // n if outer else n for n in parts]
    return [node.take(replace(step, lengths=(length,))) for length in lengths]


def _parts(extent: int, several: int) -> Sequence[int]:
    """Return into how many parts one of several reductions is split that is so long."""
    tried = _PARTS if several == 1 else _FEW if several == 2 else _ONE
    parts = [n for n in tried if n < extent and n in divisors(extent)]
    return parts[:1] if tried is _ONE else parts


def _plain_parts(op: Operation, extent: int, several: int) -> Sequence[int]:
    """Return the same of one whose terms are read once: those in the middle where several are."""
    parts = [n for n in parts_of_sums(op) if extent % n == 0]
    middle, most = len(parts) // 2, 2 if several == 2 else 1
    return parts if several == 1 else parts[max(middle + 1 - most, 0) : middle + 1]
