"""Measure whether building on other cores disturbs a timing: the same kernel with idle and busy builders, in turns.

python benchmarks/tuner_overlap.py [--threads 1] [--rounds 20]

Needs more cores than threads: the tuner then times on the first ones and searches and builds on the others. Prints the
ratio of the medians, busy to idle: 1.00 means that nothing is disturbed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from typing import Any

from tvmbuild.base.specs import TuneOptions
from tvmbuild.tuning.cores import share_cores


def main() -> int:
    """Time, and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    os.environ["TVM_NUM_THREADS"] = str(args.threads)
    cores = share_cores(args.threads)
    if not cores.overlap:
        print(f"{len(cores.timing)} cores, all needed for {args.threads} threads: nothing overlaps here")
        return 1
    idle, busy = _time(args.rounds, args.threads)
    ratio = statistics.median(busy) / statistics.median(idle)
    print(f"timing on cores {cores.timing}, building on {cores.building}")
    for name, samples in (("idle", idle), ("busy", busy)):
        spread = (max(samples) - min(samples)) / statistics.median(samples)
        print(f"builders {name}: median {statistics.median(samples) * 1e6:.1f} us, spread {spread:.0%}")
    print(f"busy / idle: {ratio:.3f}")
    return 0


def _time(rounds: int, threads: int) -> tuple[list[float], list[float]]:
    import tvm  # noqa: PLC0415 - after the environment is set

    from tvmbuild.compiler.codegen.intrinsics import skip_tensor_intrinsics  # noqa: PLC0415
    from tvmbuild.devices.candidates import Timing  # noqa: PLC0415
    from tvmbuild.tuning.candidate_pool import candidate_pool, wait_for_library  # noqa: PLC0415
    from tvmbuild.tuning.task_search import Allowance, SearchSetup, TaskSearch, make_cost_model  # noqa: PLC0415

    skip_tensor_intrinsics()
    cores, options = share_cores(threads), TuneOptions()
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": threads})
    setup = SearchSetup(target, options, make_cost_model(options, 1), len(cores.building))
    candidates = TaskSearch(_matmul(), setup, Allowance(64, 64)).propose(64)
    timing, samples = Timing(1, 1, 100), ([], [])  # type: tuple[Timing, tuple[list[float], list[float]]]
    with candidate_pool(target, cores) as pool:
        library, error = wait_for_library(pool.build(candidates[:1])[0])
        if library is None:
            sys.exit(f"the first candidate was not built: {error}")
        for turn in range(2 * rounds):
            building = pool.build(candidates) if turn % 2 else []
            samples[turn % 2].extend(pool.time(library, candidates[0].args_info, timing).samples)
            if building and all(future.done() for future in building):
                sys.exit("the builders had finished before the timing: more candidates are needed")
            for future in building:
                wait_for_library(future)
    return samples


def _matmul() -> Any:
    from tvm import te  # noqa: PLC0415

    from tvmbuild.compiler.tasks import Task, normalised, task_key  # noqa: PLC0415

    left, right = te.placeholder((256, 256), name="left"), te.placeholder((256, 256), name="right")
    k = te.reduce_axis((0, 256))
    product = te.compute((256, 256), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k), name="product")
    mod = normalised(te.create_prim_func([left, right, product]))
    return Task(task_key(mod), "matmul", mod, 1)


if __name__ == "__main__":
    sys.exit(main())
