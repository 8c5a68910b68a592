"""The names of instruction sets in LLVM and in the Linux kernel's /proc/cpuinfo."""

from __future__ import annotations

# LLVM's name → the kernel's name, of each instruction set that changes code. LLVM's list of a CPU also has tuning
# hints (`slow-3ops-lea`), which any CPU runs.
X86_FEATURES = {
    "sse3": "pni",
    "ssse3": "ssse3",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "popcnt": "popcnt",
    "avx": "avx",
    "avx2": "avx2",
    "f16c": "f16c",
    "fma": "fma",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "lzcnt": "abm",
    "movbe": "movbe",
    "aes": "aes",
    "pclmul": "pclmulqdq",
    "vaes": "vaes",
    "vpclmulqdq": "vpclmulqdq",
    "gfni": "gfni",
    "sha": "sha_ni",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avx512vp2intersect": "avx512_vp2intersect",
    "avxvnni": "avx_vnni",
    "avxvnniint8": "avx_vnni_int8",
    "avxvnniint16": "avx_vnni_int16",
    "avxifma": "avx_ifma",
    "avxneconvert": "avx_ne_convert",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
    "amx-fp16": "amx_fp16",
    "sse4a": "sse4a",
    "xop": "xop",
    "fma4": "fma4",
    "tbm": "tbm",
}
ARM_FEATURES = {
    "neon": "asimd",
    "fullfp16": "asimdhp",
    "dotprod": "asimddp",
    "lse": "atomics",
    "rdm": "asimdrdm",
    "crc": "crc32",
    "aes": "aes",
    "sha2": "sha2",
    "sha3": "sha3",
    "fp16fml": "asimdfhm",
    "bf16": "bf16",
    "i8mm": "i8mm",
    "sve": "sve",
    "sve2": "sve2",
    "sme": "sme",
}
ASKED_FOR = frozenset(
    {"aes", "pclmul", "vaes", "vpclmulqdq", "sha", "sha2", "crc", "avx512vp2intersect"}
    | {"amx-tile", "amx-int8", "amx-bf16", "amx-fp16"}
)
"""LLVM's names of the sets whose instructions it writes only where a program asks for them, which no network does.

Many machines lack them: virtual ones hide AMX, and a Raspberry Pi 4 is a Cortex-A72 without `aes` and `sha2`.
"""
UNLISTED = frozenset({"avxifma", "avxvnniint8", "avxvnniint16", "avxneconvert"})
"""LLVM's names of the sets that Linux does not list in /proc/cpuinfo, on CPUs that have them (Sierra Forest)."""
FEATURES = {"x86_64": X86_FEATURES, "aarch64": ARM_FEATURES}
"""The names of instruction sets by architecture. Of other ones no names are known."""
KNOWN_FEATURES = frozenset(X86_FEATURES) | frozenset(ARM_FEATURES)

_V2 = frozenset({"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"})
_V3 = _V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
X86_LEVELS = {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
"""The x86-64 levels of the psABI, each as a set of the kernel's names (abm is lzcnt)."""
