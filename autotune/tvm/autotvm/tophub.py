"""AutoTVM's `tophub`: records that ship are used anyway, so a context adds those of files."""

from contextlib import AbstractContextManager, nullcontext

from autotune.record import apply_history_best

__all__ = ["context"]


def context(
    target: object, extra_files: list[str] | None = None, allow_fallback: bool = True
) -> AbstractContextManager[object]:
    """Return a context in which templates use the best records of ``extra_files``.

    Otherwise they use what they use outside of it: the records that ship with the templates, and
    the configurations that run untuned. Nothing is downloaded.

    Args:
        target: not used: each record is for its own.
        extra_files: logs.
        allow_fallback: not used: there is always a configuration that runs.
    """
    del target, allow_fallback
    return apply_history_best(extra_files) if extra_files else nullcontext()
