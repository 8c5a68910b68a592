"""Every kind of device answers every question, and a new kind needs only its row."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import pytest

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.device_specs import DeviceSpec, LocalDevice, NoDevice, QemuDevice, RpcDevice, SshDevice
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.specs import TargetSpec
from tvmbuild.base.steps import Settings
from tvmbuild.cli.doctor.command import check_targets
from tvmbuild.cluster.needs import list_needs
from tvmbuild.config import load_project
from tvmbuild.config.schema import load_schema, schema_text
from tvmbuild.devices.kind import Code, DeviceKind, Tuned
from tvmbuild.devices.table import DEVICES, device_kind, list_forms, open_device, parse_device, read_device
from tvmbuild.engine.fingerprint import fingerprint
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.availability import explain_unavailable
from tvmbuild.planning.plan import make_plan
from tvmbuild.targets.table import TARGETS

HERE = Capabilities(
    codegens=("llvm",),
    runtimes=("llvm",),
    devices=("llvm",),
    machine="aarch64",
    cores=8,
    host_cpu="apple-m1",
    runnable_cpus=("cortex-a72",),
    versions=FrozenMap({"ziglang": "16"}),
    emulators=("aarch64",),
)
ARM: Attributes = FrozenMap({"mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu", "num-cores": 4})
TOLD: dict[str, Any] = {
    "local": "local",
    "none": "none",
    "rpc": {"rpc": {"tracker": "hut:9190", "key": "pi4", "wait_s": 5}},
    "qemu": {"qemu": "aarch64"},
    "ssh": {"ssh": "pi@board"},
}
WRITTEN = {"local": "local", "rpc": "rpc:hut:9190/pi4", "qemu": "qemu:aarch64", "ssh": "ssh:pi@board"}
SPECS: dict[str, DeviceSpec] = {
    "local": LocalDevice(),
    "none": NoDevice(),
    "rpc": RpcDevice("hut:9190", "pi4", wait_s=5.0),
    "qemu": QemuDevice("aarch64"),
    "ssh": SshDevice("pi@board"),
}
Kind = DeviceKind[Any]


@dataclass(frozen=True)
class Cores:
    building: tuple[int, ...] = (0,)
    timing: tuple[int, ...] = (1,)


@pytest.mark.parametrize("name", DEVICES)
def test_every_kind_answers_what_a_plan_asks(name: str) -> None:
    kind, spec, target = DEVICES[name], SPECS[name], TargetSpec("pi", "llvm", ARM, device=SPECS[name])
    assert (kind.name, kind.name, device_kind(spec)) == (name, spec.kind, kind)
    assert parse_device(TOLD[name]) == spec
    assert kind.about
    assert kind.schema is None or isinstance(TOLD[name], dict)
    assert (kind.form is not None) is (name in WRITTEN)
    reason = kind.explain(spec, Code("llvm", ARM), HERE)
    assert (reason is None) is kind.runs, reason
    identity = kind.identify(spec, "llvm")
    assert (identity is not None) is (name == "local")
    assert kind.describe_use(spec, target)
    assert kind.no_times is None or kind.no_times.startswith("runs on ")
    assert kind.name_place(spec, "llvm").startswith(f"llvm {name}")
    for target_kind in TARGETS:
        assert isinstance(kind.has_usual_rates(target_kind), bool)
        assert isinstance(kind.frees_cores(target_kind), bool)
    assert kind.describe_timing(spec) == "" or kind.describe_timing(spec).startswith(" ")


@pytest.mark.parametrize("name", DEVICES)
def test_candidates_are_timed_where_the_spec_says_so(name: str) -> None:
    kind, spec = DEVICES[name], SPECS[name]
    for question in ("describe_timing", "find_device_class", "hold", "make_timer"):
        is_answered = getattr(type(kind), question) is not getattr(Tuned, question)
        assert is_answered is spec.is_timed, question
    if not spec.is_timed:
        for ask in (
            lambda: kind.find_device_class(spec, "llvm", None),
            lambda: kind.hold(spec, "llvm"),
            lambda: kind.make_timer(spec, "llvm", 1, Cores()),
        ):
            with pytest.raises(ValueError, match=f"no candidate is timed on a device of kind {name}"):
                ask()


@pytest.mark.parametrize(
    ("kind", "usual", "frees", "exclusive"),
    [("llvm", True, False, True), ("cuda", False, True, False), ("vulkan", False, False, True)],
)
def test_this_machine_is_held_by_the_targets_kind(
    kind: str, usual: bool, frees: bool, exclusive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool]] = []

    def lock(device: str, *, exclusive: bool) -> AbstractContextManager[None]:
        asked.append((device, exclusive))
        return nullcontext()

    monkeypatch.setattr("tvmbuild.devices.local.kind.device_lock", lock)
    local = DEVICES["local"]
    with local.hold(LocalDevice(), kind):
        pass
    assert asked == [("local", exclusive)]
    assert (local.has_usual_rates(kind), local.frees_cores(kind)) == (usual, frees)
    assert local.make_timer(LocalDevice(), "llvm", 2, Cores()) is None


def test_boards_are_held_all_and_called_as_the_target_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    rpc, spec = DEVICES["rpc"], SPECS["rpc"]
    with rpc.hold(spec, "llvm"):
        assert sorted(path.name for path in tmp_path.rglob("*.lock")) == ["local.lock", "rpc-hut-9190-pi4.lock"]
    assert rpc.find_device_class(spec, "llvm", "pi4") == "pi4"
    assert rpc.name_place(spec, "llvm") == "llvm rpc pi4"
    assert rpc.describe_timing(spec) == " on pi4 at hut:9190"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", WRITTEN)
def test_how_a_device_is_written(name: str) -> None:
    read = read_device(WRITTEN[name])
    assert type(read) is type(SPECS[name])
    form = DEVICES[name].form
    assert form in list_forms()
    with pytest.raises(TvmbuildError) as caught:
        read_device(f"{name}:" if name != "local" else "local:x")
    assert caught.value.message.endswith(f" is not {form}")


def test_what_can_be_opened_has_a_name() -> None:
    assert [open_device(SPECS[name]).name for name in ("local", "rpc", "ssh")] == [
        "this machine", "pi4 at hut:9190", "pi@board"
    ]  # fmt: skip
    with pytest.raises(TvmbuildError, match="packages do not run on a device of kind none"):
        open_device(NoDevice())


def test_the_shipped_schema_says_what_the_table_says() -> None:
    shipped = json.loads(schema_text("targets"))["$defs"]["device"]["anyOf"]
    wanted = load_schema("targets")["$defs"]["device"]["anyOf"]
    assert shipped == wanted, json.dumps(wanted, indent=2, ensure_ascii=False)


def test_asking_the_tables_imports_no_slow_library() -> None:
    program = (
        "import sys, tvmbuild.planning.project, tvmbuild.cluster.needs\n"
        "from tvmbuild.devices.table import DEVICES\nfrom tvmbuild.targets.table import TARGETS\n"
        "print(sorted({'tvm', 'tvm_ffi', 'numpy', 'onnx', 'dask', 'distributed'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --------------------------------------------------------------------------- an unknown kind


@dataclass(frozen=True)
class ShelfDevice(DeviceSpec):
    kind: ClassVar = "shelf"
    board: str


class Shelf(DeviceKind[ShelfDevice]):
    """Boards that lie on a shelf: nothing runs there until somebody fetches one."""

    name = "shelf"
    about = "A board on the shelf."
    schema: ClassVar[Mapping[str, Any]] = {"type": "string", "minLength": 1, "description": "Which one."}
    form = "shelf:BOARD"
    no_times = "runs on a shelf, where it is dark"

    def parse(self, value: Any) -> ShelfDevice:
        return ShelfDevice(value)

    def read(self, text: str) -> ShelfDevice | None:
        return ShelfDevice(text) if text else None

    def explain(self, spec: ShelfDevice, code: Code, _capabilities: Capabilities) -> str | None:
        return f"nobody has fetched {spec.board} to run {code.kind}" if spec.board == "top" else None

    def describe_use(self, spec: ShelfDevice, _target: TargetSpec) -> str:
        return f"{spec.board} of the shelf"

    def open(self, spec: ShelfDevice) -> NoReturn:
        raise TvmbuildError(f"{spec.board} is dusty")


def test_what_a_kind_must_answer_is_said_when_its_row_is_made() -> None:
    class Nothing(DeviceKind[ShelfDevice]):
        name = "nothing"

    with pytest.raises(TypeError, match=r"abstract methods '?about'?, '?describe_use'?, '?open'?, '?parse'?$"):
        Nothing()  # type: ignore[abstract]


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    row: Kind = Shelf()
    monkeypatch.setitem(DEVICES, "shelf", row)
    load_schema.cache_clear()
    yield
    load_schema.cache_clear()


def write_project(folder: Path, device: str) -> Path:
    (folder / "net.onnx").write_bytes(b"onnx")
    (folder / "models.yaml").write_text("models: {net: {source: {path: net.onnx}}}\n")
    arm = "kind: llvm, mcpu: cortex-a72, mtriple: aarch64-linux-gnu, num-cores: 4"
    (folder / "targets.yaml").write_text(f"targets:\n  pi: {{{arm}, device: {device}}}\n")
    return folder


@pytest.mark.usefixtures("shelf")
def test_a_new_kind_is_parsed_explained_and_planned(tmp_path: Path) -> None:
    project = load_project(write_project(tmp_path, "{shelf: left}"))
    (target,) = project.targets
    assert target.device == ShelfDevice("left")
    plan = make_plan(project, HERE, Settings())
    tune, benchmark = plan.find("tune:net@pi"), plan.find("benchmark:net@pi")
    assert tune is not None
    assert benchmark is not None
    assert tune.settings.tune == "never"
    assert benchmark.unavailable is None
    assert list_needs(benchmark, HERE.host_cpu) == {"tvmbuild": 1, "device:shelf": 1}
    assert fingerprint(benchmark)["option.device.kind"] == '"shelf"'
    assert fingerprint(benchmark)["option.device.board"] == '"left"'
    (finding,) = check_targets([target], HERE)
    assert finding.detail == "is built here and runs on left of the shelf"


@pytest.mark.usefixtures("shelf")
def test_a_new_kind_says_why_it_cannot_be_used(tmp_path: Path) -> None:
    (target,) = load_project(write_project(tmp_path, "{shelf: top}")).targets
    assert explain_unavailable("benchmark", target, HERE) == "nobody has fetched top to run llvm"
    with pytest.raises(TvmbuildError, match="left is dusty"):
        open_device(read_device("shelf:left"))


@pytest.mark.usefixtures("shelf")
def test_mistakes_name_a_new_kind(tmp_path: Path) -> None:
    with pytest.raises(TvmbuildError) as caught:
        load_project(write_project(tmp_path, "{shlf: left}"))
    assert 'shlf: unknown key; expected qemu, rpc, shelf or ssh; did you mean "shelf"?' in caught.value.message
    with pytest.raises(TvmbuildError, match="--device shelf: is not shelf:BOARD"):
        read_device("shelf:")


def test_without_its_row_a_kind_is_none(tmp_path: Path) -> None:
    with pytest.raises(TvmbuildError, match="shelf: unknown key"):
        load_project(write_project(tmp_path, "{shelf: left}"))


def test_every_class_of_specs_has_a_row() -> None:
    assert {each.kind for each in DeviceSpec.__subclasses__() if each is not ShelfDevice} == set(DEVICES)
