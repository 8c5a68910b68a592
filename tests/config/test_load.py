# ruff: noqa: E501 - a message stands here as its reader sees it
from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.device_specs import NoDevice, QemuDevice, RpcDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.preprocess_specs import Preprocess
from tvmbuild.base.source_specs import Source
from tvmbuild.base.specs import (
    BenchmarkOptions,
    InputSpec,
    ModelSpec,
    Project,
    SimplifyOptions,
    TargetSpec,
    Tolerance,
    TuneOptions,
)
from tvmbuild.config import load_project
from tvmbuild.errors import TvmbuildError

SHA = "0" * 64
Load = Callable[..., Project]

FULL_MODELS = f"""
x-common: &common {{rtol: 1e-2}}
defaults:
  tolerance: {{rtol: 1e-4, atol: 2e-4}}
  simplify: {{seed: 3, skip: [a]}}
  targets: {{exclude: [b*]}}
models:
  local:
    source: {{path: models/net.onnx, sha256: {"AB" * 32}}}
    labels: models/labels.txt
    tolerance:
      <<: *common
    preprocess: {{input: x, resize: crop, color: gray, scale: 1/127, mean: [1], std: [.5], layout: NHWC}}
  web.site:
    enabled: false
    source: {{url: "https://example.org/n.onnx", sha256: "{SHA}"}}
    inputs:
      y: {{dtype: int64}}
      x: {{shape: [1, 3], dtype: float32, range: [0, 1e1]}}
    simplify: {{enabled: false, skip: [], rtol: 1, atol: 0}}
    targets: {{include: ["a"], exclude: []}}
  wheel:
    source: {{package: n==1.0.post1, file: n/n.onnx, sha256: "{SHA}"}}
"""
FULL_TARGETS = """
defaults:
  device: {rpc: {tracker: "host:9190", key: board}}
  tune: {trials_per_task: 8, repeat: 1}
  glibc: 2.30
targets:
  a: {kind: llvm, mtriple: x86_64-linux-gnu, num-cores: 2, mattr: [+avx2, -fma], fast-math: true, tune: {trials: 1e2, repeat: 4}}
  b1:
    kind: cuda
    arch: sm_90
    max_threads_per_block: 0x400
    max_shared_memory_per_block: 49152
    thread_warp_size: 32
    host: {mtriple: aarch64-linux-gnu, num-cores: 4}
    device: {qemu: aarch64}
    link: gcc
    glibc: "2.28"
    measured_on: board
    benchmark: {number: 2, repeat: 3, threads: 4, baselines: [openvino, tvm-untuned]}
  b2: {kind: llvm, mtriple: a-b-c, num-cores: 1, device: none, tune: {ops: [conv*], cost_model: random, seed: 1, trials: null}}
"""


def test_every_key_becomes_a_value(load: Load) -> None:
    project = load(models=FULL_MODELS, targets=FULL_TARGETS)
    shared = SimplifyOptions(seed=3, skip=("a",))
    assert project.models == (
        ModelSpec(
            name="local",
            source=Source("path", "models/net.onnx", None, "ab" * 32),
            tolerance=Tolerance(1e-2, 2e-4),
            preprocess=Preprocess("x", "crop", "gray", 1 / 127, (1.0,), (0.5,), "NHWC"),
            labels="models/labels.txt",
            simplify=shared,
            exclude=("b*",),
        ),
        ModelSpec(
            name="web.site",
            source=Source("url", "https://example.org/n.onnx", None, SHA),
            inputs=(InputSpec("x", (1, 3), "float32", 0.0, 10.0), InputSpec("y", None, "int64")),
            tolerance=Tolerance(1e-4, 2e-4),
            simplify=SimplifyOptions(enabled=False, skip=(), seed=3, rtol=1.0, atol=0.0),
            enabled=False,
            include=("a",),
        ),
        ModelSpec(
            name="wheel",
            source=Source("package", "n==1.0.post1", "n/n.onnx", SHA),
            tolerance=Tolerance(1e-4, 2e-4),
            simplify=shared,
            exclude=("b*",),
        ),
    )
    board = RpcDevice("host:9190", "board", 60.0)
    assert project.targets == (
        TargetSpec(
            name="a",
            kind="llvm",
            attributes=FrozenMap(
                {"fast-math": True, "mattr": ("+avx2", "-fma"), "mtriple": "x86_64-linux-gnu", "num-cores": 2}
            ),
            glibc="2.30",
            device=board,
            tune=TuneOptions(trials=100, trials_per_task=8, repeat=4),
        ),
        TargetSpec(
            name="b1",
            kind="cuda",
            attributes=FrozenMap(
                {
                    "arch": "sm_90",
                    "max_shared_memory_per_block": 49152,
                    "max_threads_per_block": 1024,
                    "thread_warp_size": 32,
                }
            ),
            host=FrozenMap({"mtriple": "aarch64-linux-gnu", "num-cores": 4}),
            link="gcc",
            glibc="2.28",
            measured_on="board",
            device=QemuDevice("aarch64"),
            tune=TuneOptions(trials_per_task=8, repeat=1),
            benchmark=BenchmarkOptions(2, 3, 4, ("openvino", "tvm-untuned")),
        ),
        TargetSpec(
            name="b2",
            kind="llvm",
            attributes=FrozenMap({"mtriple": "a-b-c", "num-cores": 1}),
            glibc="2.30",
            device=NoDevice(),
            tune=TuneOptions(trials_per_task=8, repeat=1, ops=("conv*",), cost_model="random", seed=1),
        ),
    )
    assert all(list(each.attributes) == sorted(each.attributes) for each in project.targets)
    assert all(list(each.host) == sorted(each.host) for each in project.targets)


def test_what_is_not_said_is_the_specs_default(load: Load) -> None:
    project = load()
    assert project.models == (ModelSpec("net", Source("path", "models/net.onnx")),)
    attributes: Attributes = FrozenMap({"mcpu": "x86-64-v3", "mtriple": "x86_64-linux-gnu", "num-cores": 2})
    assert project.targets == (TargetSpec("pc", "llvm", attributes),)


def test_specs_can_be_digested_and_pickled(load: Load) -> None:
    project = load(models=FULL_MODELS, targets=FULL_TARGETS)
    assert len({hash(spec) for spec in (*project.models, *project.targets)}) == 6


def test_all_mistakes_of_both_files_in_order(load_mistakes: Callable[..., list[str]]) -> None:
    models = "models:\n  a: {source: {path: models/gone.onnx}, enabled: maybe}\n  B: {sorce: 1}\n  a: {}\n"
    targets = "targets:\n  pc: {kind: llvm, num-cores: 0, device: rpc}\n  x: {kind: cpu}\n"
    assert load_mistakes(models=models, targets=targets) == [
        "models.yaml:2:22: models.a.source.path: the file models/gone.onnx does not exist; expected a path relative to the project's folder",
        'models.yaml:2:50: models.a.enabled: found "maybe"; expected true or false',
        """models.yaml:3:3: models.B: not a usable name; expected at most 64 small letters, digits, '_', '.' and '-', the first a letter or digit; did you mean "b"?""",
        'models.yaml:3:7: models.B.sorce: unknown key; expected enabled, source, inputs, sizes, pad, accuracy, keep, labels, postprocess, preprocess, quantize, simplify, targets or tolerance; did you mean "source"?',
        "models.yaml:4:3: models.a: duplicate key, first on line 2; expected each key once",
        """targets.yaml:2:3: targets.pc: the key "mtriple" is missing; expected mtriple: LLVM's triple, such as x86_64-linux-gnu; or mcpu: native""",
        "targets.yaml:2:31: targets.pc.num-cores: 0 is too small; expected at least 1",
        'targets.yaml:2:42: targets.pc.device: found "rpc"; expected local, none or a map with exactly one of the keys rpc, qemu or ssh',
        'targets.yaml:3:13: targets.x.kind: "cpu" is not valid; expected llvm, cuda or vulkan; did you mean "llvm"?',
    ]


@pytest.mark.parametrize("path", [r"a\nb", r"a\0b", "x" * 300, "models/net.onnx/x"])
def test_impossible_paths_are_one_line(path: str, load_mistakes: Callable[..., list[str]]) -> None:
    (line,) = load_mistakes(models=f'models:\n  net: {{source: {{path: "{path}"}}}}\n')
    shown = path.replace(r"\0", r"\x00")
    place = "models.yaml:2:24: models.net.source.path: "
    assert line == f"{place}the file {shown} does not exist; expected a path relative to the project's folder"


def test_x_keys_hold_anchors_at_the_top_only(load_mistakes: Callable[..., list[str]]) -> None:
    targets = "x-any: {a: 1}\ntargets:\n  pc: {x-kind: llvm}\n"
    assert load_mistakes(targets=targets) == [
        'targets.yaml:3:3: targets.pc: the key "kind" is missing; expected kind: TVM\'s code generator',
    ]


def test_mistake_in_an_anchor_is_told_once_where_it_is_written(load_mistakes: Callable[..., list[str]]) -> None:
    models = "x-t: &t {rtoll: 1}\nmodels:\n" + "".join(
        f"  {name}:\n    source: {{path: models/net.onnx}}\n    tolerance: {{<<: *t}}\n" for name in "ab"
    )
    message = 'models.yaml:1:10: models.a.tolerance.rtoll: unknown key; expected rtol, atol, of_largest, tf32, fp16, bf16 or int8; did you mean "rtol"?'
    assert load_mistakes(models=models) == [message]


def test_absent_files(tmp_path: Path) -> None:
    with pytest.raises(TvmbuildError) as caught:
        load_project(tmp_path)
    assert caught.value.message.split("\n") == [
        "models.yaml:1:1: no such file; expected a file that `tvmbuild init` writes",
        "targets.yaml:1:1: no such file; expected a file that `tvmbuild init` writes",
    ]


def test_source_beside_the_project_and_absolute_inside_it(load: Load, tmp_path: Path) -> None:
    (tmp_path.parent / f"{tmp_path.name}.onnx").write_bytes(b"onnx")
    models = (
        f"models:\n  a: {{source: {{path: ../{tmp_path.name}.onnx}}}}\n"
        f"  b: {{source: {{path: {tmp_path}/models/net.onnx}}}}\n"
    )
    sources = [model.source.location for model in load(models=models).models]
    assert sources == [f"../{tmp_path.name}.onnx", "models/net.onnx"]


def test_source_of_a_disabled_model_may_be_absent(load: Load) -> None:
    models = "models:\n  net: {enabled: false, source: {path: models/gone.onnx}}\n"
    assert load(models=models).models[0].source.location == "models/gone.onnx"


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-3", 1e-3), ("1.5E+2", 150.0), (".5", 0.5), ("010", 10.0), ("0x10", 16.0), ("+1", 1.0)],
)
def test_numbers_are_those_of_yaml_1_2(text: str, value: float, load: Load) -> None:
    models = f"models:\n  net:\n    source: {{path: models/net.onnx}}\n    tolerance: {{rtol: {text}}}\n"
    assert load(models=models).models[0].tolerance.rtol == value


def test_utf8_with_a_mark_and_crlf(load: Load) -> None:
    content = b"\xef\xbb\xbf# \xc3\xa9\r\nmodels:\r\n  net:\r\n    source: {path: models/net.onnx}\r\n"
    assert [model.name for model in load(models=content).models] == ["net"]


def test_two_hundred_models_load_quickly_and_without_tvm(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"onnx")
    model = "    source: {path: net.onnx}\n    inputs:\n      x: {shape: [1, 3, 224, 224], dtype: float32}\n"
    (tmp_path / "models.yaml").write_text("models:\n" + "".join(f"  net{i}:\n{model}" for i in range(200)))
    target = "{kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 2}"
    (tmp_path / "targets.yaml").write_text("targets:\n" + "".join(f"  pc{i}: {target}\n" for i in range(5)))
    program = (
        "import sys, time; from pathlib import Path; from tvmbuild.config import load_project\n"
        "seconds = []\n"
        "for _ in range(3):\n"
        "    start = time.process_time()\n"
        "    project = load_project(Path(sys.argv[1]))\n"
        "    seconds.append(time.process_time() - start)\n"
        "print(len(project.models), len(project.targets), 'tvm' in sys.modules, min(seconds))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    models, targets, has_tvm, seconds = done.stdout.split()
    assert (models, targets, has_tvm) == ("200", "5", "False")
    assert float(seconds) < 1.0  # the best of three, because on a busy machine the same work takes longer


def test_files_of_models_that_the_defaults_turn_off_may_be_absent(load: Load) -> None:
    project = load(models="defaults: {enabled: false}\nmodels:\n  net: {source: {path: gone.onnx}}\n")
    assert [model.enabled for model in project.models] == [False]
