"""Private buffers of CPU kernels become buffers that TVM puts on the stack; the numbers stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 - TVMScript's name

from tvmbuild.compiler.codegen.stack_buffers import use_stack_buffers
from tvmbuild.compiler.ir.expressions import int64
from tvmbuild.compiler.kernels.buffers import begin_kernel
from tvmbuild.compiler.kernels.vectors import local

pytestmark = pytest.mark.compiler
SIZE = 16


def _reverse(*, by_pointer: bool) -> tvm.ir.IRModule:
    """Return a module that reverses a vector through a private buffer, or through a second view of its memory."""
    form = ((SIZE,), "float32")
    with begin_kernel("main", [form], [form]) as (builder, (data, out)):
        kept = local(SIZE)
        view: Any = T.decl_buffer([int64(SIZE)], "float32", data=kept.data, scope="local") if by_pointer else kept
        with T.serial(SIZE) as place:
            T.buffer_store(kept, data[place], [place])
        with T.serial(SIZE) as place:
            T.buffer_store(out, view[int64(SIZE - 1) - place.astype("int64")], [place])
    function = builder.get()
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


def _compute(mod: tvm.ir.IRModule) -> tuple[np.ndarray, bool]:
    """Return the reversed vector, and whether the code asks for memory of the heap."""
    built = tvm.compile(mod, target=tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"}))
    data = np.arange(SIZE, dtype=np.float32)
    given, out = tvm.runtime.tensor(data), tvm.runtime.tensor(np.zeros_like(data))
    built["main"](given, out)
    return out.numpy(), "TVMBackendAllocWorkspace" in built.mod.inspect_source("ll")


@pytest.mark.parametrize("by_pointer", [False, True])
def test_a_private_buffer_is_on_the_stack(by_pointer: bool) -> None:
    mod = _reverse(by_pointer=by_pointer)
    before, on_heap = _compute(mod)
    after, still_on_heap = _compute(use_stack_buffers(mod))
    assert on_heap
    assert not still_on_heap
    assert np.array_equal(before, after)
    assert np.array_equal(after, np.arange(SIZE, dtype=np.float32)[::-1])


def test_other_functions_stay_as_they_are() -> None:
    mod = use_stack_buffers(_reverse(by_pointer=False))
    assert use_stack_buffers(mod).same_as(mod)
    assert isinstance(mod["main"], tirx.PrimFunc)
