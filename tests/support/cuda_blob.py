"""Modules of CUDA kernels as TVM's compiler packs them, whose machine code is only a header."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

POINTER, INT32, INT64, FLOAT32, FLOAT64 = (3, 64), (0, 32), (0, 64), (2, 32), (2, 64)
"""Types of arguments: DLPack's code and the bits."""
DEPENDENT, COOPERATIVE = "tirx.use_programtic_dependent_launch", "tirx.use_cooperative_launch"
SHARED = "tirx.use_dyn_shared_memory"


@dataclass(frozen=True)
class Kernel:
    """A kernel's description in a module."""

    name: str = "show2"
    arguments: Sequence[tuple[int, int]] = (POINTER, INT32)
    tags: Sequence[str] = ("blockIdx.x", "threadIdx.x")
    extra: Sequence[int] = ()
    lanes: int = 1


def make_cubin(arch: int = 90, *, is_new: bool = False) -> bytes:
    """Return the ELF header of machine code for an architecture, in the form of CUDA 13 if it is new."""
    head = bytearray(64)
    head[:5] = b"\x7fELF\x02"
    head[8] = 8 if is_new else 7
    head[49 if is_new else 48] = arch
    return bytes(head)


def make_ptx(arch: int, version: str) -> bytes:
    """Return the head of PTX."""
    return f".version {version}\n.target sm_{arch}\n.address_size 64\n\0".encode()


def write_blob(
    *kernels: Kernel, code: bytes | None = None, form: str = "cubin", count: int | None = None, after: bytes = b""
) -> bytes:
    """Return the bytes of a module. ``count`` is the number of kernels that it claims to have."""
    written = b"".join(map(_write, kernels))
    claimed = len(kernels) if count is None else count
    image = make_cubin() if code is None else code
    return _sized(form.encode()) + struct.pack("<Q", claimed) + written + _sized(image) + after


def _write(kernel: Kernel) -> bytes:
    types = b"".join(struct.pack("<BBH", code, bits, kernel.lanes) for code, bits in kernel.arguments)
    tags = b"".join(_sized(tag.encode()) for tag in kernel.tags)
    name = _sized(kernel.name.encode())
    return (
        name
        + name
        + struct.pack("<Q", len(kernel.arguments))
        + types
        + struct.pack("<Q", len(kernel.tags))
        + tags
        + struct.pack("<Q", len(kernel.extra))
        + struct.pack(f"<{len(kernel.extra)}i", *kernel.extra)
    )


def _sized(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data
