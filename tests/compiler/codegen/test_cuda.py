from __future__ import annotations

import os
import platform
import re
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from quantised_graphs import CONVOLUTIONS, convolution
from tvm.s_tir import meta_schedule as ms

from tvmbuild.base import nvrtc
from tvmbuild.base.attributes import Attributes
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.nvrtc import explain_install
from tvmbuild.compiler.apply import apply_records
from tvmbuild.compiler.codegen import link
from tvmbuild.compiler.codegen.cubin import PTX_MARK, compile_source, lower_version, replace_code, toolkit_headers
from tvmbuild.compiler.codegen.elf import read_elf
from tvmbuild.compiler.codegen.executable import build_executable
from tvmbuild.compiler.codegen.link import LinkOptions, export_library
from tvmbuild.compiler.importing.importer import import_model, import_onnx
from tvmbuild.compiler.machine.target import tvm_target
from tvmbuild.compiler.passes.lift_constants import lift_constants
from tvmbuild.compiler.pipeline import lower
from tvmbuild.compiler.tasks import extract_tasks
from tvmbuild.errors import TvmbuildError

SaveModel = Callable[..., Path]
HEADERS = "#include <cuda_fp16.h>\n#include <mma.h>\n#include <cuda/std/type_traits>\n"
SOURCE = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'


def sized(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def pack(code_format: bytes, code: bytes) -> bytes:
    module = sized(code_format) + b"FUNCTIONS" + sized(code)
    rest = b"TREE" + sized(b"_lib") + sized(b"cuda") + sized(module) + sized(b"relax.VMExecutable") + sized(b"BYTECODE")
    return sized(rest)


def test_source_is_exchanged_for_the_cubin_and_nothing_else() -> None:
    assert replace_code(pack(b"cuda", b"source"), b"source", b"\x7fELF binary") == pack(b"cubin", b"\x7fELF binary")


def test_another_packing_is_not_touched() -> None:
    with pytest.raises(RuntimeError, match="another way"):
        replace_code(pack(b"ptx", b"source"), b"source", b"binary")


@pytest.mark.parametrize("arch", ["sm_75", "sm_86", "sm_87", "sm_90"])
def test_every_card_s_machine_code_is_compiled_without_a_card(arch: str) -> None:
    target = tvm_target("cuda", FrozenMap({"arch": arch}), FrozenMap({"mtriple": "x86_64-linux-gnu"}))
    cubin = compile_source(SOURCE, target)
    assert cubin[:4] == b"\x7fELF"
    assert (cubin[8], cubin[48]) == (7, int(arch[3:]))  # the form that drivers of CUDA 12 load, and the architecture


def test_half_and_infinity_need_none_of_cuda_s_c_plus_plus_library(gpu: tvm.target.Target) -> None:
    source = (
        "#include <cuda_fp16.h>\n#include <cuda/std/cstdint>\n#include <cuda/std/type_traits>\n"
        'extern "C" __global__ void f(half* x, float* y) {'
        " static_assert(cuda::std::is_integral<int>::value && !cuda::std::is_signed<unsigned>::value);"
        " x[0] = x[1] * x[2]; y[0] = -INFINITY; int64_t i = 0; y[1] = powf(y[2], 2.0f) + i; }"
    )
    assert compile_source(source, gpu)[:4] == b"\x7fELF"


@pytest.mark.compiler
def test_a_package_carries_machine_code_for_its_arch(
    save_convnet: SaveModel, gpu: tvm.target.Target, tmp_path: Path
) -> None:
    applied = apply_records(lower(import_onnx(save_convnet()), gpu), gpu, ms.database.MemoryDatabase())
    executable = build_executable(applied.mod, gpu)
    library = export_library(executable, gpu, LinkOptions())
    assert b"__global__" not in library
    assert library.count(sized(b"cubin")) == 1
    cubin = library[library.index(b"\x7fELF", 4) :]
    assert (cubin[8], cubin[48]) == (7, 90)
    assert library == export_library(executable, gpu, LinkOptions())
    (tmp_path / "mod.so").write_bytes(library)
    assert read_elf(tmp_path / "mod.so").machine == "x86_64"


@pytest.mark.compiler
def test_functions_that_cuda_lacks_in_float16_compile(gpu: tvm.target.Target) -> None:
    names = ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Erf", "Floor", "Round", "Sinh", "Tan")
    nodes = [*(helper.make_node(name, ["x"], [name]) for name in names), helper.make_node("Mod", "xy", ["m"], fmod=1)]
    values = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT16, (4, 33)) for name in ("x", "y", "m", *names)
    }
    graph = helper.make_graph(nodes, "net", [values["x"], values["y"]], [values[name] for name in (*names, "m")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    applied = apply_records(lower(import_model(model, "net", for_gpu=True), gpu), gpu, ms.database.MemoryDatabase())
    assert build_executable(applied.mod, gpu) is not None


def test_nvrtc_s_first_error_is_told(gpu: tvm.target.Target) -> None:
    with pytest.raises(TvmbuildError, match=r"refuses the generated CUDA code: error: identifier \"nothing\" is undef"):
        compile_source('extern "C" __global__ void f(float* x) { int unused; x[0] = nothing; }', gpu)


@pytest.mark.compiler
def test_a_named_compiler_does_without_zig(
    save_convnet: SaveModel, gpu: tvm.target.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = shutil.which("cc")
    if command is None:
        pytest.skip("there is no C compiler")
    monkeypatch.setattr(link, "find_spec", lambda _: None)
    monkeypatch.setattr(sys, "executable", "/nonesuch/python")
    applied = apply_records(lower(import_onnx(save_convnet()), gpu), gpu, ms.database.MemoryDatabase())
    library = export_library(build_executable(applied.mod, gpu), gpu, LinkOptions(command))
    assert library.count(sized(b"cubin")) == 1


@pytest.mark.compiler
def test_all_launches_between_the_first_and_the_last_are_one_graph(
    save_model: SaveModel, gpu: tvm.target.Target
) -> None:
    weight = np.full((3, 3, 3, 3), 0.1, np.float32)
    names = ["x", "a", "b", "c", "y"]
    nodes = [helper.make_node("Conv", [names[i], "w"], [names[i + 1]], pads=[1, 1, 1, 1]) for i in range(4)]
    lowered = lower(import_onnx(save_model(nodes, {"w": weight})), gpu)
    applied = apply_records(lowered, gpu, ms.database.MemoryDatabase())
    executable = build_executable(lift_constants(applied.mod).mod, gpu)
    assert executable.as_text().count("call  vm.builtin.cuda_graph.run_or_capture") == 1


@pytest.mark.compiler
def test_what_the_cuda_compiler_says_is_shown(gpu: tvm.target.Target) -> None:
    assert compile_source(SOURCE, gpu)[:4] == b"\x7fELF"
    with pytest.raises(TvmbuildError, match=r"refuses the generated CUDA code: .*nonsense"):
        compile_source(SOURCE.replace("*= 2", "*= nonsense"), gpu)


def test_headers_come_from_the_pip_packages_where_no_toolkit_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    headers = tmp_path / "nvidia" / "cu13" / "include"
    headers.mkdir(parents=True)
    (headers / "cuda_runtime.h").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    with toolkit_headers():
        toolkit = Path(os.environ["CUDA_PATH"])
        assert (toolkit / "include" / "cuda_runtime.h").is_file()
        assert (toolkit / "targets" / f"{platform.machine()}-linux" / "include" / "cuda_runtime.h").is_file()
    assert "CUDA_PATH" not in os.environ
    assert not toolkit.exists()
    monkeypatch.setenv("CUDA_PATH", "/own/toolkit")
    with toolkit_headers():
        assert os.environ["CUDA_PATH"] == "/own/toolkit"


def test_without_a_cuda_compiler_the_remedy_is_named(
    gpu: tvm.target.Target, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(nvrtc, "_list_folders", list)
    with pytest.raises(TvmbuildError) as caught:
        compile_source(SOURCE, gpu)
    assert caught.value.message == "NVRTC 12 is not there to compile CUDA code for drivers of 12.0"
    assert caught.value.hint == explain_install(12)


@pytest.mark.compiler
def test_a_model_that_is_all_constants_needs_no_kernel(gpu: tvm.target.Target) -> None:
    node = helper.make_node("Sin", ["w"], ["y"])
    weights = numpy_helper.from_array(np.arange(4, dtype=np.float32), "w")
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    model = helper.make_model(
        helper.make_graph([node], "net", [], [output], [weights]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    lowered = lower(import_model(model, "net"), gpu)
    assert extract_tasks(lowered) == ()
    library = export_library(build_executable(lowered.mod, gpu), gpu, LinkOptions())
    assert library.startswith(b"\x7fELF")


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("name", "operands"), [("padded", r"int\*.*, int\*"), ("depthwise", r"uchar\*.*, signed char\*")]
)
def test_quantised_convolutions_are_machine_code_of_integers(name: str, operands: str, gpu: tvm.target.Target) -> None:
    model, _ = convolution(np.random.RandomState(0), "int8", **CONVOLUTIONS[name])
    applied = apply_records(lower(import_onnx(model), gpu), gpu, ms.database.MemoryDatabase())
    executable = build_executable(applied.mod, gpu)
    (host,) = executable.mod.imports
    (kernels,) = host.imports
    source = kernels.inspect_source("cuda")
    (signature,) = re.findall(r"__global__ void .*conv2d.*{$", source, re.MULTILINE)
    assert re.search(operands, signature)
    assert ("__dp4a(" in source) == (name == "padded")
    assert re.search(r"\bint \w*conv2d\w*\[", source)
    assert export_library(executable, gpu, LinkOptions()).count(sized(b"cubin")) == 1


@pytest.mark.parametrize(
    ("attributes", "form", "compiler"),
    [
        ({}, 7, 12),
        ({"driver": "12.2"}, 7, 12),
        ({"driver": "13.0"}, 8, 13),
        ({"driver": "11.4", "arch": "sm_87"}, 7, 11),
        ({"driver": "11.4", "arch": "sm_72"}, 7, 11),
        ({"arch": "sm_72"}, 7, 11),
        ({"arch": "sm_120"}, 8, 12),
    ],
)
def test_the_driver_chooses_the_compiler(attributes: dict[str, str], form: int, compiler: int) -> None:
    if nvrtc.find_nvrtc(compiler) is None:
        pytest.skip(f"NVRTC {compiler} is not installed")
    stated = FrozenMap({"arch": "sm_90", **attributes})
    target = tvm_target("cuda", stated, FrozenMap({"mtriple": "x86_64-linux-gnu"}))
    cubin = compile_source(f"{HEADERS}{SOURCE}", target)
    written = int.from_bytes(cubin[20:24], "little")  # by forms before 8: the compiler's version
    assert (cubin[8], written // 10 if form < 8 else compiler) == (form, compiler)


def test_ptx_of_an_earlier_version_has_no_later_hint() -> None:
    head, body = b"//\n.version 8.8\n.target sm_80\n", b"\tld.global.u32 %r1, [%rd1];\n"
    ptx = head + b'\t.pragma "used_bytes_mask 255";\n' + body
    assert lower_version(ptx, (8, 0)) == head.replace(b"8.8", b"8.0") + body


def test_ptx_follows_the_machine_code_in_the_version_that_the_driver_reads() -> None:
    stated: Attributes = FrozenMap({"arch": "sm_86", "driver": "12.2", "ptx": True})
    target = tvm_target("cuda", stated, FrozenMap({"mtriple": "x86_64-linux-gnu"}))
    code = compile_source(SOURCE, target)
    (length,) = struct.unpack("<Q", code[-24:-16])
    cubin, ptx = code[: -24 - length], code[-24 - length : -24]
    assert cubin == compile_source(SOURCE, tvm_target("cuda", FrozenMap({"arch": "sm_86"}), FrozenMap()))
    assert re.search(rb"^\.version 8\.2\n\.target sm_86$", ptx, re.MULTILINE)
    assert ptx.endswith(b"}\n\0") or ptx.rstrip(b"\n\0").endswith(b"}")
    assert code.endswith(PTX_MARK)
