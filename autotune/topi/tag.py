"""Tags of operators, from which schedules and fusion know what kind of compute it is."""

ELEMWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
COMM_REDUCE_IDX = "comm_reduce_idx"


def is_broadcast(tag: str) -> bool:
    """Return whether the tag is of an elementwise or broadcasting operator."""
    return tag in (ELEMWISE, BROADCAST) or tag.startswith((ELEMWISE + ",", BROADCAST + ","))


def is_injective(tag: str) -> bool:
    """Return whether each output element depends on one element of each input."""
    return is_broadcast(tag) or tag == INJECTIVE or tag.startswith(INJECTIVE + ",")
