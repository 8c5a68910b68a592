"""A pack holds several packages of a model, and equal weights once; the first that this machine can run is loaded."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from cpp_programs import install_programs, run_program
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
    packages["zen"] = retarget(own, "zen", mcpu="znver4")
    with pytest.raises(TvmbuildError, match="zen is for znver4, and no machine can tell"):
        order_packages(packages, times)


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
