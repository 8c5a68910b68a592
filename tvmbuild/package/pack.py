"""Packs: several packages of one model in one file, with the weights that they share stored once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tvmbuild.base.lazy_modules import import_lazily
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import (
    LIBRARY,
    METADATA,
    PACK,
    PARAMS,
    DamagedArchiveError,
    Package,
    check_package,
    explain_damage,
    is_member,
    make_archive,
    map_archive,
    read_members,
)
from tvmbuild.package.json_checks import check_map, each, map_of, natural, text
from tvmbuild.package.mapped_file import MappedFile
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.package.weights import align_weights, join_weights

if TYPE_CHECKING:
    from tvmbuild.base import files
else:  # for writing
    files = import_lazily("tvmbuild.base.files")

FORMAT = 1
MAX_PACKAGES = 64


class _Pack:
    """A mapped pack: its members, and the contents of pack.json, checked."""

    def __init__(self, path: Path) -> None:
        """Map the file. Raises TvmbuildError if it is damaged."""
        self.path = path
        self.file = map_archive(path)
        try:
            self.contents = read_members(self.file.data, _is_member)
            self.told = json.loads(bytes(self.contents[PACK]))
            check_map(self.told, PACK, _PARTS)
        except (DamagedArchiveError, KeyError, ValueError, TypeError, RecursionError) as error:
            raise explain_damage(path, str(error)) from error
        if self.told["format"] != FORMAT:
            raise TvmbuildError(
                f"{path.name} has the format {self.told['format']}; this tvmbuild reads {FORMAT}", "pack it again"
            )
        if PARAMS not in self.contents or not 0 < len(self.told["packages"]) <= MAX_PACKAGES:
            raise explain_damage(path, f"{PACK} lists other files than the archive holds")

    @cached_property
    def weights(self) -> memoryview:
        """The weights of all packages, which are compared with their digest once."""
        weights, wanted = self.contents[PARAMS], self.told["weights"]
        if len(weights) != wanted["size"] or hashlib.sha256(weights).hexdigest() != wanted["sha256"]:
            raise explain_damage(self.path, f"{PARAMS} is not the file that {PACK} describes")
        return weights


@dataclass(frozen=True)
class Packed:
    """One package in a pack."""

    pack: _Pack = field(repr=False, compare=False)
    number: int
    """The package's place in the pack."""
    name: str

    def __str__(self) -> str:
        """Return the pack's path and the package's name, for messages."""
        return f"{self.pack.path}: {self.name}"

    def map(self) -> tuple[Package, MappedFile]:
        """Verify the package and return it with the mapped pack. Other packages of the pack are not read.

        Raises TvmbuildError if it is damaged.
        """
        pack, begin = self.pack, f"{self.number}/"
        mine = {name.removeprefix(begin): data for name, data in pack.contents.items() if name.startswith(begin)}
        shared = pack.weights
        if METADATA not in mine or LIBRARY not in mine:
            raise explain_damage(pack.path, f"the package {self.name} is not whole")
        package = check_package(pack.path, {**mine, PARAMS: shared}, with_params=False)
        return replace(package, places=tuple(pack.told["packages"][self.number]["params"])), pack.file


def list_packed(path: Path) -> list[Packed]:
    """Return the packages of a pack in its order. Raises TvmbuildError if the pack is damaged."""
    pack = _Pack(path)
    return [Packed(pack, number, str(entry["name"])) for number, entry in enumerate(pack.told["packages"])]


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
    members: dict[str, bytes] = {PACK: files.pretty_json(told).encode(), PARAMS: weights}
    for number, package in enumerate(packages.values()):
        members[f"{number}/{METADATA}"] = files.pretty_json(package.info.to_json()).encode()
        members |= {f"{number}/{name}": bytes(data) for name, data in package.contents.items() if name != PARAMS}
    files.write_bytes(path, make_archive(members))


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
        if _list_sizes(other.info) != _list_sizes(one.info):
            raise TvmbuildError(
                f"{first} and {name} take different sizes", "build them with the same `sizes` and `pad` in models.yaml"
            )


def _list_sizes(info: PackageInfo) -> list[object]:
    """Return the sizes that a package takes, whatever its code and weights."""
    sizes = info.sizes
    if sizes is None:
        return []
    return [
        sizes.inputs,
        sizes.outputs,
        sizes.padded,
        sizes.pad,
        sizes.range,
        [each.values for each in sizes.functions],
    ]


_PARTS = {
    "format": natural,
    "packages": each(map_of({"name": text, "params": each(natural)})),
    "weights": map_of({"sha256": text, "size": natural}),
}


def _is_member(name: str) -> bool:
    number, slash, inner = name.partition("/")
    if not slash:
        return name in (PACK, PARAMS)
    return number.isascii() and number.isdecimal() and len(number) < 3 and inner != PARAMS and is_member(inner)
