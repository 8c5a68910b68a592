"""A process that checks records and may crash: it applies each record to its workload and compiles the result.

`tvmbuild.replay.verification` starts it as ``python -m tvmbuild.replay.child``. Stdin is one JSON value with the
target, the time limit of a check in seconds, and the checks. Each answer is one line of JSON: null, or the reason why
the check failed. A hostile trace can make TVM 0.27 dereference null, so each check runs in its own fork. A fork costs
milliseconds and saves importing TVM again after a crash.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from tvmbuild.base.processes import die_with_parent
from tvmbuild.compiler.codegen.intrinsics import register_named, skip_tensor_intrinsics
from tvmbuild.errors import TvmbuildError

MEMORY = 8 << 30
"""The limit of a check's address space, in bytes, so that a hostile loop extent cannot take the machine's memory."""
REFUSED = 3
"""The exit status if this machine cannot check at all. The last line of stdout is then the reason."""


def main() -> int:
    """Read the checks from stdin and print the answer to each. Return the exit status."""
    die_with_parent()
    # TVM's output must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    asked = json.load(sys.stdin)
    for check in asked["checks"]:
        register_named(check.get("trace", ""))  # once, before any fork
    skip_tensor_intrinsics()
    from tvmbuild.replay.record_check import find_fault, find_target_fault, make_target  # noqa: PLC0415 - TVM is imported only now

    try:
        fault = _check(partial(find_target_fault, asked["target"]), asked["timeout_s"])
        target = None if fault else make_target(asked["target"])
        for check in asked["checks"]:
            answer = fault or _check(partial(find_fault, check, target), asked["timeout_s"])
            print(json.dumps(answer), file=answers, flush=True)
    except TvmbuildError as error:
        print(json.dumps(error.message), file=answers, flush=True)
        return REFUSED
    return 0


def _check(find: Callable[[], str | None], timeout_s: float) -> str | None:
    """Run ``find`` in its own fork and return its answer: the reason why the check fails, or None.

    A crash, or no end within the time limit, is a reason too. Raises TvmbuildError if the fork was killed, most likely
    because memory ran out.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _work(find, write)
    os.close(write)
    answer = b""
    while select.select([read], [], [], timeout_s)[0]:
        block = os.read(read, 1 << 16)
        if not block:
            break
        answer += block
    else:
        os.kill(child, signal.SIGKILL)
        answer = json.dumps(f"no end within {timeout_s:g} s").encode()
    os.close(read)
    _, status = os.waitpid(child, 0)
    if answer:
        reason: str | None = json.loads(answer)
        return reason
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        return f"TVM crashed ({signal.Signals(os.WTERMSIG(status)).name})"
    if os.WIFSIGNALED(status):
        raise TvmbuildError("the process that checks them was killed, most likely because memory ran out")
    return f"its check ended with status {os.WEXITSTATUS(status)}"


def _work(find: Callable[[], str | None], write: int) -> NoReturn:
    die_with_parent()
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # TVM's handler allocates memory and may therefore wait for ever
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    status = 1
    try:
        answer = json.dumps(find()).encode()
        os.write(write, answer)
        status = 0
    finally:
        os._exit(status)  # without the parent's exit handlers


if __name__ == "__main__":
    sys.exit(main())
