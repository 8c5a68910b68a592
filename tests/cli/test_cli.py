"""The command line as a user meets it: real processes, exact messages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from doit_project import TARGETS, DoitProject, make_project, write_project

from tvmbuild import __version__
from tvmbuild.cli import COMMANDS, GROUPS, main
from tvmbuild.errors import TvmbuildError


@pytest.fixture
def project(tmp_path: Path) -> DoitProject:
    """A project whose steps are planned and never run."""
    model = tmp_path / "net.onnx"
    model.write_bytes(b"")
    return write_project(tmp_path, model)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tvmbuild {__version__}\n"


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_every_command(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([option]) == 0
    words = capsys.readouterr().out.split()
    assert {*COMMANDS, "run", "list", "info", "clean", "forget", "ignore"} <= set(words)


def test_every_command_is_in_one_group() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: tvmbuild {command}" in capsys.readouterr().out


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["tun=full"], "unknown variable tun=full", "Did you mean tune=…?"),
        (["x=1"], "unknown variable x=1", "Known are tune=missing|never|full and strict=0|1."),
        (
            ["tune=ful"],
            "tune=ful is not valid",
            "Did you mean full? tune is one of missing, never, full.",
        ),
        (["strict=yes"], "strict=yes is not valid", "strict is one of 0, 1."),
        (
            ["compile:*@pi4"],
            "no step matches 'compile:*@pi4'",
            "`tvmbuild list --all` shows every step.",
        ),
        (
            ["compile:*@x3"],
            "no step matches 'compile:*@x3'",
            "Did you mean compile:*@v3? `tvmbuild list --all` shows every step.",
        ),
        (
            ["compile:digit@v3"],
            "no command, step or output 'compile:digit@v3'",
            "Did you mean compile:digits@v3? `tvmbuild list --all` shows every step.",
        ),
        (
            ["lst"],
            "no command, step or output 'lst'",
            "Did you mean list? `tvmbuild list --all` shows every step.",
        ),
        (
            ["info", "tune:digits@v4"],
            "no command, step or output 'tune:digits@v4'",
            "Did you mean tune:digits@v3? `tvmbuild list --all` shows every step.",
        ),
        (
            ["explain", "tune:digits@v4"],
            "no step is called 'tune:digits@v4'",
            "Did you mean tune:digits@v3? `tvmbuild plan` shows all of them.",
        ),
        (["plan", "x*"], "no step matches 'x*'", "`tvmbuild plan` shows all of them."),
        (
            ["plan", "compil:*@v*"],
            "no step matches 'compil:*@v*'",
            "Did you mean compile:*@v*? `tvmbuild plan` shows all of them.",
        ),
        (["plan", "compile:*", "tun=full"], "unknown variable tun=full", "Did you mean tune=…?"),
        (["explain", "tune:digits@v3", "strict=2"], "strict=2 is not valid", "strict is one of 0, 1."),
        (["explain", "tune:digits@v3", "tune:digits@v2"], "'tune:digits@v2' is a second step", "Name one step."),
    ],
)
def test_mistakes_are_answered(project: DoitProject, arguments: list[str], message: str, hint: str) -> None:
    ran = project.tvmbuild(*arguments)
    assert (ran.code, ran.output) == (1, f"error: {message}\n  hint: {hint}\n")


@pytest.mark.parametrize("tool", [("doit",), ("tvmbuild",)])
def test_variables_are_checked_in_the_environment_too(project: DoitProject, tool: tuple[str, ...]) -> None:
    ran = project.doit(TVMBUILD_STRICT="2") if tool == ("doit",) else project.tvmbuild(TVMBUILD_STRICT="2")
    assert (ran.code, ran.output) == (
        1,
        "error: TVMBUILD_STRICT=2 is not valid\n  hint: strict is one of 0, 1.\n",
    )


def test_plain_doit_refuses_unknown_variables(project: DoitProject) -> None:
    ran = project.doit("tine=full")
    assert (ran.code, ran.output) == (1, "error: unknown variable tine=full\n  hint: Did you mean tune=…?\n")


def test_mistake_in_yaml_has_no_traceback(project: DoitProject) -> None:
    project.edit("targets.yaml", "num-cores: 1", "num-coers: 1")
    for ran in (project.doit("list"), project.tvmbuild("list"), project.tvmbuild("plan")):
        assert ran.code == 1
        assert ran.output.startswith("error: targets.yaml:")
        assert "Traceback" not in ran.output


def test_outside_a_project(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    said = f"error: no models.yaml in {tmp_path}/project or above it\n  hint: "
    for name, begins in (("list", "Go to a project"), ("doctro", "Did you mean doctor? Go to a project")):
        ran = project.tvmbuild(name)
        assert ran.code == 1
        assert ran.output.startswith(said + begins)


def test_a_project_is_found_upwards(project: DoitProject) -> None:
    inner = project.root / "a" / "b"
    inner.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-m", "tvmbuild", "list", "-q"],
        cwd=inner,
        env=project.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["benchmark", "compile", "keep", "quantize", "report", "simplify", "tune", "validate"]


def test_patterns_work_in_every_command(project: DoitProject) -> None:
    ran = project.tvmbuild("list", "-q", "compile:*")
    assert ran.output.split() == ["compile:digits@v2", "compile:digits@v3"]


def test_unavailable_steps_say_so_and_strict_makes_them_errors(project: DoitProject) -> None:
    (project.root / "targets.yaml").write_text(TARGETS.replace("device: local", "device: none"))
    listed = project.tvmbuild("list", "--all", "-s", "benchmark").output
    assert "U benchmark:digits@v2   unavailable: the target has no device" in listed
    ran = project.tvmbuild("-s", "benchmark:digits@v2")
    assert ran.code == 0, ran.output
    assert "0 done, 0 up to date, 1 unavailable here" in ran.output
    strict = project.tvmbuild("-s", "benchmark:digits@v2", "strict=1")
    assert strict.code != 0
    assert "!! benchmark:digits@v2" in strict.output
    assert "unavailable: the target has no device" in strict.output
    assert "Traceback" not in strict.output


def test_help_of_our_commands_and_of_doits(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["help", "doctor"])
    assert ended.value.code == 0
    assert "usage: tvmbuild doctor" in capsys.readouterr().out
    assert main(["help"]) == 0
    assert "usage: tvmbuild [STEP" in capsys.readouterr().out
    assert main(["help", "forget"]) == 0
    assert "clear successful run status" in capsys.readouterr().out


def test_nothing_to_plan(project: DoitProject) -> None:
    (project.root / "models.yaml").write_text("models: {}\n")
    ran = project.tvmbuild("plan")
    hint = "Add a model to models.yaml, or enable one."
    assert (ran.code, ran.output) == (1, f"error: there is nothing to build\n  hint: {hint}\n")


def test_clean_in_a_folder_that_cannot_be_written_is_told(project: DoitProject) -> None:
    (project.root / "build").write_text("a file")
    ran = project.doit("clean")
    assert ran.code == 1
    assert f"error: cannot write to {project.root}/build: File exists\n  hint: Make the folder writable" in ran.output
    assert "Traceback" not in ran.output


def test_plan_and_explain_tell_what_would_run(project: DoitProject) -> None:
    table = project.tvmbuild("plan", "compile:*", "tune=never").output
    assert "benchmark:digits@v3" not in table
    assert "tune:digits@v3" in table  # a run of compile also runs the steps that it needs
    assert "compile:digits@v3" in table
    assert "it has never finished" in table
    explained = project.tvmbuild("explain", "compile:digits@v3", "tune=never").output
    assert explained.splitlines()[:6] == [
        "compile:digits@v3: would run",
        "  - it has never finished",
        "before it:",
        "  simplify:digits: would run",
        "    - it has never finished",
        "  tune:digits@v3: would run",
    ]


def test_names_of_steps_and_commands_do_not_clash() -> None:
    from doit.doit_cmd import DoitMain

    # `report` writes the same as doit's task; `compile` is the command if a model is named (test_compile.py).
    taken = {"simplify", "tune", "benchmark"}
    assert not taken & {*COMMANDS, *DoitMain().get_cmds()}


def test_errors_keep_message_and_hint() -> None:
    assert str(TvmbuildError("a", "b")) == "a\n  hint: b."


def test_closed_output_is_no_traceback(project: DoitProject) -> None:
    command = f"{sys.executable} -m tvmbuild --help | true"
    done = subprocess.run(
        ["sh", "-c", command], cwd=project.root, env=os.environ, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", ["list --all", "list", "help list", "plan"])
def test_a_reader_that_leaves_early_is_no_trouble(project: DoitProject, arguments: str) -> None:
    # `true` may leave after a short list was written; with a pipe that is closed already the error always shows.
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as closed:
        done = subprocess.run(
            project.command(*arguments.split(), tool=("tvmbuild",)),
            cwd=project.root,
            env=project.environment(),
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.stderr == ""
    assert done.returncode in (-signal.SIGPIPE, 1)
