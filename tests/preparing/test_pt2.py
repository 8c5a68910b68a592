"""Programs of `torch.export.save`: a package gives torch's outputs, or the reason is one sentence."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.file_kinds import is_exported_program
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.source_specs import Export, Source
from tvmbuild.base.specs import InputSpec, ModelSpec
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.stages.simplify import Simplify
from tvmbuild.planning.subject import Subject
from tvmbuild.preparing import model_file
from tvmbuild.preparing.model_file import read_model
from tvmbuild.preparing.pt2 import convert
from tvmbuild.sources.export import obtain_model

MISSING = "a .pt2 file needs torch, which is not installed; `pip install 'tvmbuild[torch]'`"


def pack(path: Path, *names: str) -> Path:
    """Write a zip archive with files of these names."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "pt2")
    return path


def pack_program(path: Path) -> Path:
    return pack(path, "net/archive_format", "net/models/model.json", "net/data/weights/weight_0")


def test_a_program_is_known_by_its_contents(tmp_path: Path) -> None:
    assert is_exported_program(pack_program(tmp_path / "0123abcd"))  # the cache's names have no suffix
    assert is_exported_program(pack(tmp_path / "old", "version", "serialized_exported_program.json"))
    assert not is_exported_program(pack(tmp_path / "weights.pt2", "archive/data.pkl", "archive/data/0"))
    assert not is_exported_program(pack(tmp_path / "compiled.pt2", "m/archive_format", "m/data/aotinductor/m.so"))
    (tmp_path / "torn.pt2").write_bytes(b"PK\x03\x04")
    assert not is_exported_program(tmp_path / "torn.pt2")


def test_without_the_extra_its_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "find_spec", lambda _name: None)
    with pytest.raises(TvmbuildError) as caught:
        read_model(pack_program(tmp_path / "net.pt2"), "net")
    assert caught.value.message == MISSING


def test_a_program_that_is_called_onnx_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_file, "convert_pt2", lambda *_: pytest.fail("its code would run"))
    for name in ("net.onnx", "0123abcd"):
        with pytest.raises(TvmbuildError, match="is not an ONNX file: it is a program of torch") as caught:
            read_model(pack_program(tmp_path / name), "net")
        assert caught.value.hint == "Call it .pt2 if you trust it: loading one may run its code."


@pytest.mark.usefixtures("own_folders")
def test_what_is_downloaded_keeps_its_name(tmp_path: Path) -> None:
    away = pack_program(tmp_path / "net.pt2")
    source = Source("url", away.as_uri(), None, hashlib.sha256(away.read_bytes()).hexdigest())
    with obtain_model(source, tmp_path) as path:
        assert path.name == "net.pt2"
        assert path.read_bytes() == away.read_bytes()
        assert path != away


SOURCES = (
    Source("path", "models/net.pt2"),
    Source("url", "https://example.org/net.pt2", None, "0" * 64),
    Source("url", "https://example.org/net.pt2?download=true", None, "0" * 64),
    Source("package", "x==1", "x/net.pt2", "0" * 64),
    Source("hub", "owner/name", "net.pt2", "0" * 64),
)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.kind)
def test_every_kind_of_source_needs_torch_and_has_its_version_in_the_fingerprint(source: Source) -> None:
    model, versions = ModelSpec("net", source), FrozenMap({"huggingface-hub": "1"})
    assert Simplify().explain_model(model, Capabilities(versions=versions)) == MISSING
    versions = FrozenMap({"huggingface-hub": "1", "torch": "2.9", "onnxscript": "0.5"})
    here = Capabilities(versions=versions)
    assert Simplify().explain_model(model, here) is None
    tools = Simplify().list_tools(Subject(model, None), here)
    assert (tools["torch"], tools["onnxscript"]) == ("2.9", "0.5")
    assert "huggingface-hub" not in tools


def test_a_function_named_after_a_program_is_no_program() -> None:
    model = ModelSpec("net", Source("export", "net.pt2", export=Export("make")))
    assert Simplify().explain_model(model, Capabilities()) is None


Child = Callable[[Path], int]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Child], Any]:
    """Read a program that a function converts in torch's place."""

    def read(child: Child) -> Any:
        def run(_module: str, _path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
            return subprocess.CompletedProcess([], child(folder), "", "Traceback …\nOSError: no room\n")

        monkeypatch.setattr(convert, "run_module", run)
        monkeypatch.setattr(convert, "find_spec", lambda _name: True)
        return read_model(pack_program(tmp_path / "net.pt2"), "net")

    return read


def write_double(folder: Path, *factors: float) -> int:
    """Write a network that doubles, and for each set of inputs the factor of torch."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x", "y"))
    two = helper.make_tensor("two", TensorProto.FLOAT, [1], [2.0])
    graph = helper.make_graph([helper.make_node("Mul", ["x", "two"], ["y"])], "net", [x], [y], [two])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, folder / convert.RESULT)
    for index, factor in enumerate(factors):
        given = np.arange(1, 3 + index, dtype=np.float32)
        arrays: dict[str, Any] = {"input:x": given, "output:y": given * factor}
        np.savez(folder / f"set{index}.npz", **arrays)
    return 0


def test_what_agrees_with_torch_is_taken(stand_in: Callable[[Child], Any]) -> None:
    assert stand_in(lambda folder: write_double(folder, 2, 2)).graph.node[0].op_type == "Mul"


@pytest.mark.parametrize("factors", [(3, 2), (2, 3)])
def test_other_numbers_than_torch_are_refused(stand_in: Callable[[Child], Any], factors: tuple[float, ...]) -> None:
    with pytest.raises(TvmbuildError, match="it computes other numbers than torch: output y is wrong in"):
        stand_in(lambda folder: write_double(folder, *factors))


def write_error(folder: Path) -> int:
    (folder / convert.ERROR).write_text(json.dumps({"message": "it draws random numbers", "hint": "export it"}))
    return 1


@pytest.mark.parametrize(
    ("child", "said"),
    [
        (write_error, "net: it draws random numbers"),
        (lambda _folder: -9, "net: torch was killed (SIGKILL) while it converted it, most likely because memory ran"),
        (lambda _folder: -11, "net: torch crashed with SIGSEGV while it converted it"),
        (lambda _folder: 1, "net: torch could not convert it: OSError: no room"),
    ],
)
def test_every_ending_is_one_sentence(stand_in: Callable[[Child], Any], child: Child, said: str) -> None:
    with pytest.raises(TvmbuildError) as caught:
        stand_in(child)
    assert caught.value.message.startswith(said)
    assert caught.value.hint


MODULES = """
import sys, torch
from torch import nn

class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
    def forward(self, x):
        self.count.add_(1)
        return x + self.count

class InPlace(nn.Module):
    def forward(self, x): return x.add_(1) * 2

class Drawing(nn.Module):
    def forward(self, x): return x + torch.rand_like(x)

class Unknown(nn.Module):
    def forward(self, x): return torch.linalg.svd(x)[1]

class Number(nn.Module):
    def forward(self, x): return x * 2, 3

class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
    def forward(self, batch, scale=1, flag=None):
        y = self.linear(batch["x"])
        return {"linear": y * scale, "batch_x": batch["x"], "pair": (y + 1, batch["more"][0] * 2), "none": None}

class Sized(nn.Module):
    def forward(self, x, n): return x * n

square = torch.rand(4, 4)
many = {0: torch.export.Dim.DYNAMIC}
PROGRAMS = {
    "stateful": (Stateful(), (square,), {}, None),
    "training": (nn.BatchNorm1d(4).train(), (square,), {}, None),
    "in place": (InPlace(), (square,), {}, None),
    "drawing": (Drawing(), (square,), {}, None),
    "unknown": (Unknown(), (square,), {}, None),
    "number": (Number(), (square,), {}, None),
    "bfloat16": (nn.Linear(4, 4).bfloat16(), (square.bfloat16(),), {}, None),
    "nested": (Nested(), ({"x": square, "more": [torch.rand(3)]},), {"scale": 2}, None),
    "sized": (Sized(), (square, 3), {}, (None, torch.export.Dim.DYNAMIC)),
    "open": (nn.Linear(4, 2), (square,), {}, (many,)),
    "half": (nn.Linear(4, 2).half(), (square.half(),), {}, None),
}
module, args, kwargs, dynamic = PROGRAMS[sys.argv[1]]
torch.export.save(torch.export.export(module, args, kwargs, dynamic_shapes=dynamic), sys.argv[2])
"""


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    """Save a program in a separate process, because torch's warnings are not ours."""

    def save(name: str) -> Path:
        path = tmp_path / "net.pt2"
        subprocess.run([sys.executable, "-c", MODULES, name, str(path)], check=True, stderr=subprocess.DEVNULL)
        return path

    return save


REFUSED = {
    "stateful": "net: it changes its buffers at every run: count",
    "training": "net: it changes its buffers at every run: num_batches_tracked, running_mean, running_var",
    "in place": "net: it writes into its inputs: x",
    "drawing": "net: it draws random numbers: two runs on the same inputs differ in output",
    "unknown": "net: torch.onnx cannot convert it: there is no ONNX function for aten._linalg_svd.default",
    "number": "net: its output output_1 is 3, no tensor",
    "bfloat16": "net: its input input is bfloat16",
}


@pytest.mark.torch
@pytest.mark.nightly  # PyTorch takes ten seconds to begin
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_network_of_tensors_is_refused_by_name(name: str, program: Callable[[str], Path]) -> None:
    with pytest.raises(TvmbuildError) as caught:
        read_model(program(name), "net")
    assert caught.value.message == REFUSED[name]
    assert caught.value.hint


def shapes(values: Any) -> dict[str, list[int | str]]:
    return {v.name: [d.dim_value or d.dim_param for d in v.type.tensor_type.shape.dim] for v in values}


@pytest.mark.torch
def test_nested_inputs_and_outputs_have_the_names_of_the_code(program: Callable[[str], Path]) -> None:
    proto = read_model(program("nested"), "net")
    assert shapes(proto.graph.input) == {"batch_x": [4, 4], "batch_more_0": [3]}
    assert list(shapes(proto.graph.output)) == ["linear", "output_1", "pair_0", "pair_1"]  # batch_x is an input's


@pytest.mark.torch
def test_what_was_open_stays_open_and_a_number_is_an_input(program: Callable[[str], Path]) -> None:
    from tvmbuild.preparing.simplify import simplify

    path = program("open")
    (sizes,) = shapes(read_model(path, "net").graph.input).values()
    assert isinstance(sizes[0], str)
    assert sizes[1:] == [4]
    made = simplify(path, [InputSpec("input", (7, 4))])
    assert made.reference.outputs["output"].shape == (7, 2)
    assert simplify(path).inputs[0].shape == (1, 4)
    made = simplify(program("sized"), [InputSpec("n", value="3")])
    np.testing.assert_allclose(made.reference.outputs["output"], 3 * made.reference.inputs["x"])


@pytest.mark.torch
def test_half_weights_stay_half_and_equal_files_are_equal_bytes(program: Callable[[str], Path]) -> None:
    path = program("half")
    first, second = (read_model(path, "net") for _ in range(2))
    assert {tensor.data_type for tensor in first.graph.initializer} == {TensorProto.FLOAT16}
    assert first.SerializeToString(deterministic=True) == second.SerializeToString(deterministic=True)
    assert b"site-packages" not in first.SerializeToString()


@pytest.mark.torch
def test_a_program_of_another_device_says_so(program: Callable[[str], Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(program("half")) as archive, zipfile.ZipFile(tmp_path / "away.pt2", "w") as away:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith(".json"):
                content = content.replace(b'"type": "cpu"', b'"type": "xpu"').replace(b'"type":"cpu"', b'"type":"xpu"')
            away.writestr(name, content)
    with pytest.raises(TvmbuildError, match="it was exported on xpu, and cannot be loaded on a machine without one"):
        read_model(tmp_path / "away.pt2", "net")


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.compiler
def test_today_s_operators_are_right(project_root: Path) -> None:
    command = [sys.executable, "-W", "ignore", "benchmarks/torch_programs.py", "--way", "exporter"]
    done = subprocess.run(command, cwd=project_root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "exporter: 15 of 15 right" in done.stdout
