"""Does a scheduled function compute what its Task does? TVM's search makes some, rarely, that do not."""

from __future__ import annotations

from typing import Any

from tvmbuild.devices.candidates import Argument, describe_difference, draw_inputs


def find_difference(mod: Any, workload: Any, target: Any) -> str | None:
    """Run both on the same random inputs; return how they differ, None when they do not.

    Runs in a worker process. The workload is compiled as it is, without any schedule; weights that the schedule wants
    in another order are put into it on the way. A function that cannot be run raises.
    """
    import tvm  # noqa: PLC0415  (after start_worker)

    from tvmbuild.compiler.codegen.fast_math import use_fast_math  # noqa: PLC0415
    from tvmbuild.compiler.schedules.cpu.tir_passes import run_tir_passes  # noqa: PLC0415

    use_fast_math()
    inputs = draw_inputs(list_arguments(workload))
    results = []
    for each in (workload, run_tir_passes(mod, target)):
        tensors = [tvm.runtime.tensor(value) for value in inputs]
        tvm.compile(each, target=target)["main"](*tensors)
        results.append([tensor.numpy() for tensor in tensors])
    return describe_difference(*results)


def list_arguments(workload: Any) -> tuple[Argument, ...]:
    """Return what a Task's function takes, inputs and outputs."""
    return tuple((str(each.dtype), tuple(int(extent) for extent in each.shape)) for each in workload["main"].params)
