"""Peak rates of this machine's NVIDIA card, with which a profile compares the rates of a package's kernels.

`python -m tvmbuild.devices.local.card_peak PRECISION` measures them in its own process and prints JSON. The best of
several runs counts.

- Compute: for precision fp32, fused multiply-adds of fp32 numbers in registers. For fp16, bf16 and tf32, tensor-core
  products (`mma.sync`) of tiles in registers, with fp32 sums. On cards before sm_80, always fp32.
- Memory: a copy within the card's memory, of a size far beyond its caches. Bytes read and bytes written both count.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable

from tvmbuild.base.cuda_versions import choose_driver
from tvmbuild.base.nvrtc import Nvrtc, explain_install, find_nvrtc
from tvmbuild.base.processes import die_with_parent
from tvmbuild.compiler.codegen.nvrtc import compile_by_nvrtc
from tvmbuild.devices.local import cuda_driver as driver
from tvmbuild.devices.local.peak import measure_in_process
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.profile import Peak

BLOCK, BLOCKS_A_CORE = 512, 2
"""The threads per block, and the blocks per multiprocessor: together 32 warps, which every card holds at once."""
STEPS = 20_000
RUNS = 5
_CHAINS = 8
"""The number of independent sums of a thread."""
_WARP = 32
_LEAST_MMA = 80
_CORES, _L2, _MAJOR, _MINOR = 16, 38, 75, 76
"""CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, …_L2_CACHE_SIZE, …_COMPUTE_CAPABILITY_MAJOR and …_MINOR."""
_LEAST_BYTES = 1 << 30
_TYPES = {"fp16": ("f16", 16), "bf16": ("bf16", 16), "tf32": ("tf32", 8)}
"""Precision → type of the operands in PTX, and the depth (K) of one `mma.sync` product."""
_FMA = """
extern "C" __global__ void __launch_bounds__(%(block)d) peak(float* out, int steps) {
  float factor = 0.999f + threadIdx.x * 1e-9f, sums[8];
  #pragma unroll
  for (int i = 0; i < 8; ++i) sums[i] = threadIdx.x + i;
  for (int step = 0; step < steps; ++step) {
    #pragma unroll
    for (int turn = 0; turn < 8; ++turn) {
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums[i] = fmaf(sums[i], factor, 1e-3f);
    }
  }
  float total = 0;
  #pragma unroll
  for (int i = 0; i < 8; ++i) total += sums[i];
  if (total == -1.0f) out[0] = total;
}
"""
_MMA = """
extern "C" __global__ void __launch_bounds__(%(block)d) peak(float* out, int steps) {
  unsigned a[4] = {threadIdx.x, threadIdx.x + 1, threadIdx.x + 2, threadIdx.x + 3}, b[2] = {threadIdx.x, 7};
  float sums[8][4] = {};
  for (int step = 0; step < steps; ++step) {
    #pragma unroll
    for (int i = 0; i < 8; ++i)
      asm volatile("mma.sync.aligned.m16n8k%(depth)d.row.col.f32.%(type)s.%(type)s.f32 "
        "{%%0, %%1, %%2, %%3}, {%%4, %%5, %%6, %%7}, {%%8, %%9}, {%%0, %%1, %%2, %%3};"
        : "+f"(sums[i][0]), "+f"(sums[i][1]), "+f"(sums[i][2]), "+f"(sums[i][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  float total = 0;
  #pragma unroll
  for (int i = 0; i < 8; ++i) total += sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
  if (total == -1.0f) out[0] = total;
}
"""


def measure_card_peak(precision: str) -> Peak:
    """Measure the card's peak rates in another process, in one or two seconds. ``precision`` is that of the package.

    Nothing else should run on the card meanwhile. Raises TvmbuildError if the process fails.
    """
    return measure_in_process("tvmbuild.devices.local.card_peak", precision, dict(os.environ))


def write_kernel(precision: str, arch: int) -> tuple[str, int, str]:
    """Return the CUDA source of the compute kernel, the operations of one warp in one step, and a description.

    ``arch`` is the card's compute capability as a number: 90 for sm_90.
    """
    if precision in _TYPES and arch >= _LEAST_MMA:
        kind, depth = _TYPES[precision]
        source = _MMA % {"block": BLOCK, "type": kind, "depth": depth}
        return source, _CHAINS * 2 * 16 * 8 * depth, f"{precision} mma.sync in registers"
    return _FMA % {"block": BLOCK}, _WARP * 2 * 8 * _CHAINS, "fp32 FMA in registers"


def measure_here(precision: str) -> Peak:
    """Measure the card's peak rates in this process."""
    with driver.open_context(), driver.open_stream() as stream:
        gflops, compute = _measure_compute(stream, precision)
        gb_s, memory = _measure_memory(stream)
    return Peak(gflops, gb_s, 0, compute, memory)


def _measure_compute(stream: int, precision: str) -> tuple[float, str]:
    arch = 10 * driver.read_attribute(_MAJOR) + driver.read_attribute(_MINOR)
    source, operations, how = write_kernel(precision, arch)
    kernel = driver.load_kernel(
        compile_by_nvrtc(source, f"sm_{arch}", find_compiler(arch, driver.read_version())), "peak"
    )
    blocks = BLOCKS_A_CORE * driver.read_attribute(_CORES)
    with driver.allocate(4) as out:
        arguments = (ctypes.c_void_p(out), ctypes.c_int(STEPS))
        seconds = _best(stream, lambda: driver.launch(kernel, (blocks, BLOCK), stream, arguments))
    return operations * STEPS * (BLOCK // _WARP) * blocks / seconds / 1e9, how


def find_compiler(arch: int, newest: int) -> Nvrtc:
    """Return an installed NVRTC for the card, whose code a driver of CUDA ``newest`` loads; packages' usual one first.

    Raises TvmbuildError if there is none.
    """
    usual = choose_driver({"arch": f"sm_{arch}"})[0]
    for major in (usual, *range(newest, usual, -1)):
        found = find_nvrtc(major)
        if found is not None:
            return found
    raise TvmbuildError(f"NVRTC {usual} is not there", explain_install(usual))


def _measure_memory(stream: int) -> tuple[float, str]:
    size = max(_LEAST_BYTES, 8 * driver.read_attribute(_L2))
    with driver.allocate(size) as source, driver.allocate(size) as sink:
        seconds = _best(stream, lambda: driver.copy(sink, source, size, stream))
    return 2 * size / seconds / 1e9, f"{size >> 20} MiB copied"


def _best(stream: int, work: Callable[[], object]) -> float:
    """Return the shortest time of ``work`` on the card in seconds, over RUNS runs after a warm-up run."""
    return min([driver.time_on_device(stream, work) for _ in range(1 + RUNS)][1:])


if __name__ == "__main__":
    die_with_parent()
    sys.stdout.write(json.dumps(measure_here(sys.argv[1]).to_json()) + "\n")
