"""The direction of imports: a folder imports only from rows above its own."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "autotune"

# docs/architecture.md, "Folders, and the direction of imports". Folders of one row are strangers.
ROWS = [
    {"errors", "version"},
    {"utils"},
    {"ir", "target"},
    {"kernel"},
    {"te"},
    {"topi"},
    {"graph"},
    {"importers"},
    {"workload"},
    {"task", "lowering"},
    {"codegen", "features"},
    {"emulator"},
    {"runtime", "cost_model"},
    {"driver"},
    {"measure"},
    {"record"},
    {"tuner", "interchange", "ship", "lock", "hub", "fleet"},
    {"auto_scheduler"},
    {"network"},
    {"just_in_time"},
    {"torch"},
    {"dashboard"},
    {"report"},
    {"cli"},
    {"__main__"},
    # TVM's and Kernel Tuner's names for what stands above; nothing of ours imports them.
    {"tvm", "kernel_tuner"},
]
# The one package each outside library is imported from.
DOORS = {
    "pycuda": {"runtime/nvidia/driver.py", "runtime/compile/pycuda_nvcc.py"},
    "xgboost": {"cost_model/xgb.py"},
    "tornado": {"dashboard/server.py"},
    "rich": {"tuner/display/progress_drawn.py", "cli/tables.py"},
    "matplotlib": {"report/figures.py"},
    "pandas": {"record/frame.py"},
    "sqlalchemy": {"record/sql_database.py", "record/sql_schema.py"},
    "torch": {"utils/lazy_torch.py"},
    "dask": {"fleet/serve.py"},
    "distributed": {"fleet/link.py", "fleet/serve.py"},
    "msgpack": {"fleet/wire.py"},
    "onnx": {"importers/onnx/lazy_import.py"},
}
# Folders that are imported through their face: what others may use stands in `__init__`. Workers
# start without running that of the folders below these, so there modules are imported themselves.
FACES = {
    "auto_scheduler", "cost_model", "dashboard", "driver", "features", "graph", "hub",
    "importers", "interchange", "just_in_time", "lowering", "network", "report", "ship", "target",
    "topi", "torch", "workload",
}  # fmt: skip
ROW_OF = {name: i for i, row in enumerate(ROWS) for name in row}


@cache
def import_statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Return all of them: at the top, in functions, and for types alone."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]


def imports(path: Path) -> set[str]:
    found = set()
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if node.module == "autotune" else {node.module}
    return found


def own_folder(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


MODULES = sorted(PACKAGE.rglob("*.py"))


def refused(finds):
    """Fail with all that is found in any module."""
    found = [problem for path in MODULES for problem in finds(path)]
    assert not found, "\n".join(found)


def test_a_folder_imports_only_from_rows_above():
    refused(imports_upward)


def imports_upward(path):
    own = own_folder(path)
    if own == "__init__":
        return
    if own not in ROW_OF:
        yield f"{own} has no row"
        return
    for name in imports(path):
        if name.startswith("autotune."):
            other = name.split(".")[1]
            if other != own and ROW_OF[other] >= ROW_OF[own]:
                yield f"{path} imports {name}"


def test_outside_libraries_are_imported_in_one_place():
    refused(imports_elsewhere)


def imports_elsewhere(path):
    here = path.relative_to(PACKAGE).as_posix()
    for name in imports(path):
        library = name.split(".")[0]
        if library in DOORS and here not in DOORS[library]:
            yield f"{here} imports {name}"


def test_a_folder_is_imported_through_its_face():
    refused(imports_past_the_face)


def imports_past_the_face(path):
    own = own_folder(path)
    if own == "tvm":  # it mirrors TVM's layout module by module
        return
    for node in import_statements(path):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("autotune."):
            folder = node.module.split(".")[1]
            if folder == own or folder not in FACES:
                continue
            if FILES[node.module].name != "__init__.py":
                yield f"{path}: import from the folder's face, not from {node.module}"
                continue
            for alias in node.names:
                if alias.name not in public_names(node.module):
                    yield f"{path}: {alias.name} must be in __all__ of {node.module}"


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


FILES = {module_name(path): path for path in MODULES}


@cache
def defining_module(module: str, name: str) -> str:
    """Return the module that an import of a name means: faces pass on what others define."""
    if f"{module}.{name}" in FILES:
        return f"{module}.{name}"
    if FILES[module].name == "__init__.py":
        for node in import_statements(FILES[module]):
            if isinstance(node, ast.ImportFrom) and node.module in FILES:
                for alias in node.names:
                    if (alias.asname or alias.name) == name and node.module != module:
                        return defining_module(node.module, alias.name)
    return module


def imported_modules(path: Path) -> set[str]:
    found = set()
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in FILES}
        elif node.module in FILES:
            found |= {defining_module(node.module, alias.name) for alias in node.names}
    return found - {module_name(path)}


def test_no_modules_import_each_other_in_a_circle():
    graph = {name: imported_modules(path) for name, path in FILES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


@cache
def public_names(module: str) -> set[str]:
    """Return what a face lists in `__all__`."""
    for node in ast.parse(FILES[module].read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def test_importing_autotune_does_not_import_the_template_library():
    for name in imports(PACKAGE / "__init__.py"):
        assert not name.startswith("autotune.templates")
