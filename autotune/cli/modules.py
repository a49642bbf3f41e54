"""Finding the templates a command needs: by module name, or in a file of the user's."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TypeVar

import click

from autotune.errors import AutotuneError, TemplateError

AnyPath = TypeVar("AnyPath", Path, Path | str)


def import_templates(modules: Sequence[str], files: Sequence[Path] = ()) -> None:
    """Import modules and files that register templates.

    Modules are found in the working directory too, as ``python -m`` finds them, and what a file
    imports is found beside it, as when it is run. A file is not ``__main__``: what it does under
    ``if __name__ == "__main__"`` is not done.

    Raises:
        TemplateError: one cannot be imported; the message says why.
    """
    _see(os.getcwd())
    for name in modules:
        try:
            import_module(name)
        except (Exception, SystemExit) as error:
            raise _failed(f"--module {name}", error) from error
    for file in files:
        _see(str(file.resolve().parent))
        try:
            _import_file(file)
        except (Exception, SystemExit) as error:
            raise _failed(str(file), error) from error


def parted(paths: Sequence[AnyPath]) -> tuple[list[Path], list[AnyPath]]:
    """Return the files of Python among some arguments, for `import_templates`, and the others."""
    files = [path for path in paths if isinstance(path, Path) and path.suffix == ".py"]
    return files, [path for path in paths if path not in files]


def with_logs(paths: Sequence[AnyPath]) -> tuple[list[Path], list[AnyPath]]:
    """Return the same of arguments among which there is a log.

    Raises:
        click.UsageError: there is none.
    """
    files, logs = parted(paths)
    if not logs:
        raise click.UsageError("there is no LOG among the arguments")
    return files, logs


def module_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option that names modules with templates, for `import_templates`."""
    return click.option(
        "--module",
        "modules",
        multiple=True,
        default=["autotune.templates"],
        show_default=True,
        help="Module that registers the templates; may be given several times.",
    )(command)


def _import_file(file: Path) -> None:
    """Import a file under its own name, as ``import`` beside it would."""
    if file.stem in sys.modules:
        known = getattr(sys.modules[file.stem], "__file__", None)
        if known is not None and Path(known).resolve() == file.resolve():
            return
        raise TemplateError(f"a module called {file.stem!r} is loaded already; rename the file")
    spec = spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise TemplateError("expected a Python file")
    module = sys.modules[file.stem] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[file.stem]
        raise


def _see(folder: str) -> None:
    """Let modules of a folder be imported, before any that are installed under their names."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _failed(what: str, error: Exception | SystemExit) -> TemplateError:
    if isinstance(error, SystemExit):  # else the command would end, as if it had done its work
        return TemplateError(
            f"{what}: it exits when it is imported, by sys.exit({error.code!r}); put what it runs "
            'under `if __name__ == "__main__":`'
        )
    if isinstance(error, OSError) and str(error.filename or "").endswith(what):
        return TemplateError(f"cannot read {what}: {error.strerror}")
    plain = isinstance(error, (AutotuneError, ImportError))
    kind = "" if plain else f"{type(error).__name__}: "
    return TemplateError(f"{what}: {kind}{error}")
