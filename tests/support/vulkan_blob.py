"""A Vulkan module made by hand: SPIR-V of one small kernel, and the bytes that the runtime reads."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import tvm_ffi

from tvmbuild.package.runtime.vulkan.plugin import load_plugin

GROUP = 32
"""The number of threads of a group; arrays are whole groups."""
FLOAT32, FLOAT64 = 32, 64


def _op(code: int, *operands: int) -> list[int]:
    return [(len(operands) + 1) << 16 | code, *operands]


def _text(value: str) -> list[int]:
    data = value.encode() + b"\0"
    return list(struct.unpack(f"<{-(-len(data) // 4)}I", data.ljust(-(-len(data) // 4) * 4, b"\0")))


def scale_and_add(group: int = GROUP) -> list[int]:
    """Return the words of `out[i] = a[i] * scale + b[i]`: buffers a, b, out; the scalar scale, a float."""
    names = ["main", "gid", "array", "block", "push", "a", "b", "out", "constants"]
    names += ["void", "function", "float", "uint", "vector"]
    names += ["in_vector", "in_uint", "of_block", "of_float", "of_push", "of_scalar", "zero", "label", "x", "index"]
    names += [f"{kind}_{which}" for which in ("a", "b", "out", "scale") for kind in ("pointer", "value")]
    names += ["product", "sum"]
    i = {name: number for number, name in enumerate(names, 1)}
    words = [0x07230203, 0x00010300, 0, len(names) + 1, 0]
    words += _op(17, 1) + _op(14, 0, 1)  # capability Shader; memory model Logical GLSL450
    words += _op(15, 5, i["main"], *_text("main"), i["gid"])
    words += _op(16, i["main"], 17, group, 1, 1)
    words += _op(71, i["gid"], 11, 28) + _op(71, i["array"], 6, 4)
    words += _op(72, i["block"], 0, 35, 0) + _op(71, i["block"], 2)
    words += _op(72, i["push"], 0, 35, 0) + _op(71, i["push"], 2)
    for binding, name in enumerate(("a", "b", "out")):
        words += _op(71, i[name], 34, 0) + _op(71, i[name], 33, binding)
        words += _op(71, i[name], 24) if name != "out" else []
    words += _op(19, i["void"]) + _op(33, i["function"], i["void"]) + _op(22, i["float"], 32)
    words += _op(21, i["uint"], 32, 0) + _op(23, i["vector"], i["uint"], 3)
    words += _op(32, i["in_vector"], 1, i["vector"]) + _op(32, i["in_uint"], 1, i["uint"])
    words += _op(29, i["array"], i["float"]) + _op(30, i["block"], i["array"]) + _op(30, i["push"], i["float"])
    words += _op(32, i["of_block"], 12, i["block"]) + _op(32, i["of_float"], 12, i["float"])
    words += _op(32, i["of_push"], 9, i["push"]) + _op(32, i["of_scalar"], 9, i["float"])
    words += _op(43, i["uint"], i["zero"], 0) + _op(59, i["in_vector"], i["gid"], 1)
    for name in ("a", "b", "out"):
        words += _op(59, i["of_block"], i[name], 12)
    words += _op(59, i["of_push"], i["constants"], 9)
    words += _op(54, i["void"], i["main"], 0, i["function"]) + _op(248, i["label"])
    words += _op(65, i["in_uint"], i["x"], i["gid"], i["zero"]) + _op(61, i["uint"], i["index"], i["x"])
    for name in ("a", "b"):
        words += _op(65, i["of_float"], i[f"pointer_{name}"], i[name], i["zero"], i["index"])
        words += _op(61, i["float"], i[f"value_{name}"], i[f"pointer_{name}"])
    words += _op(65, i["of_scalar"], i["pointer_scale"], i["constants"], i["zero"])
    words += _op(61, i["float"], i["value_scale"], i["pointer_scale"])
    words += _op(133, i["float"], i["product"], i["value_a"], i["value_scale"])
    words += _op(129, i["float"], i["sum"], i["product"], i["value_b"])
    words += _op(65, i["of_float"], i["pointer_out"], i["out"], i["zero"], i["index"])
    words += _op(62, i["pointer_out"], i["sum"]) + _op(253) + _op(56)
    return words


@dataclass(frozen=True)
class Kernel:
    """One kernel of a module; the defaults make a valid one."""

    name: str = "scale_and_add"
    flags: Sequence[int] = (1, 1, 0)
    scalars: Sequence[int] = (2,)
    extents: int = 1
    axes: Sequence[int] = (0, -1, -1)
    local: Sequence[int] = (GROUP, 1, 1)
    shared: int = 0
    features: int = 0
    code: Sequence[int] | None = None

    def write(self) -> bytes:
        code = scale_and_add(self.local[0]) if self.code is None else list(self.code)
        name = self.name.encode()
        return b"".join(
            (
                struct.pack("<I", len(name)) + name,
                struct.pack("<I", len(self.flags)) + bytes(self.flags),
                struct.pack("<I", len(self.scalars)) + bytes(self.scalars),
                struct.pack("<I3b", self.extents, *self.axes),
                struct.pack("<5I", *self.local, self.shared, self.features),
                struct.pack(f"<I{len(code)}I", len(code), *code),
            )
        )


def write_blob(*kernels: Kernel, count: int | None = None) -> bytes:
    """Return a module's bytes; ``count`` claims a wrong number of kernels."""
    body = struct.pack("<I", len(kernels) if count is None else count) + b"".join(each.write() for each in kernels)
    return seal_blob(body)


def seal_blob(body: bytes) -> bytes:
    """Put the header, with its checksum, before the body."""
    return b"tvmbSPV\x01" + struct.pack("<II", len(body) + 16, zlib.crc32(body)) + body


def load_module(blob: bytes) -> tvm_ffi.Module:
    """Return TVM's module of these bytes."""
    load_plugin()  # fixtures of a whole file come before those that load it for each test
    module: tvm_ffi.Module = tvm_ffi.get_global_func("ffi.Module.load_from_bytes.vulkan")(blob)
    return module
