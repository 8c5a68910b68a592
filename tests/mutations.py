"""A check of the test suite: it breaks twenty behaviours, one at a time, and runs the tests that should notice.

    python tests/mutations.py [PART-OF-A-FILE'S-PATH …]

Changes files of this clone and restores them, so it needs a clean tree. Prints a line for each, with the first test
that failed; returns 1 if a broken behaviour passed. README's test command runs the same tests.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PASSES = "tvmbuild/compiler/passes"
NATIVE = "tvmbuild/package/runtime/vulkan/native"


@dataclass(frozen=True)
class Mutation:
    """A change of one place, and the tests that forbid it."""

    what: str
    file: str
    old: str
    new: str
    tests: str


MUTATIONS = (
    Mutation(
        "a tolerance is no part of a step's fingerprint",
        "tvmbuild/engine/fingerprint.py",
        'pairs = dict(_flatten("option", step.options))',
        'pairs = {k: v for k, v in _flatten("option", step.options) if "tolerance" not in k}',
        "tests/doit_adapter/test_changes.py",
    ),
    Mutation(
        "a file is written in place, not published",
        "tvmbuild/base/files.py",
        "        temporary.replace(path)",
        "        path.write_bytes(temporary.read_bytes())",
        "tests/doit_adapter/test_interruption.py tests/base tests/planning tests/engine",
    ),
    Mutation(
        "Ctrl-C leaves the step's processes running",
        "tvmbuild/engine/process.py",
        "        os.killpg(process.pid, signal.SIGKILL)",
        "        process.pid",
        "tests/doit_adapter/test_interruption.py",
    ),
    Mutation(
        "wrong numbers pass the gate",
        "tvmbuild/preparing/compare.py",
        '"; ".join(problems) or None',
        "None",
        "tests/preparing/test_compare.py tests/stages/test_benchmark.py",
    ),
    Mutation(
        "records of another device class win where the class has its own",
        "tvmbuild/records/selection.py",
        "chosen = device_class if device_class in classes else classes[0]",
        "chosen = classes[0]",
        "tests/records tests/cli/test_explain.py",
    ),
    Mutation(
        "a merge forgets the other branch's candidates",
        "tvmbuild/records/merge.py",
        "searched=_greater(ours.searched, theirs.searched)",
        "searched=ours.searched",
        "tests/records",
    ),
    Mutation(
        "a download's digest is not checked",
        "tvmbuild/sources/fetch.py",
        "    if got != want:",
        "    if False:",
        "tests/sources",
    ),
    Mutation(
        "what comes from the cache is not checked",
        "tvmbuild/engine/cache/entries.py",
        "    if left != 0 or digest.hexdigest() != content.sha256:",
        "    if left != 0:",
        "tests/engine/cache/test_entries.py tests/doit_adapter/test_cache_trouble.py",
    ),
    Mutation(
        "exp splits its argument at the wrong place",
        "tvmbuild/compiler/codegen/fast_math.py",
        "rest = x - power * constant(LN2[0], x) - power * constant(LN2[1], x)",
        "rest = x - power * constant(LN2[0], x) + power * constant(LN2[1], x)",
        "tests/compiler/codegen/test_fast_math.py",
    ),
    Mutation(
        "a package's library is linked against this machine's glibc",
        "tvmbuild/base/zig.py",
        'return f"{SYSTEMS[machine]}.{glibc}"',
        "return SYSTEMS[machine]",
        "tests/compiler/codegen/test_link.py",
    ),
    Mutation(
        "a residual sum that spreads is done to the product's tiles",
        f"{PASSES}/join_residuals.py",
        "if static_shape(other) != shape:",
        "if False:",
        "tests/compiler/passes/test_join_residuals.py",
    ),
    Mutation(
        "an exclusive prefix sum has its own element",
        f"{PASSES}/prefix_sums/blocks.py",
        "first = 1 if exclusive else 0",
        "first = 0",
        "tests/compiler/passes/test_lower_prefix_sums.py",
    ),
    Mutation(
        "a sum into a cache is taken for a row written there",
        f"{PASSES}/scatter_to_select.py",
        'if scatter.attrs.reduction != "update":',
        "if False:",
        "tests/compiler/passes/test_scatter_to_select.py",
    ),
    Mutation(
        "rows of infinite weights are taken as the rows of others",
        f"{PASSES}/one_hot_to_take.py",
        "and bool(np.isfinite(values).all())",
        "",
        "tests/compiler/passes/test_one_hot_to_take.py",
    ),
    Mutation(
        "a Task's key depends on the names of a model's values",
        f"{PASSES}/canonicalize_var_names.py",
        "relax.DataflowVar(_ANY_NAME, var.ty)",
        "relax.DataflowVar(var.name_hint, var.ty)",
        "tests/compiler/test_tasks.py",
    ),
    Mutation(
        "a device's limit of tensors is not asked for",
        f"{PASSES}/split_wide_functions.py",
        "return max(3, min(int(stated), MAX_TENSORS))",
        "return MAX_TENSORS",
        "tests/compiler/passes/test_split_wide_functions.py",
    ),
    Mutation(
        "a Vulkan device's memory is not given back",
        f"{NATIVE}/memory_block.cpp",
        "if (block->memory) device.vk.FreeMemory(device.handle, block->memory, nullptr);",
        "",
        "tests/package/runtime/vulkan/test_memory.py",
    ),
    Mutation(
        "a list of launches is taken for another one of the same length",
        f"{NATIVE}/replay.cpp",
        "if (each->hash != hash || each->last.engine != engine || !(each->operations == operations)) continue;",
        "if (each->operations.count() != operations.count()) continue;",
        "tests/package/runtime/vulkan/test_launch.py",
    ),
    Mutation(
        "two small tensors overlap on a Vulkan device",
        f"{NATIVE}/memory_block.cpp",
        "range.offset += size;",
        "range.offset += size / 2;",
        "tests/package/runtime/vulkan/test_memory.py",
    ),
    Mutation(
        "a damaged cache of Vulkan pipelines is handed to the driver",
        f"{NATIVE}/pipeline_cache.cpp",
        "crc32(data.data(), bytes) == header.crc;",
        "true;",
        "tests/package/runtime/vulkan/test_pipeline_cache.py",
    ),
)


def main() -> int:
    """Return 1 if the suite did not notice one of them."""
    if subprocess.run(["git", "diff", "--quiet"], cwd=ROOT, check=False).returncode != 0:
        sys.exit("commit or stash first: files are changed and restored")
    wanted = [each for each in MUTATIONS if any(part in each.file for part in sys.argv[1:] or [""])]
    tests = sorted({path for mutation in wanted for path in mutation.tests.split()})
    if (failed := find_failure(tests)) is not None:
        sys.exit(f"{failed} fails without any mutation")
    passed = [mutation.what for mutation in wanted if not is_noticed(mutation)]
    print(f"{len(wanted) - len(passed)} of {len(wanted)} noticed")
    return 1 if passed else 0


def is_noticed(mutation: Mutation) -> bool:
    """Break the behaviour, run the tests, restore it."""
    path = ROOT / mutation.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        sys.exit(f"{mutation.file} has {mutation.old!r} {text.count(mutation.old)} times, not once")
    try:
        path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        failed = find_failure(mutation.tests.split())
    finally:
        path.write_text(text, encoding="utf-8")
    print(f"{mutation.what}: {failed or 'NOT NOTICED'}", flush=True)
    return failed is not None


def find_failure(tests: list[str]) -> str | None:
    """Return the first test that fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed[1] if failed else None


if __name__ == "__main__":
    sys.exit(main())
