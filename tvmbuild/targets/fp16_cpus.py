"""The CPUs that have float16 arithmetic. For other CPUs TVM would silently emulate it, many times slower."""

from __future__ import annotations

from collections.abc import Mapping

from tvmbuild.base.attributes import AttributeValue
from tvmbuild.base.host_cpu import machine_of

X86_CPUS = frozenset(
    {
        *("diamondrapids", "emeraldrapids", "graniterapids", "graniterapids-d", "graniterapids_d", "novalake"),
        "sapphirerapids",
    }
)
ARM_CPUS = frozenset(
    {
        *("a64fx", "ampere1", "ampere1a", "ampere1b", "ampere1c", "apple-a11", "apple-a12", "apple-a13", "apple-a14"),
        *("apple-a15", "apple-a16", "apple-a17", "apple-m4", "apple-m5", "c1-nano", "c1-premium", "c1-pro", "c1-ultra"),
        *("carmel", "cortex-a320", "cortex-a510", "cortex-a520", "cortex-a520ae", "cortex-a55", "cortex-a65"),
        *("cortex-a65ae", "cortex-a710", "cortex-a715", "cortex-a720", "cortex-a720ae", "cortex-a725", "cortex-a75"),
        *("cortex-a76", "cortex-a76ae", "cortex-a77", "cortex-a78", "cortex-a78ae", "cortex-a78c", "cortex-r82"),
        *("cortex-r82ae", "cortex-x1", "cortex-x1c", "cortex-x2", "cortex-x3", "cortex-x4", "cortex-x925", "exynos-m4"),
        *("exynos-m5", "fujitsu-monaka", "gb10", "grace", "neoverse-512tvb", "neoverse-e1", "neoverse-n1"),
        *("neoverse-n2", "neoverse-n3", "neoverse-v1", "neoverse-v2", "neoverse-v3", "neoverse-v3ae", "olympus"),
        *("oryon-1", "tsv110"),
    }
)
FP16_CPUS = {"x86_64": ("avx512fp16", X86_CPUS), "aarch64": ("fullfp16", ARM_CPUS)}
"""Architecture → LLVM's name of the instructions for vectors of float16, and LLVM's names of the CPUs with them."""


def explain_cpu(precision: str, attributes: Mapping[str, AttributeValue]) -> tuple[str, str] | None:
    """Return the fault of ``precision`` on the CPU and the expected value, or None if the CPU supports it."""
    if precision == "bf16":
        return (
            "TVM converts each bfloat16 of a CPU by itself, which takes many times as long as fp32",
            "fp16 (where the CPU has it) or fp32",
        )
    if precision == "tf32":
        return "TF32 is what NVIDIA's tensor cores multiply; a CPU computes float32", "fp32"
    triple, cpu = str(attributes.get("mtriple", "")), str(attributes.get("mcpu", "generic"))
    machine = triple.partition("-")[0].lower()
    known = FP16_CPUS.get(machine_of(triple))
    if known is None:
        return f"tvmbuild knows no fp16 arithmetic of {machine}", "fp32"
    feature, cpus = known
    mattr = attributes.get("mattr", ())
    signed = [str(each) for each in (mattr if isinstance(mattr, tuple) else (mattr,))]
    stated = [each[0] for each in signed if each[1:] == feature]
    if stated[-1:] == ["+"] or (not stated and cpu in cpus):
        return None
    if stated:
        return f"mattr takes {feature} away, and without it there is no fp16 arithmetic", "fp32"
    return (
        f"{cpu} has no fp16 arithmetic",
        f"fp32, an mcpu that has it, or mattr: [+{feature}] where the CPU does",
    )
