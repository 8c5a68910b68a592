"""Every mistake of targets.yaml, with the exact message."""

# ruff: noqa: E501 - a message stands here as its reader sees it

from __future__ import annotations

from collections.abc import Callable

import pytest

PC = "targets:\n  pc: {kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 2"
LIMITS = """    max_threads_per_block: 1024
    max_shared_memory_per_block: 49152
    thread_warp_size: 32
"""
HOST = "    host: {mtriple: x86_64-linux-gnu, num-cores: 2}\n"

CASES: dict[str, tuple[str, str]] = {
    "no num-cores": (
        "targets:\n  pc: {kind: llvm, mtriple: x86_64-linux-gnu}\n",
        'targets.yaml:2:3: targets.pc: the key "num-cores" is missing; expected num-cores: threads that tuning, benchmarking and sessions use',
    ),
    "num_cores with an underscore": (
        "targets:\n  pc: {kind: llvm, mtriple: x86_64-linux-gnu, num_cores: 2}\n",
        'targets.yaml:2:47: targets.pc.num_cores: unknown key; expected one of the 29 keys of an llvm target; did you mean "num-cores"?',
    ),
    "num-cores of zero": (
        "targets:\n  pc: {kind: llvm, mtriple: x86_64-linux-gnu, num-cores: 0}\n",
        "targets.yaml:2:58: targets.pc.num-cores: 0 is too small; expected at least 1",
    ),
    "num-cores is text": (
        "targets:\n  pc: {kind: llvm, mtriple: x86_64-linux-gnu, num-cores: two}\n",
        'targets.yaml:2:58: targets.pc.num-cores: found "two"; expected an integer',
    ),
    "no mtriple": (
        "targets:\n  pc: {kind: llvm, num-cores: 2}\n",
        'targets.yaml:2:3: targets.pc: the key "mtriple" is missing; expected mtriple: LLVM\'s triple, such as x86_64-linux-gnu; or mcpu: native',
    ),
    "no kind": (
        "targets:\n  pc: {mcpu: x86-64-v3, num-cores: 2}\n",
        'targets.yaml:2:3: targets.pc: the key "kind" is missing; expected kind: TVM\'s code generator',
    ),
    "unknown kind": (
        "targets:\n  pc: {kind: vulcan}\n",
        'targets.yaml:2:14: targets.pc.kind: "vulcan" is not valid; expected llvm, cuda or vulkan; did you mean "vulkan"?',
    ),
    "memory without a unit": (
        PC + ", memory: '256'}\n",
        'targets.yaml:2:86: targets.pc.memory: "256" is not valid; expected a size with its unit, such as 256 MB',
    ),
    "misspelt attribute": (
        PC + ", mcup: x}\n",
        'targets.yaml:2:78: targets.pc.mcup: unknown key; expected one of the 29 keys of an llvm target; did you mean "mcpu"?',
    ),
    "attribute of another kind": (
        PC + ", arch: sm_90}\n",
        "targets.yaml:2:78: targets.pc.arch: unknown key; expected one of the 29 keys of an llvm target",
    ),
    "mattr without sign": (
        PC + ", mattr: [avx2]}\n",
        'targets.yaml:2:86: targets.pc.mattr[0]: "avx2" is not valid; expected a feature with its sign, such as +avx2 or -avx512f',
    ),
    "mattr is text": (
        PC + ", mattr: +avx2}\n",
        'targets.yaml:2:85: targets.pc.mattr: found "+avx2"; expected a list; did you mean "[+avx2]"?',
    ),
    "misspelt device": (
        PC + ", device: locl}\n",
        'targets.yaml:2:86: targets.pc.device: found "locl"; expected local, none or a map with exactly one of the keys rpc, qemu or ssh; did you mean "local"?',
    ),
    "device with two": (
        PC + ", device: {qemu: aarch64, rpc: {tracker: 'h:1', key: k}}}\n",
        "targets.yaml:2:87: targets.pc.device.qemu: rpc and qemu exclude each other; expected local, none or a map with exactly one of the keys rpc, qemu or ssh",
    ),
    "device with none": (
        PC + ", device: {}}\n",
        "targets.yaml:2:78: targets.pc.device: none of the keys rpc, qemu or ssh is there; expected local, none or a map with exactly one of the keys rpc, qemu or ssh",
    ),
    "device with a misspelt map": (
        PC + ", device: {rcp: {}}}\n",
        'targets.yaml:2:87: targets.pc.device.rcp: unknown key; expected qemu, rpc or ssh; did you mean "rpc"?',
    ),
    "device is a kind without its keys": (
        PC + ", device: rpc}\n",
        'targets.yaml:2:86: targets.pc.device: found "rpc"; expected local, none or a map with exactly one of the keys rpc, qemu or ssh',
    ),
    "device is a number": (
        PC + ", device: 3}\n",
        "targets.yaml:2:86: targets.pc.device: found 3; expected local, none or a map with exactly one of the keys rpc, qemu or ssh",
    ),
    "rpc without key": (
        PC + ", device: {rpc: {tracker: 'h:9190'}}}\n",
        'targets.yaml:2:87: targets.pc.device.rpc: the key "key" is missing; expected key: the board\'s key at the tracker',
    ),
    "rpc with a bad tracker": (
        PC + ", device: {rpc: {tracker: h, key: k}}}\n",
        'targets.yaml:2:102: targets.pc.device.rpc.tracker: "h" is not valid; expected host:port',
    ),
    "an option of ssh's": (
        PC + ", device: {ssh: -oProxyCommand=touch}}\n",
        'targets.yaml:2:92: targets.pc.device.ssh: "-oProxyCommand=touch" is not valid; expected user@host, a Host of ~/.ssh/config, or ssh://host:port',
    ),
    "qemu of an unknown arch": (
        PC + ", device: {qemu: arm64}}\n",
        'targets.yaml:2:93: targets.pc.device.qemu: "arm64" is not valid; expected aarch64; did you mean "aarch64"?',
    ),
    "misspelt tune option": (
        PC + ", tune: {trails: 3}}\n",
        'targets.yaml:2:85: targets.pc.tune.trails: unknown key; expected trials, trials_per_task, number, repeat, min_repeat_ms, seed, patience, cost_model, ops, algorithms or minutes; did you mean "trials"?',
    ),
    "unknown cost model": (
        PC + ", tune: {cost_model: xgboost}}\n",
        'targets.yaml:2:97: targets.pc.tune.cost_model: "xgboost" is not valid; expected xgb or random; did you mean "xgb"?',
    ),
    "trials are a fraction": (
        PC + ", tune: {trials: 1.5}}\n",
        "targets.yaml:2:93: targets.pc.tune.trials: found 1.5; expected an integer or null",
    ),
    "benchmark without samples": (
        PC + ", benchmark: {repeat: 0}}\n",
        "targets.yaml:2:98: targets.pc.benchmark.repeat: 0 is too small; expected at least 1",
    ),
    "unknown baseline": (
        PC + ", benchmark: {baselines: [onnxruntime, openvinno]}}\n",
        'targets.yaml:2:115: targets.pc.benchmark.baselines[1]: "openvinno" is not valid; expected onnxruntime, openvino or tvm-untuned; did you mean "openvino"?',
    ),
    "a baseline twice": (
        PC + ", benchmark: {baselines: [openvino, openvino]}}\n",
        'targets.yaml:2:112: targets.pc.benchmark.baselines[1]: "openvino" is repeated; expected each item once',
    ),
    "glibc of nonsense": (
        PC + ", glibc: 3.1}\n",
        'targets.yaml:2:85: targets.pc.glibc: 3.1 is not valid; expected a glibc version such as "2.28"',
    ),
    "glibc is text": (
        PC + ", glibc: new}\n",
        'targets.yaml:2:85: targets.pc.glibc: "new" is not valid; expected a glibc version such as "2.28"',
    ),
    "link is a command line": (
        PC + ", link: gcc -O2}\n",
        'targets.yaml:2:84: targets.pc.link: "gcc -O2" is not valid; expected auto, or one command name without spaces',
    ),
    "opt-level too large": (
        PC + ", opt-level: 5}\n",
        "targets.yaml:2:89: targets.pc.opt-level: 5 is too large; expected at most 3",
    ),
    "gpu without host": (
        "targets:\n  gpu:\n    kind: cuda\n    arch: sm_90\n" + LIMITS,
        'targets.yaml:2:3: targets.gpu: the key "host" is missing; expected host: the llvm target that runs the host code of a GPU target',
    ),
    "gpu host without num-cores": (
        "targets:\n  gpu:\n    kind: cuda\n    arch: sm_90\n" + LIMITS + "    host: {mtriple: x86_64-linux-gnu}\n",
        'targets.yaml:8:5: targets.gpu.host: the key "num-cores" is missing; expected num-cores: threads that tuning, benchmarking and sessions use',
    ),
    "gpu host with a key of the target": (
        "targets:\n  gpu:\n    kind: cuda\n    arch: sm_90\n"
        + LIMITS
        + "    host: {mtriple: x86_64-linux-gnu, num-cores: 2, link: auto}\n",
        "targets.yaml:8:53: targets.gpu.host.link: unknown key; expected one of the 19 keys of the llvm target that runs the host code of a GPU target",
    ),
    "gpu without limits": (
        "targets:\n  gpu:\n    kind: cuda\n    arch: sm_90\n" + HOST,
        'targets.yaml:2:3: targets.gpu: the key "max_shared_memory_per_block" is missing; expected every limit of the device, or from_device: 0 and `tvmbuild target lock gpu`; `tvmbuild target add cuda:sm_90` writes them\ntargets.yaml:2:3: targets.gpu: the key "max_threads_per_block" is missing; expected every limit of the device, or from_device: 0 and `tvmbuild target lock gpu`; `tvmbuild target add cuda:sm_90` writes them\ntargets.yaml:2:3: targets.gpu: the key "thread_warp_size" is missing; expected every limit of the device, or from_device: 0 and `tvmbuild target lock gpu`; `tvmbuild target add cuda:sm_90` writes them',
    ),
    "bad arch": (
        "targets:\n  gpu:\n    kind: cuda\n    arch: 90\n" + LIMITS + HOST,
        "targets.yaml:4:11: targets.gpu.arch: 90 is a number; expected sm_ and a compute capability, such as sm_90",
    ),
    "gpu with a device and without limits": (
        "targets:\n  gpu:\n    kind: vulkan\n    device: local\n    max_threads_per_block: 256\n    thread_warp_size: 1\n    supports_int64: true\n"
        + HOST,
        'targets.yaml:2:3: targets.gpu: the key "max_shared_memory_per_block" is missing; expected every limit of the device, a family, or from_device: 0 and `tvmbuild target lock gpu`; `tvmbuild target add vulkan` writes them',
    ),
    "vulkan without int64": (
        "targets:\n  gpu:\n    kind: vulkan\n    max_threads_per_block: 256\n    max_shared_memory_per_block: 32768\n    thread_warp_size: 1\n"
        + HOST,
        'targets.yaml:2:3: targets.gpu: the key "supports_int64" is missing; expected every limit of the device, a family, or from_device: 0 and `tvmbuild target lock gpu`; `tvmbuild target add vulkan` writes them',
    ),
    "a driver that there never was, without quotes": (
        "targets:\n  gpu:\n    kind: cuda\n    arch: sm_87\n    driver: 12.10\n" + LIMITS + HOST,
        'targets.yaml:5:13: targets.gpu.driver: tvmbuild knows no CUDA 12.10; expected "11.4" to "11.8", "12.0" to "12.9", "13.0" or later',
    ),
    "attribute in defaults": (
        "defaults: {mcpu: x86-64-v3}\n" + PC + "}\n",
        "targets.yaml:1:12: defaults.mcpu: unknown key; expected enabled, link, glibc, memory, measured_on, device, tune or benchmark",
    ),
    "bad default": (
        "defaults: {tune: {seed: -1}}\n" + PC + "}\n",
        "targets.yaml:1:25: defaults.tune.seed: -1 is too small; expected at least 0",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message_of_bad_targets(name: str, load_mistakes: Callable[..., list[str]]) -> None:
    content, message = CASES[name]
    assert "\n".join(load_mistakes(targets=content)) == message
