"""What scripts of others ask of `autotune.tvm`: options, saved modules, tasks, parts of relay."""

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import CompileError, GraphError, KernelError
from autotune.tvm import auto_scheduler, autotvm, relay, te, topi
from autotune.tvm.contrib import cc, download, ndk, tar, utils
from tests.compat.test_old_calls import added, check_added
from tests.scripts import run_python


def test_an_output_that_is_no_argument_is_computed_and_discarded():
    schedule, (a, b, _) = added()
    said = "output C of the schedule is not among the arguments"
    with pytest.warns(UserWarning, match=said) as caught:
        function = tvm.build(schedule, [a, b], "llvm")
    assert {each.filename for each in caught} == {__file__}
    assert function(np.ones(64, "float32"), np.ones(64, "float32")) is None
    assert "C" in function.get_source()


def test_a_discarded_output_is_told_once_a_line_of_each_script():
    a = te.placeholder((16,), name="A")
    b, c = topi.exp(a), topi.negative(a)
    scope = {"tvm": tvm, "schedule": te.create_schedule([b.op, c.op]), "args": [a, b]}
    text = "for _ in range(2):\n    tvm.lower(schedule, args, name='told_once')"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for script in ("one.py", "two.py"):
            exec(compile(text, script, "exec"), scope)
    assert [each.filename for each in caught] == ["one.py", "two.py"]


def test_an_output_beside_the_arguments_does_not_change_the_others():
    a = te.placeholder((16,), name="A")
    b, c = topi.exp(a), topi.negative(a)
    schedule = te.create_schedule([b.op, c.op])
    with pytest.warns(UserWarning, match="computed and discarded"):
        function = tvm.build(schedule, [a, b], "llvm")
    out = np.zeros(16, "float32")
    function(np.zeros(16, "float32"), out)
    np.testing.assert_array_equal(out, 1)


@pytest.mark.parametrize("make", [tvm.build_config, relay.build_config])
def test_options_of_older_versions_are_a_pass_context(make):
    schedule, tensors = added(8)
    schedule[tensors[2]].vectorize(tensors[2].op.axis[0])
    with make(opt_level=3, disable_vectorize=True, add_lower_pass=[]) as context:
        assert "vectorize" not in str(tvm.lower(schedule, tensors))
    assert context.opt_level == 3
    assert make(auto_unroll_max_step=16, unroll_explicit=False).max_step == 16
    assert tvm.build_module.build is tvm.build


def test_a_function_is_saved_linked_and_loaded_as_an_object_file():
    schedule, tensors = added()
    folder = utils.tempdir()
    tvm.build(schedule, tensors, "llvm", name="myadd").save(folder.relpath("myadd.o"))
    cc.create_shared(folder.relpath("myadd.so"), [folder.relpath("myadd.o")])
    check_added(tvm.runtime.load_module(folder.relpath("myadd.so")).get_function("myadd"))


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="PTX is made by nvcc")
def test_device_code_is_saved_as_ptx_and_imported():
    schedule, tensors = added()
    block, thread = schedule[tensors[2]].split(tensors[2].op.axis[0], factor=32)
    schedule[tensors[2]].bind(block, te.thread_axis("blockIdx.x"))
    schedule[tensors[2]].bind(thread, te.thread_axis("threadIdx.x"))
    function = tvm.build(schedule, tensors, "cuda -emulate", name="myadd")
    folder = utils.tempdir()
    function.save(folder.relpath("myadd.o"))
    function.imported_modules[0].save(folder.relpath("myadd.ptx"))
    function.imported_modules[0].save(folder.relpath("text"), "cu")
    device = tvm.runtime.load_module(folder.relpath("myadd.ptx"))
    assert ".entry myadd" in device.get_source()
    read = tvm.runtime.load_module(folder.relpath("myadd.o"))
    read.import_module(device)
    check_added(read)
    text = device.get_source()
    for edited in (text.replace("add.f32", "sub.f32"), text.replace("// autotune: ", "// ")):
        Path(folder.relpath("edited.ptx")).write_text(edited)
        with pytest.raises(KernelError, match="code that was changed"):
            read.import_module(tvm.runtime.load_module(folder.relpath("edited.ptx")))


def test_a_function_that_was_exported_under_any_name_is_read_as_one(tmp_path):
    schedule, tensors = added()
    path = tmp_path / "myadd.c"
    tvm.build(schedule, tensors, "llvm", name="myadd").export_library(path)
    check_added(tvm.runtime.load_module(path))
    with pytest.raises(CompileError, match="create_shared: cannot write"):
        cc.create_shared(tmp_path / "nowhere" / "out.so", path)


def test_other_object_files_are_linked_by_the_compiler(tmp_path):
    with pytest.raises(CompileError, match="objects must be the path of an object file"):
        cc.create_shared(tmp_path / "out.so", tmp_path / "nowhere.o")
    (tmp_path / "text.o").write_text("no object")
    with pytest.raises(CompileError, match="create_shared: cc -shared"):
        cc.create_shared(tmp_path / "out.so", tmp_path / "text.o")
    with pytest.raises(CompileError, match="create_shared: cannot run no-such-cc"):
        cc.create_shared(tmp_path / "out.so", tmp_path / "text.o", cc="no-such-cc")
    with pytest.raises(CompileError, match="objects must be the path of an object file"):
        cc.create_shared(tmp_path / "out.so", None)
    assert ndk.create_shared is cc.create_shared


def test_files_are_packed_and_fetched_once(tmp_path):
    (tmp_path / "a.txt").write_text("content")
    tar.tar(tmp_path / "all.tar", tmp_path / "a.txt")
    tar.untar(tmp_path / "all.tar", tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_text() == "content"
    download.download((tmp_path / "a.txt").as_uri(), tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_text() == "content"
    download.download("https://nowhere.invalid/a", tmp_path / "b.txt")
    with pytest.raises(tvm.TVMError, match="download: cannot fetch"):
        download.download((tmp_path / "c.txt").as_uri(), tmp_path / "d.txt", retries=1)


def test_an_interrupted_download_leaves_no_part_of_the_file(tmp_path, monkeypatch):
    def interrupted(url, path):
        Path(path).write_text("a part")
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "urlretrieve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        download.download("https://nowhere.invalid/a", tmp_path / "a.txt")
    assert list(tmp_path.iterdir()) == []


def test_a_task_of_an_operator_finds_the_template_that_comes_with_autotune():
    data, kernel = te.placeholder((1, 4, 8, 8)), te.placeholder((4, 1, 3, 3))
    tasks = [
        autotvm.task.create(
            "depthwise_conv2d_nchw.cuda", (data, kernel, 1, padding, 1, "float32"), "cuda"
        )
        for padding in ("SAME", 1, (1, 1), (1, 1, 1, 1))
    ]
    assert len({len(task.config_space) for task in tasks}) == 1
    assert tasks[0].flop == tasks[-1].flop > 0
    with pytest.raises(tvm.TVMError, match=r"no template is registered for task .conv9d\.cuda."):
        autotvm.task.create("conv9d.cuda", (), "cuda")


ROW = (
    '{"input": ["cuda -model=unknown", "conv2d_nchw.cuda", [["TENSOR", [1, 64, 14, 14], '
    '"float32"], ["TENSOR", [64, 64, 1, 1], "float32"], [1, 1], [0, 0, 0, 0], [1, 1], '
    '"float32"], {}], "config": {"index": 0, "code_hash": "", "entity": [["tile_f", "sp", '
    '[-1, 1, 8, 1]], ["tile_y", "sp", [-1, 1, 1, 1]], ["tile_x", "sp", [-1, 1, 7, 1]], '
    '["tile_rc", "sp", [-1, 4]], ["tile_ry", "sp", [-1, 1]], ["tile_rx", "sp", [-1, 1]], '
    '["auto_unroll_max_step", "ot", 0], ["unroll_explicit", "ot", 0]]}, '
    '"result": [[6.9e-05], 0, 3.3, 1571384808.1], "version": 0.2, "tvm_version": "0.7.dev1"}'
)


def test_a_record_of_tvm_is_instantiated_where_nothing_was_registered(tmp_path):
    script = (
        "from autotune.tvm import autotvm\nimport autotune.tvm as tvm, sys\n"
        "((task_input, result),) = autotvm.record.load_from_file(sys.argv[1])\n"
        "with tvm.target.Target(task_input.target):\n"
        "    s, args = task_input.task.instantiate(task_input.config)\n"
        "print(len(args), s.binds_threads())\n"
    )
    (tmp_path / "tvm.log").write_text(ROW + "\n")
    assert run_python("-c", script, tmp_path / "tvm.log").stdout == "3 True\n"


def small_network():
    data = relay.var("data", shape=(1, 3, 8, 8))
    weight = relay.var("weight", shape=(4, 3, 3, 3))
    out = relay.op.nn.conv2d(data, weight, channels=4, kernel_size=(3, 3))
    return data, weight, relay.Function([data, weight], out)


def test_operators_of_a_task_are_named_by_their_functions():
    _, _, function = small_network()
    tasks = [
        autotvm.task.extract_from_program(function, None, "llvm", ops=(each,))
        for each in (relay.op.nn.conv2d, relay.nn.conv2d, relay.op.get("nn.conv2d"), "nn.conv2d")
    ]
    assert len({task.workload for found in tasks for task in found}) == 1
    assert not autotvm.task.extract_from_program(function, None, "llvm", ops=(relay.nn.dense,))


def test_variables_of_an_expression_are_bound():
    data, weight, function = small_network()
    bound = relay.bind(function, {weight: relay.expr.const(np.ones((4, 3, 3, 3), "float32"))})
    assert [each.name_hint for each in bound.params] == ["data"]
    assert "weight" not in bound.astext(show_meta_data=False)
    plain = relay.expr.bind(relay.nn.relu(data), {data: relay.const(np.ones((1, 3, 8, 8)))})
    assert isinstance(plain, relay.Expr)
    assert tvm.IRModule.from_expr(bound).astext().startswith("def @main:")
    with pytest.raises(GraphError, match="binds must be a dict of variables and expressions"):
        relay.bind(function, {weight: 3})


@pytest.mark.parametrize(
    ("target", "is_enabled"),
    [("llvm", True), ("cuda -emulate", True), ("stackvm", False), ("opencl", False)],
)
def test_what_can_be_run_here_is_enabled(target, is_enabled):
    assert tvm.runtime.enabled(target) == is_enabled
    assert tvm.module.enabled(target) == is_enabled


def test_types_are_known_without_inference():
    data, _, function = small_network()
    assert relay.testing.run_infer_type(data) is data
    assert relay.testing.run_infer_type(function) is function


@pytest.mark.parametrize(
    ("dtype", "parts"),
    [
        ("float32x4", (2, 32, 4)),
        ("int8", (0, 8, 1)),
        ("uint16", (1, 16, 1)),
        ("bool", (1, 1, 1)),
        ("bfloat16", (4, 16, 1)),
    ],
)
def test_a_dtype_has_parts(dtype, parts):
    found = tvm.DataType(dtype)
    assert (found.type_code, found.bits, found.lanes) == parts
    assert found == dtype
    assert te.placeholder((4,), dtype=tvm.runtime.DataType("int8")).dtype == "int8"


def test_numbers_are_texts_with_six_decimals():
    shown = auto_scheduler.utils.to_str_round
    assert shown([1, 0.5, (2.0, "x")]) == "[1, 0.500000, [2.000000, x]]"
    assert shown({"a": 0.25}, 2) == "{'a': '0.25'}"


@pytest.mark.parametrize(
    "line",
    [
        "from autotune.tvm._ffi.registry import register_func",
        "from autotune.tvm.contrib import rpc",
        "from autotune.tvm.error import InternalError",
        "from autotune.tvm.ir.module import IRModule",
        "from autotune.tvm.relay.op import nn, reduce, tensor, transform",
        "from autotune.tvm.tir import Buffer, Stmt",
        "from autotune.tvm.topi.cuda.injective import schedule_injective_from_existing",
        "from autotune.tvm.topi.generic.default import default_schedule",
        "from autotune.tvm.topi.utils import tag",
    ],
)
def test_names_are_imported_from_where_scripts_look_for_them(line):
    exec(line)


def test_an_architecture_for_all_targets_is_that_of_the_device():
    set_arch = tvm.autotvm.measure.measure_methods.set_cuda_target_arch
    with pytest.warns(UserWarning, match="changes nothing: .* -arch=sm_80"):
        set_arch("sm_70")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        set_arch(tvm.target.Target("cuda").arch)
        set_arch(None)
