"""Twenty ways to damage a package; each is refused by name, in Python and in C++."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Members = dict[str, bytes]
FRAME = {"height": 40, "width": 40, "encoding": "mono8", "interpolation": "antialias"}


def write_damaged(package: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield a name and a damaged copy of the package for each of the ways."""
    whole = package.read_bytes()
    with tarfile.open(package) as archive:
        members = {m.name: stream.read() for m in archive if (stream := archive.extractfile(m)) is not None}
    cases: dict[str, bytes] = {
        "empty": b"",
        "text": b"text" * 1000,
        "half a header": whole[:300],
        "half of it": whole[: len(whole) // 2],
        "no end": whole[: len(whole) // 512 * 512 - 20 * 512],
        "bit of a header": _flip(whole, 130),
        "bit of the library": _flip(whole, whole.index(b"\x7fELF") + 5000),
    }
    for name, change in _CONTENTS.items():
        copy = dict(members)
        change(copy)
        cases[name] = _tar(copy)
    for name, alter in _METADATA.items():
        cases[name] = _tar(members | {"mod.json": _altered(members["mod.json"], alter)})
    for name, content in _REPLACED.items():
        part, data = content(members)
        cases[name] = _tar(_consistent(members | {part: data}))
    for name, data in cases.items():
        path = folder / f"{name.replace(' ', '-')}.tar"
        path.write_bytes(data)
        yield name, path


def _flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def _tar(members: Members) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _altered(metadata: bytes, alter: Callable[[dict[str, Any]], object]) -> bytes:
    value = json.loads(metadata)
    alter(value)
    return json.dumps(value).encode()


def _consistent(members: Members) -> Members:
    """Give mod.json the digests of the present files, so that only loading can find the damage."""

    def alter(value: dict[str, Any]) -> None:
        for name in ("mod.so", "mod.params"):
            value["files"][name] = {"sha256": hashlib.sha256(members[name]).hexdigest(), "size": len(members[name])}

    return members | {"mod.json": _altered(members["mod.json"], alter)}


_CONTENTS: dict[str, Callable[[Members], object]] = {
    "no library": lambda members: members.pop("mod.so"),
    "no weights": lambda members: members.pop("mod.params"),
    "a stranger": lambda members: members.update({"../../evil": b"x"}),
    "no json": lambda members: members.update({"mod.json": b"{"}),
    "deep json": lambda members: members.update({"mod.json": b"[" * 100_000}),
    "binary json": lambda members: members.update({"mod.json": b"\xff\xfe\0"}),
    "other weights": lambda members: members.update({"mod.params": b"weights"}),
    "broken letters": lambda members: members.update({"mod.json": members["mod.json"].replace(b"main", b"ma\xffn")}),
}
_METADATA: dict[str, Callable[[dict[str, Any]], object]] = {
    "no inputs": lambda value: value.pop("inputs"),
    "a later format": lambda value: value.update(format=2),
    "a negative size": lambda value: value["inputs"][0].update(shape=[1, -1]),
    "a huge size": lambda value: value["inputs"][0].update(shape=[1 << 39, 1 << 39]),
    "an unknown type": lambda value: value["outputs"][0].update(dtype="object"),
    "labels of numbers": lambda value: value.update(labels=[1, 2]),
    "another file": lambda value: value["files"].update({"mod.x": {"sha256": "0" * 64, "size": 1}}),
    "another machine": lambda value: value["target"]["attributes"].update(mtriple="riscv64-linux-gnu"),
    "an input twice": lambda value: value["inputs"].append(value["inputs"][0]),
    "an unknown rule": lambda value: value.update(preprocess={"colour": "gray"}),
    "frames of no picture": lambda value: value.update(preprocess=None, frames=[FRAME]),
    "one input more": lambda value: value["inputs"].append({"name": "more", "shape": [1], "dtype": "float32"}),
    "no such function": lambda value: value.update(entry="other"),
}
_REPLACED: dict[str, Callable[[Members], tuple[str, bytes]]] = {
    "a text as library": lambda _: ("mod.so", b"text"),
    "half a library": lambda members: ("mod.so", members["mod.so"][: len(members["mod.so"]) // 2]),
    "a text as weights": lambda _: ("mod.params", b"text" * 100),
}
