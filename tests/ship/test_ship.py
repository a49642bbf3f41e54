"""Projects of tuned kernels: built, called from C and Python, and equal when made twice."""

import ctypes
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import autotune
from autotune.cli.main import main
from autotune.errors import KernelError
from autotune.record import load_from_file
from autotune.ship import gather, library_name, write_project
from tests.ship import exported

CPU = [
    ("gemm_nn.cpu", (16, 24, 32)),
    ("gemm_nn.cpu", (8, 8, 8)),
    ("softmax.cpu", (4, 16)),
    ("tests.ship.steps", (100,)),
    ("tests.ship.times", (10, 2)),
    ("tests.ship.times", (10, 5)),
    ("tests.ship.copied", (5, "float32")),
    ("tests.ship.copied", (5, "float64")),
    ("tests.ship.copied", (5, "float16")),
    ("tests.ship.copied", (5, "bfloat16")),
    ("tests.ship.chosen", (64,)),
]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return exported.write(tmp_path_factory.mktemp("ship") / "best.log", *CPU)


@pytest.fixture(scope="module")
def project(log):
    out = log.parent / "tuned"
    done = CliRunner().invoke(main, ["export", str(log), "--to", "c", "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert "11 kernels in" in done.output
    return out


@pytest.fixture(scope="module")
def package(project):
    return imported(project / "python" / "tuned")


def imported(folder):
    spec = spec_from_file_location(folder.name, folder / "__init__.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rand(*shape):
    return np.random.default_rng(0).random(shape, "float32")


def test_kernels_are_picked_by_shape_and_give_right_answers(package):
    for m, n, k in ((16, 24, 32), (8, 8, 8)):
        a, b, c = rand(m, k), rand(k, n), np.zeros((m, n), "float32")
        package.gemm_nn_cpu(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    x, y = rand(4, 16), np.zeros((4, 16), "float32")
    package.softmax_cpu(x, y)
    np.testing.assert_allclose(y.sum(1), np.ones(4), rtol=1e-5)


def test_numbers_constants_workspaces_and_several_kernels_are_handed_over(package):
    x, bias, y, count = rand(100), rand(100) + 1, rand(100), np.zeros(1, "int32")
    right, _ = exported.reference(np.float32(0.5), x, bias, y, count)
    package.tests_ship_steps(0.5, x, bias, y, count)
    np.testing.assert_allclose(y, right, rtol=1e-5)
    assert count[0] == 100


def test_what_no_kernel_was_exported_for_is_refused_in_words(package):
    good = rand(8, 8)
    for args, said in [
        ((rand(9, 8), good, good.copy()), "nothing was exported for the shapes"),
        ((good.astype("float64"), good, good.copy()), "a: expected a contiguous array of float32"),
        ((good.T, good, good.copy()), "a: expected a contiguous array"),
        ((good, good), "expected 3 arguments"),
        ((good, 3, good.copy()), "b: expected an array"),
    ]:
        with pytest.raises(package.KernelError, match=said):
            package.gemm_nn_cpu(*args)
    frozen = good.copy()
    frozen.flags.writeable = False
    with pytest.raises(package.KernelError, match="c: it is read-only"):
        package.gemm_nn_cpu(good, good, frozen)


def test_workloads_that_shapes_do_not_tell_apart_are_called_by_name(project, package):
    x, y = rand(10), np.zeros(10, "float32")
    with pytest.raises(package.KernelError, match="several kernels have these shapes"):
        package.tests_ship_times(x, y)
    library = ctypes.CDLL(str(project / "python" / "tuned" / "libtuned.so"))
    for factor in (2, 5):
        function = getattr(library, f"tuned_tests_ship_times_10_{factor}")
        assert function(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data)) == 0
        np.testing.assert_allclose(y, factor * x)


def test_workloads_that_take_other_dtypes_are_functions_of_their_own(package):
    for dtype in ("float32", "float64"):
        x, y = np.arange(5, dtype=dtype), np.zeros(5, dtype)
        getattr(package, f"tests_ship_copied_x_y_{dtype}")(x, y)
        np.testing.assert_array_equal(y, x)


def test_torch_tensors_are_taken_where_they_are(package):
    torch = pytest.importorskip("torch")
    a, b, c = torch.rand(8, 8), torch.rand(8, 8), torch.zeros(8, 8)
    package.gemm_nn_cpu(a, b, c)
    torch.testing.assert_close(c, a @ b)


def test_arrays_with_gaps_are_told_from_those_of_another_type(package):
    x, y = np.zeros(10, "float32")[::2], np.zeros(5, "float32")
    copied = package.tests_ship_copied_x_y_float32
    with pytest.raises(package.KernelError, match=r"of float32, got one of float32 with gaps"):
        copied(x, y)
    with pytest.raises(package.KernelError, match=r"of float32, got float64$"):
        copied(y.astype("float64"), y)


def test_numbers_that_do_not_fit_are_refused(package):
    x, bias, y, count = rand(100), rand(100) + 1, rand(100), np.zeros(1, "int32")
    before = y.copy()
    for wrong in (1e39, 10**400, "2", None, 2j, np.ones(2)):
        with pytest.raises(
            package.KernelError, match=r"expected one number that fits float32, got"
        ):
            package.tests_ship_steps(wrong, x, bias, y, count)
    np.testing.assert_array_equal(y, before)
    for fits in (np.float32(0.5), np.array(0.5), 1, float("inf")):
        package.tests_ship_steps(fits, x, bias, y, count)


def test_torch_knows_which_of_its_tensors_were_written(package):
    torch = pytest.importorskip("torch")
    x, a = torch.ones(5), torch.zeros(5, requires_grad=True)
    saved = (a * 1).exp()
    package.tests_ship_copied_x_y_float32(x, saved.detach())
    assert (saved._version, x._version) == (1, 0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()
    with torch.inference_mode():
        y = torch.zeros(5)
        package.tests_ship_copied_x_y_float32(x, y)
    assert (y == 1).all()


def test_tensors_that_a_kernel_would_get_wrong_are_refused(package):
    torch = pytest.importorskip("torch")
    x, y = torch.ones(5, requires_grad=True), torch.zeros(5)
    copied = package.tests_ship_copied_x_y_float32
    with pytest.raises(package.KernelError, match=r"x: it requires a gradient.*no_grad"):
        copied(x, y)
    with torch.no_grad():
        copied(x, y)
    assert y.sum() == 5
    with pytest.raises(package.KernelError, match=r"x: its sign is not in its memory"):
        copied(torch._neg_view(torch.ones(5)), y)
    with pytest.raises(package.KernelError, match=r"got one of float32 with gaps"):
        copied(torch.ones(10)[::2], y)


def test_the_cmake_project_builds_installs_and_runs(project, tmp_path):
    cmake = shutil.which("cmake") or shutil.which("cmake", path=Path(sys.executable).parent)
    if cmake is None:
        cmake_module = pytest.importorskip("cmake")
        cmake = str(Path(cmake_module.CMAKE_BIN_DIR) / "cmake")
    build = tmp_path / "build"
    run(cmake, "-S", project, "-B", build, f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'there'}")
    run(cmake, "--build", build)
    said = run(build / "example")
    assert said.endswith("all kernels ran\n")
    assert said.count(" sum ") == 12
    assert "tuned_gemm_nn_cpu_16_24_32: c sum " in said
    sums = dict(re.findall(r"copied_x_y_(\w+)_5_\w+: y sum (\S+)", said))
    assert set(sums) == {"float16", "bfloat16", "float32", "float64"}, said
    assert float(sums["float32"]) == pytest.approx(float(sums["float64"]))
    for dtype in ("float16", "bfloat16"):  # each is from 0.5 to 1
        assert 2.5 < float(sums[dtype]) < 5
    run(cmake, "--install", build)
    assert {p.name for p in (tmp_path / "there").rglob("*") if p.is_file()} >= {"tuned.h"}


def run(*words):
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_c_plus_plus_program_uses_the_header(project, tmp_path):
    (tmp_path / "main.cpp").write_text(
        '#include "tuned.h"\n#include <cstdio>\n'
        "int main() {\n"
        "  float a[64], b[64], c[64];\n"
        "  for (int i = 0; i < 64; i++) a[i] = i % 8 == i / 8, b[i] = i;\n"
        "  int status = tuned_gemm_nn_cpu_8_8_8(a, b, c);\n"
        "  const int64_t shape[] = {8, 9};\n"
        '  std::printf("%d %g %s\\n", status, c[63],\n'
        "    tuned_message(tuned_gemm_nn_cpu(a, shape, b, shape, c, shape)));\n"
        "  tuned_tests_ship_chosen_64(true, 3, b, c);\n"
        '  std::printf("%g\\n", c[63]);\n}\n'
    )
    library = project / "python" / "tuned"
    program = tmp_path / "program"
    run("c++", "-Wall", "-Wextra", "-Werror", tmp_path / "main.cpp", f"-I{project / 'include'}",
        f"-L{library}", "-ltuned", f"-Wl,-rpath,{library}", "-o", program)  # fmt: skip
    assert run(program) == "0 63 no kernel was exported for these shapes\n189\n"


def test_two_exports_of_one_log_are_equal_byte_for_byte(log, project, tmp_path):
    again = tmp_path / "tuned"
    pairs = list(load_from_file(log))
    write_project(gather(reversed(pairs), "tuned"), again)
    assert files(again) == files(project)
    different = [name for name in files(again) if not same(again / name, project / name)]
    assert different == []


def files(folder):
    """Returns the names of what was exported: not what Python keeps of a package it imported."""
    found = (p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    return sorted(str(name) for name in found if name.parent.name != "__pycache__")


def same(one, other):
    return filecmp.cmp(one, other, shallow=False)


def test_the_manifest_says_what_everything_is(project):
    manifest = json.loads((project / "manifest.json").read_text())
    gemm = next(f for f in manifest["functions"] if f["task"] == "gemm_nn.cpu")
    assert [w["task_args"] for w in gemm["workloads"]] == [[16, 24, 32], [8, 8, 8]]
    assert {"name", "config", "seconds", "images"} <= set(gemm["workloads"][0])
    assert "src/tuned.c" in manifest["files"]


def test_the_package_becomes_a_wheel_that_works_without_autotune(project, tmp_path):
    tree = tmp_path / "python"
    shutil.copytree(project / "python", tree)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation",
        "-w", tmp_path, tree)  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    target = tmp_path / "site"
    shutil.unpack_archive(wheel, target, "zip")
    code = (
        "import sys; sys.modules['autotune'] = None\n"
        "import numpy, tuned\n"
        "a = numpy.eye(8, dtype='float32'); c = numpy.zeros_like(a)\n"
        "tuned.gemm_nn_cpu(a, 3 * a, c); print(c.sum())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(target)}, cwd=tmp_path,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "24.0\n", done.stderr


@pytest.mark.parametrize("name", ["notes.txt", "manifest.json"])
def test_a_folder_of_somebody_else_is_left_alone(log, tmp_path, name):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text('{"name": "mine"}')
    (tmp_path / "link").symlink_to(tmp_path / "mine", target_is_directory=True)
    shipment = gather(load_from_file(log), "tuned")
    for place in ("mine", "link", f"mine/{name}"):
        with pytest.raises(KernelError, match=r"is there and no (earlier export|folder)"):
            write_project(shipment, tmp_path / place)
    assert (tmp_path / "mine" / name).read_text() == '{"name": "mine"}'


def test_an_export_that_was_only_built_is_written_anew_and_one_somebody_worked_in_is_left_alone(
    log, tmp_path
):
    shipment = gather(load_from_file(log), "tuned")
    out = write_project(shipment, tmp_path / "tuned")
    for made in ("build/CMakeCache.txt", "python/tuned/__pycache__/x.pyc"):
        (out / made).parent.mkdir(exist_ok=True)
        (out / made).write_text("")
    write_project(shipment, out)
    assert not (out / "build").exists()
    for name in ("README.md", "src/mine.c", "python/tuned/extra.py"):
        changed = shutil.copytree(out, tmp_path / Path(name).stem)
        refused_where_changed(shipment, changed, name)


def refused_where_changed(shipment, out, name):
    with (out / name).open("a") as file:
        file.write("/* mine */")
    with pytest.raises(KernelError, match=f"files were changed or added since: {name}; move"):
        write_project(shipment, out)
    assert (out / name).read_text().endswith("/* mine */")


def test_a_name_that_c_or_python_does_not_take_is_refused():
    of_c = ("8bit", "a-b", "int", "", "x" * 100)
    for name in (*of_c, "class", "import", "None", "template", "numpy", "autotune", "json"):
        with pytest.raises(KernelError, match="give another by --name"):
            library_name(name)


def test_the_name_of_a_task_cannot_end_a_comment_of_the_header(tmp_path, monkeypatch):
    name = "tests.ship */ int evil; /*"
    entry = autotune.task.TASK_TABLE["tests.ship.copied"]
    monkeypatch.setitem(autotune.task.TASK_TABLE, name, entry)
    log = exported.write(tmp_path / "a.log", (name, (5, "float32")))
    out = tmp_path / "tuned"
    done = CliRunner().invoke(main, ["export", str(log), "--to", "c", "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert "tests.ship * / int evil; /*: 1 workload\n" in (out / "include/tuned.h").read_text()


def test_records_of_both_kinds_of_device_are_not_mixed(log, tmp_path):
    cuda = exported.write(
        tmp_path / "cuda.log", ("gemm_nn.cuda", (64, 64, 64)), target="cuda -arch=sm_90"
    )
    pairs = [*load_from_file(log), *load_from_file(cuda)]
    with pytest.raises(KernelError, match="for the CPU and for CUDA"):
        gather(pairs, "tuned")


def test_a_log_without_good_records_says_so(tmp_path):
    with pytest.raises(KernelError, match="no record of a template that worked"):
        gather([], "tuned")


def test_an_architecture_that_is_none_is_refused(log, tmp_path):
    words = ["export", str(log), "--to", "c", "-o", str(tmp_path / "out"), "--arch", "foo"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1
    assert "-arch needs a value such as -arch=sm_90, got 'foo'" in done.output


def test_the_old_spelling_of_the_command_stays(log, tmp_path):
    out = tmp_path / "t4.json"
    words = ["export", str(log), "--format", "t4", "--task", "softmax.cpu", "-o", str(out)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert json.loads(out.read_text())


assert autotune  # the templates of the library are registered by the command
