"""The passes between schedules and code generation, which do what TVM's schedule primitives cannot express."""

from __future__ import annotations

import tvm

from tvmbuild.compiler.pass_manager import Lowering, Phase, of_module, of_target, on_cpu, run_phase
from tvmbuild.compiler.schedules.cpu.halves import add_up_halves
from tvmbuild.compiler.schedules.cpu.nested_functions import separate_nested_functions
from tvmbuild.compiler.schedules.cpu.overlap import keep_operands, overlap_tiles
from tvmbuild.compiler.schedules.cpu.partition import prepare_partition
from tvmbuild.compiler.schedules.cpu.phases import trim_windows
from tvmbuild.compiler.schedules.cpu.prefetch import prefetch_panels
from tvmbuild.compiler.schedules.cpu.round_to_int import round_to_integers
from tvmbuild.compiler.schedules.cpu.rows.rule import expand_rows
from tvmbuild.compiler.schedules.cpu.truth_values import select_truth_values

TIR_PASSES = Phase(
    "TIR",
    (
        of_module("OverlapTiles", overlap_tiles, on_cpu),
        of_target("ExpandRows", expand_rows, on_cpu),
        of_target("RoundToIntegers", round_to_integers, on_cpu),
        of_module("PrefetchPanels", prefetch_panels, on_cpu),
        of_module("AddUpHalves", add_up_halves, on_cpu),
        of_module("TrimWindows", trim_windows, on_cpu),
        of_module(
            "NarrowPartitionedLoops",
            prepare_partition,
            on_cpu,
            after={
                "ExpandRows": "it writes 64-bit indices",
                "PrefetchPanels": "it writes 64-bit indices",
                "TrimWindows": "it writes 64-bit ends of loops",
            },
        ),
        of_module(
            "SelectTruthValues",
            select_truth_values,
            on_cpu,
            after={
                "ExpandRows": "it compares functions with the form in which they were marked",
                "NarrowPartitionedLoops": "it finds integers that are not indices by their casts",
            },
        ),
        of_module(
            "SeparateNestedFunctions",
            separate_nested_functions,
            on_cpu,
            after={"ExpandRows": "it compares functions with the form in which they were marked"},
        ),
        of_module(
            "KeepOperands",
            keep_operands,
            on_cpu,
            after={"SeparateNestedFunctions": "it divides blocks that are one store"},
        ),
    ),
)
"""The passes that complete schedules of CPU functions; they do not change functions for GPUs."""


def run_tir_passes(mod: tvm.ir.IRModule, target: tvm.target.Target) -> tvm.ir.IRModule:
    """Run the passes of `TIR_PASSES`, which packages, candidates of the tuner and checks of records all need."""
    return run_phase(TIR_PASSES, mod, Lowering(target))
