"""A folder of their own for the temporary files of tests, of which nothing stays behind.

What autotune leaves on purpose, for its user to read or to append to a log, nobody fetches here.
"""

import contextlib
import multiprocessing.util
import os
import shutil
import tempfile

import pytest


@contextlib.contextmanager
def own_temporary_files():
    """Have this process, and those that it starts, make temporary files in a folder that goes."""
    multiprocessing.util.get_temp_dir()  # removed at exit, by who must find it there
    folder = tempfile.mkdtemp(prefix="autotune-tests-")  # short, as paths of sockets are
    os.chmod(folder, 0o711)  # PostgreSQL runs as another user
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield
    shutil.rmtree(folder, ignore_errors=True)
