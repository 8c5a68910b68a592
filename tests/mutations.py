"""Does the suite notice? Breaks ten behaviours, one at a time, and runs the tests that should.

    python tests/mutations.py

Changes files of this clone and restores them, so it wants a clean tree. Prints a line for each, with the first test
that failed; 1 when a broken behaviour passed. Eight minutes on 2 cores; README's test command runs the same tests.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Mutation:
    """A change of one place, and where the tests are that forbid it."""

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
        "x * _constant(_LOG2E, x) + _constant(0.5, x)",
        "x * _constant(_LOG2E, x) - _constant(0.5, x)",
        "tests/compiler/codegen/test_fast_math.py",
    ),
    Mutation(
        "a package's library is linked against this machine's glibc",
        "tvmbuild/base/zig.py",
        'return f"{SYSTEMS[machine]}.{glibc}"',
        "return SYSTEMS[machine]",
        "tests/compiler/codegen/test_link.py",
    ),
)


def main() -> int:
    """Return 1 when the suite did not notice one of them."""
    if subprocess.run(["git", "diff", "--quiet"], cwd=ROOT, check=False).returncode != 0:
        sys.exit("commit or stash first: files are changed and restored")
    tests = sorted({path for mutation in MUTATIONS for path in mutation.tests.split()})
    if (failed := find_failure(tests)) is not None:
        sys.exit(f"{failed} fails without any mutation")
    passed = [mutation.what for mutation in MUTATIONS if not is_noticed(mutation)]
    print(f"{len(MUTATIONS) - len(passed)} of {len(MUTATIONS)} noticed")
    return 1 if passed else 0


def is_noticed(mutation: Mutation) -> bool:
    """Break it, run the tests, mend it."""
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
