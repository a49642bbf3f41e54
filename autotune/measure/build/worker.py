"""The child process that compiles: one kernel after another, until its parent ends.

Started by `autotune.measure.build.pool`. A compiler that hangs is killed here. A crash of the
compiler is distinguished from a refusal of the source, since the parent then tries again.
"""

from __future__ import annotations

import os

from autotune.errors import (
    AutotuneError,
    CompilerCrashed,
    CompilerMissing,
    CompileTimeout,
)
from autotune.measure.build.job import BuildJob, BuildReply, Compiled, NotCompiled, to_json
from autotune.runtime.compile.compile_kernel import compile_kernel
from autotune.target import Target
from autotune.utils.child import Port, error_text

_NICENESS = 10


def main(port: Port) -> None:
    """Serve build jobs; the first message only asks whether it is ready.

    Compilers give way to the process that measures, whose launches must not wait for a core.
    """
    os.nice(_NICENESS)
    port.watch()
    port.receive()
    port.send({})
    while True:
        port.send(to_json(_reply(port.receive())))


def _reply(job: BuildJob) -> BuildReply:
    try:
        output = compile_kernel(
            job.kernel,
            Target(job.target),
            timeout_s=job.timeout_s,
            compiler=job.compiler,
            out_dir=job.out_dir,
            use_cache=job.use_cache,
        )
    except CompileTimeout as error:
        return NotCompiled("timeout", str(error))
    except CompilerMissing as error:
        return NotCompiled("missing", str(error))
    except CompilerCrashed as error:
        return NotCompiled("crashed", str(error), error.killed)
    except AutotuneError as error:
        return NotCompiled("refused", str(error))
    except MemoryError as error:
        return NotCompiled("crashed", f"out of memory while compiling: {error}")
    except OSError as error:  # no more descriptors, processes or space on the disk
        return NotCompiled("crashed", f"{type(error).__name__}: {error}")
    except Exception as error:  # a process border: the parent turns it into a failed trial
        return NotCompiled("unknown", error_text(error))
    return Compiled(output.artifact, output.resources, output.code_hash)
