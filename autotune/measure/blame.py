"""Who is to blame when a process dies over a trial: the trial, or somebody else.

A trial is never judged by what others did. A signal that the system sends for what code did itself
(an invalid access, an abort) convicts the code that the process ran. A kill from outside (another
user of the machine, the out-of-memory killer, a batch system) says nothing, however a compiler or
a kernel that needs too much memory, or kills its own parent, dies of the same; so the trial is
done again in a fresh process, and is blamed when it has died so `STRIKES` times in a row.
"""

from __future__ import annotations

import signal

# Deaths in a row, each in another process, after which the trial itself is held to be the cause.
STRIKES = 3

_FROM_OUTSIDE = frozenset(
    {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT}
)


def killed_from_outside(exit_code: int | None) -> bool:
    """Whether another process ended the one with this exit status, as far as can be told.

    Args:
        exit_code: negative for a signal; None when it is not known.
    """
    return exit_code is not None and -exit_code in _FROM_OUTSIDE


def struck_out(message: str, strikes: int = STRIKES) -> str:
    """Return the message of a trial that is blamed after all, with why in its first line."""
    first, newline, rest = message.partition("\n")
    return f"{first}, {strikes} times in a row{newline}{rest}"
