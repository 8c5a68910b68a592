"""A pack holds several packages of a model, and equal weights once; the first that this machine can run is loaded."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from c_programs import call_by_ctypes, write_inputs
from cpp_programs import install_programs, run_as_python_does, run_program
from ranged_nets import build_ranged_project, draw
from sized_nets import build_project, draw_inputs
from small_package import build_package

import tvmbuild
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.cli import main
from tvmbuild.cli.pack import order_packages
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import Package, read_package, write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.pack import list_packed, write_pack
from tvmbuild.package.weights import FILLER, join_weights, read_weights

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    return build_package(digits, tmp_path_factory.mktemp("pack"))


def retarget(package: Package, name: str, kind: str = "llvm", **attributes: str) -> Package:
    target = package.info.target
    changed = PackageTarget(name, kind, FrozenMap({**target.attributes, **attributes}))
    return replace(package, info=replace(package.info, target=changed))


@pytest.fixture
def pack(package: Path, tmp_path: Path) -> Path:
    """A pack whose first package is for a board, and whose second is for this machine."""
    own = read_package(package)
    path = tmp_path / "net.tar"
    write_pack(path, {"net-board": retarget(own, "board", mtriple="riscv64-linux-gnu"), "net-here": own})
    return path


def change_members(path: Path, **changes: bytes) -> None:
    with tarfile.open(path) as archive:
        members = {m.name: stream.read() for m in archive if (stream := archive.extractfile(m)) is not None}
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in (members | changes).items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, BytesIO(data))


def test_a_pack_runs_as_its_package_and_has_equal_weights_once(package: Path, pack: Path) -> None:
    value = {"Input3": np.random.default_rng(0).uniform(0, 1, (1, 1, 28, 28)).astype(np.float32)}
    with tvmbuild.load(pack, 1) as session, tvmbuild.load(package, 1) as alone:
        assert session.target.name == "here"
        assert list(session.passed_over) == [f"{pack}: net-board"]
        got, want = (next(iter(each.run(value).values())) for each in (session, alone))
        np.testing.assert_array_equal(got, want)
    params = len(read_package(package).params)
    assert pack.stat().st_size < 2 * package.stat().st_size - 0.9 * params
    assert [each.name for each in list_packed(pack)] == ["net-board", "net-here"]


def test_equal_packages_give_equal_bytes(package: Path, tmp_path: Path) -> None:
    paths = [tmp_path / "a.tar", tmp_path / "b.tar"]
    for path in paths:
        write_pack(path, {"net": read_package(package)})
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_the_command_run_chooses_as_load_does(package: Path, pack: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = {}
    for path in (pack, package):
        assert main(["run", str(path), "--seed", "3", "--memory", "--output", str(path.with_suffix(".npz"))]) == 0
        told = capsys.readouterr()
        assert "net for here" in told.out
        assert ("passed over" in told.err) == (path is pack)
        with np.load(path.with_suffix(".npz")) as arrays:
            outputs[path] = arrays["Plus214_Output_0"]
    np.testing.assert_array_equal(outputs[pack], outputs[package])
    assert main(["run", str(pack), "--device", "ssh:board"]) == 1
    assert "is a pack, from which only this machine can choose" in capsys.readouterr().err


@pytest.mark.toolchain
def test_cpp_loads_from_a_pack_too(pack: Path) -> None:
    done = run_program(install_programs() / "bin" / "bench_model", pack, "--repeat", 2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("net for here, ")
    change_members(pack, **{"1/mod.so": b"x"})
    done = run_program(install_programs() / "bin" / "bench_model", pack)
    assert done.returncode == 1
    assert "this machine can run none of the packages" in done.stderr
    assert "net-here is damaged: mod.so is not the file that mod.json describes" in done.stderr


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("mod.params", b"x", "mod.params is not the file that pack.json describes"),
        ("1/mod.so", b"x", "mod.so is not the file that mod.json describes"),
        ("1/mod.json", b"{}", "mod.json"),
    ],
)
def test_a_damaged_part_is_refused(pack: Path, name: str, data: bytes, reason: str) -> None:
    change_members(pack, **{name: data})
    with pytest.warns(RuntimeWarning, match=reason), pytest.raises(TvmbuildError, match="none of the packages"):
        tvmbuild.load(pack)


@pytest.mark.parametrize("name", ["../mod.so", "1/../mod.so", "100/mod.so", "1/mod.params", "other.json", "/1/mod.so"])
def test_other_members_are_refused(pack: Path, name: str) -> None:
    change_members(pack, **{name: b"x"})
    with pytest.raises(TvmbuildError, match="unexpected member"):
        list_packed(pack)


@pytest.mark.parametrize(
    "told",
    [
        [],
        {},
        {"format": 1, "packages": [{"name": 1, "params": []}], "weights": {"sha256": "", "size": 0}},
        {"format": 1, "packages": [], "weights": {"sha256": "", "size": 0}},
        {"format": 2, "packages": [], "weights": {"sha256": "", "size": 0}},
    ],
)
def test_a_hostile_list_is_refused(pack: Path, told: object) -> None:
    change_members(pack, **{"pack.json": json.dumps(told).encode()})
    with pytest.raises(TvmbuildError):
        list_packed(pack)


def test_places_beyond_the_weights_are_refused(pack: Path) -> None:
    with tarfile.open(pack) as archive:
        stream = archive.extractfile("pack.json")
        assert stream is not None
        told = json.load(stream)
    told["packages"][1]["params"][0] = 10**6
    change_members(pack, **{"pack.json": json.dumps(told).encode()})
    with (
        pytest.warns(RuntimeWarning, match="lacks weights"),
        pytest.raises(TvmbuildError, match="none of the packages"),
    ):
        tvmbuild.load(pack)


def test_commands_for_one_package_name_the_pack(pack: Path) -> None:
    with pytest.raises(TvmbuildError, match="is a pack of several packages"):
        read_package(pack)


def test_the_faster_and_the_more_special_come_first(package: Path) -> None:
    own = read_package(package)
    packages = {
        "v2": retarget(own, "v2", mcpu="x86-64-v2"),
        "arm": retarget(own, "arm", mtriple="aarch64-linux-gnu", mcpu="generic"),
        "slow-v4": retarget(own, "slow", mcpu="x86-64-v4"),
        "v4": retarget(own, "v4", mcpu="x86-64-v4"),
        "vulkan": retarget(own, "vulkan", "vulkan"),
        "cuda": retarget(own, "cuda", "cuda"),
    }
    times = {"slow-v4": 2.0, "v4": 1.0}
    assert order_packages(packages, times) == ["cuda", "vulkan", "v4", "slow-v4", "v2", "arm"]


@pytest.mark.parametrize(("triple", "cpu"), [("x86_64-linux-gnu", "znver4"), ("aarch64-linux-gnu", "cortex-a76")])
def test_a_named_cpu_is_packed_beside_others_only_with_its_instruction_sets(
    package: Path, triple: str, cpu: str
) -> None:
    own = read_package(package)
    old = retarget(own, "old", mtriple=triple, mcpu="generic")
    named = retarget(own, "named", mtriple=triple, mcpu=cpu)
    assert order_packages({"named": named}, {}) == ["named"]
    with pytest.raises(TvmbuildError, match=f"named is for {cpu} and does not state its instruction sets"):
        order_packages({"old": old, "named": named}, {})
    stated = replace(named, info=replace(named.info, target=replace(named.info.target, flags=("f16c", "avx2"))))
    assert order_packages({"old": old, "named": stated}, {}) == ["named", "old"]


def test_of_machines_without_known_instruction_sets_any_cpu_is_packed(package: Path) -> None:
    own = read_package(package)
    boards = {cpu: retarget(own, cpu, mtriple="armv7l-linux-gnueabihf", mcpu=cpu) for cpu in ("cortex-a7", "generic")}
    assert order_packages(boards, {}) == ["cortex-a7", "generic"]


def test_the_command_packs_files_of_one_model(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = tmp_path / "board.tar"
    write_package(board, retarget(read_package(package), "board", mtriple="riscv64-linux-gnu"))
    assert main(["pack", str(board), str(package), "-o", str(tmp_path / "p.tar")]) == 0
    assert f"wrote {tmp_path / 'p.tar'}" in capsys.readouterr().out
    assert sorted(each.name for each in list_packed(tmp_path / "p.tar")) == ["board", "net"]
    other = read_package(package)
    write_package(board, replace(other, info=replace(other.info, model="other")))
    assert main(["pack", str(board), str(package), "-o", str(tmp_path / "q.tar")]) == 1
    assert "are different models" in capsys.readouterr().err
    assert not (tmp_path / "q.tar").exists()


def test_joined_weights_are_those_of_each_file(package: Path) -> None:
    data = bytes(read_package(package).params)
    joined, places = join_weights([data, b"", data])
    assert places[0] == places[2]
    assert places[1] == ()
    tensors = sorted((each for each in read_weights(data) if not each.name.startswith(FILLER)), key=lambda w: w.name)
    found = read_weights(joined)
    for tensor, place in zip(tensors, places[0], strict=True):
        other = found[place]
        assert (tensor.dtype, tensor.shape) == (other.dtype, other.shape)
        assert data[tensor.start :][: tensor.size] == joined[other.start :][: other.size]


def pack_sizes(path: Path, built: Path) -> Package:
    """Write a pack of a package of several sizes, behind one for a board; return the package."""
    own = read_package(built)
    write_pack(path, {"net-board": retarget(own, "board", mtriple="riscv64-linux-gnu"), "net-here": own})
    return own


@pytest.mark.toolchain
def test_a_package_of_several_sizes_runs_from_a_pack(tmp_path: Path) -> None:
    built = build_project(tmp_path).package
    pack = tmp_path / "pack.tar"
    pack_sizes(pack, built)
    assert pack.stat().st_size < 1.95 * built.stat().st_size  # the code is there twice, the weights once
    sizes = [(4, 24), (1, 8), (2, 13), (1, 1)]
    calls = [draw_inputs(batch, length, number) for number, (batch, length) in enumerate(sizes)]
    with tvmbuild.load(pack, 2) as session, tvmbuild.load(built, 2) as alone:
        assert session.sizes == alone.sizes
        for inputs in calls:
            got, want = session.run(inputs), alone.run(inputs)
            assert [*got] == [*want]
            for name, value in want.items():
                np.testing.assert_array_equal(got[name], value)
            write_inputs(tmp_path, inputs)
            assert call_by_ctypes("arrays", pack, tmp_path)["sizes"] == [dict(each) for each in alone.sizes]
            with np.load(tmp_path / "outputs.npz") as stored:
                np.testing.assert_array_equal(stored["arr_0"], want["rows"])
    run_as_python_does(pack, tmp_path, calls)


def test_a_package_of_any_batch_runs_from_a_pack(tmp_path: Path) -> None:
    built = build_ranged_project().package
    pack_sizes(tmp_path / "pack.tar", built)
    with tvmbuild.load(tmp_path / "pack.tar", 2) as session, tvmbuild.load(built, 2) as alone:
        for batch in (1, 2, 8, 23):
            inputs = draw(batch)
            for name, want in alone.run(inputs).items():
                np.testing.assert_array_equal(session.run(inputs)[name], want)


def test_packages_of_other_sizes_are_not_packed(tmp_path: Path) -> None:
    own = read_package(build_project(tmp_path).package)
    sizes = own.info.sizes
    assert sizes is not None
    for changed in (replace(sizes, functions=sizes.functions[1:]), replace(sizes, padded=("T",)), None):
        other = replace(own, info=replace(own.info, sizes=changed))
        with pytest.raises(TvmbuildError, match="one and other take different sizes"):
            write_pack(tmp_path / "pack.tar", {"one": own, "other": other})
        assert not (tmp_path / "pack.tar").exists()
