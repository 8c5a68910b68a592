"""Compilation of CUDA source to a cubin by NVRTC, as TVM does it, but without CUDA's C++ standard library.

Generated code needs only the names of integers and some type traits from `cuda/std`, and reading those headers takes
most of the compiler's time. NVRTC gets the few lines that the code needs instead. The candidates of a search and the
shipped kernels are compiled in the same way. Source: https://docs.nvidia.com/cuda/nvrtc/
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tvmbuild.base.nvrtc import Nvrtc

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
    *("--std=c++17", "-default-device", "--device-int128", "--ptxas-options=--register-usage-level=10"),
    *("--ftz=true", "--prec-div=false", "--prec-sqrt=false"),
    *("-D__NV_SILENCE_DEPRECATION_BEGIN=", "-D__NV_SILENCE_DEPRECATION_END="),
    *("-D__NV_SILENCE_HOST_DEPRECATION_BEGIN=", "-D__NV_SILENCE_HOST_DEPRECATION_END="),
    *("-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_HALF_CONVERSIONS__", "-U__CUDA_NO_BFLOAT16_OPERATORS__"),
    *("-U__CUDA_NO_BFLOAT16_CONVERSIONS__", "-U__CUDA_NO_BFLOAT162_OPERATORS__", "-U__CUDA_NO_BFLOAT162_CONVERSIONS__"),
)
"""The options of TVM (`tvm/support/nvcc.py`) without `--use_fast_math`, which makes powf of negative numbers NaN."""


_SUCCESS = 0


def compile_by_nvrtc(source: str, arch: str, nvrtc: Nvrtc, include: Sequence[Path] = ()) -> bytes:
    """Compile CUDA source and return the cubin for ``arch``, or PTX if ``arch`` is virtual (`compute_90`).

    ``include`` are the folders of CUDA's headers. Raises RuntimeError with the compiler's message if the compilation
    fails.
    """
    library = _load(nvrtc.path)
    code = _PREAMBLE + "\n".join(line for line in source.splitlines() if line.strip() != "#include <cuda.h>")
    program = ctypes.c_void_p()
    texts, names = _strings(list(_HEADERS.values())), _strings(list(_HEADERS))
    made = (ctypes.byref(program), code.encode(), b"tvm_kernels.cu", len(_HEADERS), texts, names)
    _check(library, library.nvrtcCreateProgram(*made))
    options = [f"--gpu-architecture={arch}", *_OPTIONS]
    options += [f"-I{path}" for folder in include for path in (folder, folder / "cccl")]
    try:
        if library.nvrtcCompileProgram(program, len(options), _strings([each.encode() for each in options])):
            said = _read(library, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            raise RuntimeError(f"Compilation error:\n{said}")
        return _read(library, program, "PTX" if arch.startswith("compute") else "CUBIN")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


@cache
def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def _strings(values: list[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(values))(*values)


def _read(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(library, library[f"nvrtcGet{what}Size"](program, ctypes.byref(size)))
    data = ctypes.create_string_buffer(size.value)
    _check(library, library[f"nvrtcGet{what}"](program, data))
    return data.raw


def _check(library: ctypes.CDLL, status: int) -> None:
    if status != _SUCCESS:
        raise RuntimeError(f"NVRTC: {library.nvrtcGetErrorString(status).decode()}")
