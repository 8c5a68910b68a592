"""Compilation of CUDA source to a cubin by NVRTC, as TVM does it, but without CUDA's C++ standard library.

Generated code needs only the names of integers and some type traits from `cuda/std`, and reading those headers takes
most of the compiler's time. NVRTC gets the few lines that the code needs instead. The candidates of a search and the
shipped kernels are compiled in the same way. Source: https://docs.nvidia.com/cuda/nvrtc/
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

DISTRIBUTIONS = ("cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-crt")
INSTALL = f"pip install {' '.join(DISTRIBUTIONS)}"
"""The command that restores NVRTC if the installation has lost it; it needs no GPU."""
_CSTDINT = """
#pragma once
namespace cuda { namespace std {
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
} }
"""
_TYPE_TRAITS = """
#pragma once
namespace cuda { namespace std {
template <bool V> struct bool_constant { static constexpr bool value = V; };
template <class A, class B> struct is_same : bool_constant<false> {};
template <class A> struct is_same<A, A> : bool_constant<true> {};
template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
template <class A> struct is_floating_point : bool_constant<is_same_v<A, float> || is_same_v<A, double>> {};
template <class A, class... B> inline constexpr bool is_one_of = (is_same_v<A, B> || ...);
template <class A> struct is_integral : bool_constant<is_one_of<A, bool, char, signed char, unsigned char, short,
  unsigned short, int, unsigned int, long, unsigned long, long long, unsigned long long>> {};
template <class A> struct is_signed : bool_constant<(A(-1) < A(0))> {};
template <class A> struct is_unsigned : bool_constant<!(A(-1) < A(0))> {};
template <bool V, class A = void> struct enable_if {};
template <class A> struct enable_if<true, A> { typedef A type; };
template <bool V, class A, class B> struct conditional { typedef A type; };
template <class A, class B> struct conditional<false, A, B> { typedef B type; };
} }
"""
_HEADERS = {b"cuda/std/cstdint": _CSTDINT.encode(), b"cuda/std/type_traits": _TYPE_TRAITS.encode()}
_PREAMBLE = """#include <cuda/std/cstdint>
using cuda::std::int8_t; using cuda::std::int16_t; using cuda::std::int32_t; using cuda::std::int64_t;
using cuda::std::uint8_t; using cuda::std::uint16_t; using cuda::std::uint32_t; using cuda::std::uint64_t;
#define __asm__ asm
#define __volatile__ volatile
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
"""
_OPTIONS = (
    *("-default-device", "--device-int128", "--ptxas-options=--register-usage-level=10"),
    *("--ftz=true", "--prec-div=false", "--prec-sqrt=false"),
    *("-D__NV_SILENCE_DEPRECATION_BEGIN=", "-D__NV_SILENCE_DEPRECATION_END="),
    *("-D__NV_SILENCE_HOST_DEPRECATION_BEGIN=", "-D__NV_SILENCE_HOST_DEPRECATION_END="),
    *("-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_HALF_CONVERSIONS__", "-U__CUDA_NO_BFLOAT16_OPERATORS__"),
    *("-U__CUDA_NO_BFLOAT16_CONVERSIONS__", "-U__CUDA_NO_BFLOAT162_OPERATORS__", "-U__CUDA_NO_BFLOAT162_CONVERSIONS__"),
)
"""The options of TVM (`tvm/support/nvcc.py`) without `--use_fast_math`, which makes powf of negative numbers NaN."""


def compile_by_nvrtc(source: str, arch: str, toolkit: Path) -> bytes:
    """Compile CUDA source and return the cubin for ``arch``, or PTX if ``arch`` is virtual (`compute_90`).

    ``toolkit`` is the folder that contains the `include` folder of CUDA. Raises RuntimeError with the compiler's
    message if the compilation fails.
    """
    from cuda.bindings import nvrtc  # noqa: PLC0415 - CUDA targets only

    code = _PREAMBLE + "\n".join(line for line in source.splitlines() if line.strip() != "#include <cuda.h>")
    made, program = nvrtc.nvrtcCreateProgram(
        code.encode(), b"tvm_kernels.cu", len(_HEADERS), list(_HEADERS.values()), list(_HEADERS)
    )
    _check(nvrtc, made)
    include = toolkit / "include"
    options = [f"--gpu-architecture={arch}", *_OPTIONS, f"-I{include}", f"-I{include / 'cccl'}"]
    try:
        (done,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        if done != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(f"Compilation error:\n{_read(nvrtc, program, 'ProgramLog').decode(errors='replace')}")
        return _read(nvrtc, program, "PTX" if arch.startswith("compute") else "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _read(nvrtc: Any, program: Any, what: str) -> bytes:
    status, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    _check(nvrtc, status)
    data = b" " * int(size)
    (status,) = getattr(nvrtc, f"nvrtcGet{what}")(program, data)
    _check(nvrtc, status)
    return data


def _check(nvrtc: Any, status: Any) -> None:
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(f"NVRTC: {nvrtc.nvrtcGetErrorString(status)[1].decode()}")
