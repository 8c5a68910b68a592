"""Relax modules lowered to explicit tensors at planned places, by the virtual machine's passes."""

from __future__ import annotations

import tvm
from tvm import relax


def legalize(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Return the module with a kernel for each operator, and reshapes as views."""
    return tvm.transform.Sequential([relax.transform.LegalizeOps(), relax.transform.RewriteDataflowReshape()])(mod)


def plan(mod: tvm.ir.IRModule, *before_planning: tvm.transform.Pass) -> tvm.ir.IRModule:
    """Return the module with its memory planned, after those passes."""
    return tvm.transform.Sequential(
        [
            relax.transform.ToNonDataflow(),
            relax.transform.RemovePurityChecking(),
            relax.transform.CallTIRRewrite(),
            *before_planning,
            relax.transform.StaticPlanBlockMemory(),
            relax.transform.LowerAllocTensor(),
        ]
    )(mod)
