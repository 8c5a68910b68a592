"""The command `tvmbuild …`: our own commands by argparse; doit handles everything else."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from tvmbuild import __version__
from tvmbuild.base.layout import ensure_home
from tvmbuild.errors import TvmbuildError

COMMANDS: dict[str, str] = {
    "compile": "tvmbuild.cli.compile.command",
    "build": "tvmbuild.cli.build",
    "worker": "tvmbuild.cli.worker",
    "check": "tvmbuild.cli.check",
    "plan": "tvmbuild.cli.plan.command",
    "explain": "tvmbuild.cli.explain",
    "debug": "tvmbuild.cli.debug.command",
    "run": "tvmbuild.cli.run.command",
    "doctor": "tvmbuild.cli.doctor.command",
    "init": "tvmbuild.cli.init",
    "schema": "tvmbuild.cli.schema",
    "target": "tvmbuild.cli.target.command",
    "records": "tvmbuild.cli.records.command",
    "bench": "tvmbuild.cli.bench.command",
    "report": "tvmbuild.cli.report.command",
    "bundle": "tvmbuild.cli.bundle.command",
    "pack": "tvmbuild.cli.pack",
    "config": "tvmbuild.cli.config",
    "device": "tvmbuild.cli.device.command",
}
"""Command → module with ``HELP``, ``add_arguments(parser)`` and ``run(args) -> int``. Only the used one is imported."""

GROUPS: dict[str, tuple[str, ...]] = {
    "one model, no project": ("compile", "check"),
    "start a project": ("init", "doctor", "schema"),
    "see what a build would do, and what came of it": ("plan", "explain", "debug", "report"),
    "build on many machines": ("build", "worker"),
    "use a package": ("run", "bench", "pack", "config", "bundle"),
    "know the hardware, and what was measured on it": ("target", "device", "records"),
}
"""The groups of commands in the help."""

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in ``argv`` and return the exit code. ``argv`` defaults to the process's arguments.

    A TvmbuildError, which the user can fix, is printed as a message without a traceback.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    ensure_home()
    if "_ARGCOMPLETE" in os.environ:  # the shell asks for completions
        importlib.import_module("tvmbuild.cli.completion").answer(COMMANDS)
    try:
        return _dispatch(arguments)
    except TvmbuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: nothing half-written is left; the next run goes on from here", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output is gone (`| head`); Python would complain at exit
        return 1


def _dispatch(arguments: list[str]) -> int:
    first = arguments[0] if arguments else ""
    if first == "--version":
        print(f"tvmbuild {__version__}")
        return 0
    if first in {"--help", "-h"} or arguments == ["help"]:
        print(_usage())
        return 0
    if first == "help" and arguments[1] in COMMANDS:
        arguments = [first := arguments[1], "--help"]
    if first in COMMANDS and not (first == "compile" and _is_stage(arguments[1:])):
        module = importlib.import_module(COMMANDS[first])
        parser = argparse.ArgumentParser(prog=f"tvmbuild {first}", description=module.HELP)
        module.add_arguments(parser)
        return int(module.run(parser.parse_args(arguments[1:])))
    from tvmbuild.doit_adapter.main import run_doit  # noqa: PLC0415 - our own commands do not wait for doit

    return run_doit(arguments, tuple(COMMANDS))


def _is_stage(arguments: list[str]) -> bool:
    """Return whether `tvmbuild compile` with these arguments means the stage of a project and not the command."""
    return bool(importlib.import_module(COMMANDS["compile"]).is_stage(arguments))


def _usage() -> str:
    width = max(map(len, COMMANDS))
    groups = (
        "\n".join([title, *(f"  {name:<{width}}  {importlib.import_module(COMMANDS[name]).HELP}" for name in names)])
        for title, names in GROUPS.items()
    )
    own = "\n\n".join(groups)
    return f"""usage: tvmbuild [STEP | STAGE | PATTERN …] [-n STEPS] [tune=missing|never|full] [strict=0|1]
       tvmbuild COMMAND …
       tvmbuild --version

Build every model of models.yaml for every target of targets.yaml; redo only what changed.

  tvmbuild                        everything
  tvmbuild -n 2                   two steps at a time
  tvmbuild -v                     end with one row for each cell instead of the grid
  tvmbuild 'compile:*@pi4'        the packages of one target
  tvmbuild benchmark tune=never   one stage and the steps that it needs, without tuning
  tvmbuild strict=1               a step that cannot run here, or a Task without a record, is an error

{own}

doit's own
  list        every step (--all) and whether it is up to date (-s)
  info        why a step would run
  clean       remove outputs; records stay
  forget      run steps again next time
  ignore      leave steps out until they are forgotten

`tvmbuild COMMAND --help` says more; of doit's own, `tvmbuild help COMMAND` does.
Environment: TVMBUILD_CACHE=DIR restores what another clone has built; TVMBUILD_TUNE, TVMBUILD_STRICT: tune=, strict=.
Exit code: 0, all is well; 130, Ctrl-C; any other, something failed, and a message says what."""
