"""Packs: several packages of one model in one file, with the weights that they share stored once."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tvmbuild.base.files import pretty_json, write_bytes
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import (
    METADATA,
    PACK,
    PARAMS,
    DamagedArchiveError,
    Package,
    check_package,
    explain_damage,
    map_archive,
    read_members,
)
from tvmbuild.package.json_checks import check_map, each, map_of, natural, text
from tvmbuild.package.mapped_file import MappedFile
from tvmbuild.package.size_functions import is_library
from tvmbuild.package.weights import align_weights, join_weights

FORMAT = 1
MAX_PACKAGES = 64
_LIBRARY = "mod.so"


@dataclass(frozen=True)
class Packed:
    """One package in a pack."""

    path: Path
    """The pack."""
    number: int
    """The package's place in the pack."""
    name: str

    def __str__(self) -> str:
        """Return the pack's path and the package's name, for messages."""
        return f"{self.path}: {self.name}"

    def map(self) -> tuple[Package, MappedFile]:
        """Verify the package and return it with the mapped pack. Other packages of the pack are not read.

        Raises TvmbuildError if it is damaged.
        """
        file, contents, told = _map(self.path)
        begin = f"{self.number}/"
        mine = {name.removeprefix(begin): data for name, data in contents.items() if name.startswith(begin)}
        shared = contents[PARAMS]
        if len(shared) != told["weights"]["size"] or hashlib.sha256(shared).hexdigest() != told["weights"]["sha256"]:
            raise explain_damage(self.path, f"{PARAMS} is not the file that {PACK} describes")
        if METADATA not in mine or _LIBRARY not in mine:
            raise explain_damage(self.path, f"the package {self.name} is not whole")
        package = check_package(self.path, {**mine, PARAMS: shared}, with_params=False)
        return replace(package, places=tuple(told["packages"][self.number]["params"])), file


def list_packed(path: Path) -> list[Packed]:
    """Return the packages of a pack in its order. Raises TvmbuildError if the pack is damaged."""
    _, _, told = _map(path)
    return [Packed(path, number, str(entry["name"])) for number, entry in enumerate(told["packages"])]


def write_pack(path: Path, packages: Mapping[str, Package]) -> None:
    """Write a pack of packages (name → package) in the order of the map. Equal packages give equal bytes.

    Raises TvmbuildError if they are not of one model.
    """
    _require_one_model(packages)
    weights, places = join_weights([bytes(package.params) for package in packages.values()])
    weights = align_weights(weights)
    entries = [{"name": name, "params": list(used)} for name, used in zip(packages, places, strict=True)]
    digest = {"sha256": hashlib.sha256(weights).hexdigest(), "size": len(weights)}
    told = {"format": FORMAT, "packages": entries, "weights": digest}
    members: dict[str, bytes] = {PACK: pretty_json(told).encode(), PARAMS: weights}
    for number, package in enumerate(packages.values()):
        members[f"{number}/{METADATA}"] = pretty_json(package.info.to_json()).encode()
        members |= {f"{number}/{name}": bytes(data) for name, data in package.contents.items() if name != PARAMS}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    write_bytes(path, buffer.getvalue())


def _require_one_model(packages: Mapping[str, Package]) -> None:
    if not 0 < len(packages) <= MAX_PACKAGES:
        raise TvmbuildError(f"a pack has 1 to {MAX_PACKAGES} packages, not {len(packages)}", "name fewer cells")
    (first, one), *others = packages.items()
    for name, other in others:
        if other.info.model != one.info.model:
            raise TvmbuildError(f"{first} and {name} are different models", "make a pack for each model")
        if (other.info.inputs, other.info.outputs) != (one.info.inputs, one.info.outputs):
            raise TvmbuildError(
                f"{first} and {name} have different inputs or outputs", "build them from the same model"
            )


def _map(path: Path) -> tuple[MappedFile, dict[str, memoryview], dict[str, Any]]:
    """Return the mapped file, its members, and the contents of pack.json, checked."""
    file = map_archive(path)
    try:
        contents = read_members(file.data, _is_member)
        told = json.loads(bytes(contents[PACK]))
        check_map(told, PACK, _PARTS)
    except (DamagedArchiveError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise explain_damage(path, str(error)) from error
    if told["format"] != FORMAT:
        raise TvmbuildError(
            f"{path.name} has the format {told['format']}; this tvmbuild reads {FORMAT}", "pack it again"
        )
    if PARAMS not in contents or not 0 < len(told["packages"]) <= MAX_PACKAGES:
        raise explain_damage(path, f"{PACK} lists other files than the archive holds")
    return file, contents, told


_PARTS = {
    "format": natural,
    "packages": each(map_of({"name": text, "params": each(natural)})),
    "weights": map_of({"sha256": text, "size": natural}),
}


def _is_member(name: str) -> bool:
    number, slash, inner = name.partition("/")
    if not slash:
        return name in (PACK, PARAMS)
    return (
        number.isascii()
        and number.isdecimal()
        and len(number) < 3
        and (inner in (METADATA, _LIBRARY) or is_library(inner))
    )
