"""The kinds of knobs. A kind is a file: its entity, and the space that enumerates it.

To add one, copy `option`, and name it here; `Knobs.define` takes it, and nothing else asks which
kinds there are.
"""

from autotune.task.kinds.annotate import AnnotateEntity, AnnotateSpace
from autotune.task.kinds.entity import Entity, SequenceEntity, entity_from_json
from autotune.task.kinds.option import OtherOptionEntity, OtherOptionSpace
from autotune.task.kinds.reorder import Chains, ReorderEntity, ReorderSpace
from autotune.task.kinds.split import NO_MAX_FACTOR, SplitEntity, SplitFilter, SplitSpace
from autotune.task.kinds.stand_in import Elements, StandIn, StandInMaker
from autotune.task.kinds.transform_space import FloatTable, IntTable, TransformSpace

__all__ = [
    "NO_MAX_FACTOR",
    "AnnotateEntity",
    "AnnotateSpace",
    "Chains",
    "Elements",
    "Entity",
    "FloatTable",
    "IntTable",
    "OtherOptionEntity",
    "OtherOptionSpace",
    "ReorderEntity",
    "ReorderSpace",
    "SequenceEntity",
    "SplitEntity",
    "SplitFilter",
    "SplitSpace",
    "StandIn",
    "StandInMaker",
    "TransformSpace",
    "entity_from_json",
]
