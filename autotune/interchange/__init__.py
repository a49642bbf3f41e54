"""Files of other tuners: reading them as records, and writing records as such files.

`import_files` reads those of Kernel Tuner, T1, T4 and Triton as records, `write_t4` writes records
as T4. A format is a module, and a row of `READERS`.
"""

from autotune.interchange.expressions import Expression, ExpressionRefused
from autotune.interchange.foreign_files import ForeignFileError
from autotune.interchange.formats import READERS, Imported, import_files, read_foreign
from autotune.interchange.kernel_tuner import read_cache_file, read_kernel_tuner
from autotune.interchange.records import records_of
from autotune.interchange.t1 import Problem, read_t1
from autotune.interchange.t4 import read_t4
from autotune.interchange.t4_writer import to_t4, write_t4
from autotune.interchange.trials import Trial, Trials
from autotune.interchange.triton import read_triton

__all__ = [
    "READERS",
    "Expression",
    "ExpressionRefused",
    "ForeignFileError",
    "Imported",
    "Problem",
    "Trial",
    "Trials",
    "import_files",
    "read_cache_file",
    "read_foreign",
    "read_kernel_tuner",
    "read_t1",
    "read_t4",
    "read_triton",
    "records_of",
    "to_t4",
    "write_t4",
]
