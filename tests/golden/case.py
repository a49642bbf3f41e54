"""The cases whose loops and text are kept, and what most of their schedules do."""

from functools import partial

from autotune import te

# Name -> language and what returns a schedule and its arguments.
CASES = {}


def case(*languages):
    """Register a function that returns a schedule and its arguments.

    One that is registered for several languages is told which.
    """

    def register(function):
        for language in languages:
            build = partial(function, language) if len(languages) > 1 else function
            CASES[f"{function.__name__}_{language}"] = (language, build)
        return function

    return register


def bind(stage, **axes):
    """Bind axes: bind(stage, bx=i, tx=j)."""
    for short, axis in axes.items():
        word = {"b": "blockIdx", "t": "threadIdx"}.get(short[0])
        stage.bind(axis, te.thread_axis(f"{word}.{short[1]}" if word else "vthread"))


def flat(stage, size=64):
    """Bind the fused data axes of a stage to blocks and threads."""
    outer, inner = stage.split(stage.fuse(*stage.op.axis), factor=size)
    bind(stage, bx=outer, tx=inner)
    return outer, inner


def fetch(stage, size, lanes=1):
    """Let the threads of a block fill a shared stage together."""
    fused = stage.fuse(*stage.op.axis)
    if lanes > 1:
        fused, vector = stage.split(fused, factor=lanes)
        stage.vectorize(vector)
    _, inner = stage.split(fused, factor=size)
    bind(stage, tx=inner)
