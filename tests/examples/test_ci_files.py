"""The CI files under examples/ci: valid for their platforms, with commands that work as described in clean clones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from ci_jobs import GitHub, GitLab, Platform, Ran, run_script
from emulated_board import the_board

from tvmbuild.base.files import write_json
from tvmbuild.cli.init import write_project

CI = Path(__file__).resolve().parents[2] / "examples" / "ci"
CELL = "silero_vad@x86-64-v3"
BUILT = ["simplify:silero_vad", f"tune:{CELL}", f"compile:{CELL}"]


@pytest.mark.parametrize(
    ("file", "schema"),
    [
        ("github-actions.yml", "vendor.github-workflows"),
        ("gitlab-ci.yml", "vendor.gitlab-ci"),
        ("../../.ci/release.yml", "vendor.github-workflows"),
    ],
)
def test_the_file_is_valid_for_its_platform(file: str, schema: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(CI / file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_and_the_readme_name_both_files(project_root: Path) -> None:
    for page in ("docs/how-to/ci.md", "examples/README.md"):
        text = (project_root / page).read_text()
        for file in ("github-actions.yml", "gitlab-ci.yml"):
            assert file in text, (page, file)


def _git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=someone", "-c", "user.email=someone@localhost"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    """A repository with one small model that lacks one of its records."""
    work, origin = tmp_path / "work", tmp_path / "origin.git"
    write_project(work)
    targets = work / "targets.yaml"
    targets.write_text(targets.read_text().replace("trials_per_task: 64", "trials_per_task: 2"))
    records = sorted((work / "records/x86-64-v3").glob("*.json"), key=lambda path: path.stat().st_size)
    records[0].unlink()
    _git(tmp_path, "init", "-q", "--bare", "-b", "main", str(origin))
    _git(origin, "config", "receive.advertisePushOptions", "true")
    _git(work, "init", "-q", "-b", "main")
    _git(work, "add", ".")
    _git(work, "commit", "-q", "-m", "A project")
    _git(work, "push", "-q", str(origin), "main")
    return Platform(origin, tmp_path)


def _list_files(platform: Platform, branch: str) -> set[str]:
    return set(_git(platform.origin, "ls-tree", "-r", "--name-only", branch).split())


def _merge(platform: Platform) -> None:
    """Press the merge button."""
    clone = platform.clone()
    _git(clone, "merge", "-q", "--no-ff", "-m", "Merge", "origin/tvmbuild-records")
    _git(clone, "push", "-q", "origin", "main")
    _git(clone, "push", "-q", "origin", "--delete", "tvmbuild-records")


def _tune_elsewhere(platform: Platform, new: str) -> None:
    """Put other records of the proposed Task on the main branch, as if another machine had measured meanwhile."""
    clone = platform.clone()
    _git(clone, "checkout", "-q", "origin/tvmbuild-records", "--", new)
    data = json.loads((clone / new).read_text())
    for record in data["records"]:
        record["measured_on"] = "elsewhere"
    (clone / new).write_text(json.dumps(data))
    _git(clone, "commit", "-q", "-m", "Tuned elsewhere", "--", new)
    _git(clone, "push", "-q", "origin", "main")


def _push_first(platform: Platform) -> None:
    """Let another machine push to the branch of the records just before the next push to it."""
    clone = platform.clone()
    _git(clone, "checkout", "-q", "origin/tvmbuild-records")
    (clone / "elsewhere.md").touch()
    _git(clone, "add", ".")
    _git(clone, "commit", "-q", "-m", "Pushed first")
    _git(clone, "push", "-q", "origin", "HEAD:refs/heads/first")
    hook = platform.origin / "hooks/update"
    hook.write_text('#!/bin/sh\nrm "$0"\ngit update-ref "$1" refs/heads/first\nexit 1\n')
    hook.chmod(0o755)


def _list_classes(platform: Platform, branch: str, file: str) -> set[str]:
    records = json.loads(_git(platform.origin, "show", f"{branch}:{file}"))["records"]
    return {record["measured_on"] for record in records}


def _check_nights(platform: Platform, tune: Callable[[], Ran]) -> None:
    """A night proposes the missing record file; the next nights continue that, whatever happened to the main branch."""
    before = _list_files(platform, "main")
    night = tune()
    assert night.code == 0, night.output
    proposed = _list_files(platform, "tvmbuild-records")
    assert before < proposed
    (new,) = proposed - before
    assert new.startswith("records/x86-64-v3/")
    changed = _git(platform.origin, "diff", "--name-only", "main", "tvmbuild-records").split()
    assert changed == [new]
    log = _git(platform.origin, "log", "-1", "--format=%an: %s", "tvmbuild-records")
    assert log.strip() == "tvmbuild: Add tuning records"
    journal = night.root / "build/journal/x86-64-v3" / f"{'0' * 16}.jsonl"
    journal.parent.mkdir(parents=True, exist_ok=True)
    journal.touch()
    again = tune()
    assert again.code == 0, again.output
    assert again.steps == [], "the change that is still open has the records, and the build folder is still there"
    assert journal.exists(), "an interrupted search goes on in the next night"
    _tune_elsewhere(platform, new)
    _push_first(platform)
    merged = tune()
    assert merged.code == 0, merged.output
    assert "elsewhere.md" in _list_files(platform, "tvmbuild-records"), "a push that came first is merged"
    assert _list_classes(platform, "main", new) == {"elsewhere"}
    assert _list_classes(platform, "tvmbuild-records", new) > {"elsewhere"}
    assert _list_files(platform, "tvmbuild-records") == proposed | {"elsewhere.md"}
    _merge(platform)
    done = tune()
    assert done.code == 0, done.output
    assert "refs/heads/tvmbuild-records" not in _git(platform.origin, "for-each-ref", "--format=%(refname)")


def _tune_on_github(platform: Platform) -> Ran:
    return GitHub(CI / "github-actions.yml", platform).run("tune", branch="feature")


def _tune_on_gitlab(platform: Platform) -> Ran:
    return GitLab(CI / "gitlab-ci.yml", platform).run("tune", RECORDS_URL=str(platform.origin))


@pytest.mark.parametrize("tune", [_tune_on_github, _tune_on_gitlab])
def test_a_night_that_cannot_merge_tunes_and_pushes_nothing(
    platform: Platform, tune: Callable[[Platform], Ran]
) -> None:
    clone = platform.clone()
    for branch in ("main", "tvmbuild-records"):
        (clone / "models.yaml").write_text(f"# of {branch}\n")
        _git(clone, "commit", "-q", "-a", "-m", "Both changed it")
        _git(clone, "push", "-q", "origin", f"HEAD:refs/heads/{branch}")
        _git(clone, "reset", "-q", "--hard", "HEAD~1")
    before = _git(platform.origin, "for-each-ref")
    ran = tune(platform)
    assert ran.code != 0
    assert "Merge conflict in models.yaml" in ran.output
    assert ran.steps == []
    assert _git(platform.origin, "for-each-ref") == before
    assert _git(ran.root, "status", "--porcelain") == "", "a conflict would make the next checkout start afresh"


@pytest.mark.parametrize("cells", [[], [CELL], [CELL, "silero_vad@pi4"]])
def test_the_gitlab_child_pipeline_is_never_empty(platform: Platform, cells: list[str]) -> None:
    script = GitLab(CI / "gitlab-ci.yml", platform).pipeline["plan"]["script"]
    root = platform.clone()
    write_json(root / "build/plan.json", {"matrix": {"include": [{"cell": cell} for cell in cells]}})
    ran = run_script(platform, root, [line for line in script if "build/cells.yml" in line], {})
    assert ran.code == 0, ran.output
    child = yaml.safe_load((root / "build/cells.yml").read_text())
    if cells:
        assert child["cell"]["parallel"]["matrix"] == [{"CELL": cell} for cell in cells]
        assert ("board" in child) == (len(cells) == 1)  # it is switched off if there is nothing for it
    else:
        assert child["nothing"]["script"]


@pytest.mark.nightly
@pytest.mark.nights(2)
@pytest.mark.compiler
def test_the_commands_of_the_github_workflow(platform: Platform) -> None:
    workflow = GitHub(CI / "github-actions.yml", platform)

    def build() -> tuple[Ran, Ran]:
        plan = workflow.run("plan")
        assert plan.code == 0, plan.output
        (row,) = json.loads(workflow.outputs["matrix"])["include"]
        assert row == {"cell": CELL, "model": "silero_vad", "target": "x86-64-v3"}
        return plan, workflow.run("cell", row)

    _, refused = build()
    assert refused.code != 0
    assert "1 of 18 Tasks has no record" in refused.output
    _check_nights(platform, lambda: workflow.run("tune", branch="feature"))
    plan, cell = build()
    assert cell.code == 0, cell.output
    assert (plan.restored, cell.steps) == (BUILT[:1], BUILT[1:])
    report = workflow.run("report")
    assert (report.code, report.steps) == (0, [f"benchmark:{CELL}"]), report.output
    assert [path.name for path in platform.artifacts["packages"].rglob("*.tar")] == ["silero_vad-x86-64-v3.tar"]
    assert "silero_vad" in (platform.artifacts["report"] / "report.html").read_text()
    assert "1 cell: 1 ok" in (report.root.parent / "summary").read_text()
    plan, cell = build()
    assert plan.restored + cell.restored == BUILT
    assert workflow.run("report").restored == [f"benchmark:{CELL}"]


@pytest.mark.nightly
@pytest.mark.nights(2)
@pytest.mark.compiler
def test_the_commands_of_the_gitlab_pipeline(platform: Platform) -> None:
    pipeline = GitLab(CI / "gitlab-ci.yml", platform)

    def build() -> tuple[Ran, Ran]:
        plan = pipeline.run("plan")
        assert plan.code == 0, plan.output
        child = yaml.safe_load((plan.root / "build/cells.yml").read_text())
        assert child["include"] == {"local": ".gitlab-ci.yml"}
        assert child["cell"] == {"parallel": {"matrix": [{"CELL": CELL}]}}
        return plan, pipeline.run("cell", CELL=CELL)

    _, refused = build()
    assert refused.code != 0
    assert "1 of 18 Tasks has no record" in refused.output
    _check_nights(platform, lambda: pipeline.run("tune", RECORDS_URL=str(platform.origin)))
    plan, cell = build()
    assert cell.code == 0, cell.output
    assert (plan.restored, cell.steps) == (BUILT[:1], BUILT[1:])
    report = pipeline.run("report")
    assert (report.code, report.steps) == (0, [f"benchmark:{CELL}"]), report.output
    kept = {path.name for path in platform.artifacts["report {}"].rglob("*") if path.is_file()}
    assert kept == {"report.html", "report.md", "silero_vad-x86-64-v3.tar"}
    plan, cell = build()
    assert plan.restored + cell.restored == BUILT
    assert pipeline.run("report").restored == [f"benchmark:{CELL}"]


def _add_pi4(platform: Platform) -> None:
    """Add the target of an emulated board, and let the jobs' machines find this machine's emulator."""
    clone = platform.clone()
    targets = clone / "targets.yaml"
    pi4 = "{kind: llvm, mcpu: cortex-a72, mtriple: aarch64-linux-gnu, num-cores: 2, device: {qemu: aarch64}}"
    targets.write_text(f"{targets.read_text()}  pi4: {pi4}\n")
    _git(clone, "commit", "-q", "-a", "-m", "For the Raspberry Pi")
    _git(clone, "push", "-q", "origin", "main")
    emulators = platform.folder / "home/.cache/tvmbuild/emulators"
    emulators.parent.mkdir(parents=True)
    emulators.symlink_to(the_board().folder.parent)


def _on_github(platform: Platform) -> Ran:
    workflow = GitHub(CI / "github-actions.yml", platform)
    assert workflow.run("plan").code == 0
    assert '@pi4"' in workflow.outputs["matrix"]  # the job's condition
    return workflow.run("board")


def _on_gitlab(platform: Platform) -> Ran:
    cache = platform.folder / "home/.cache"
    return GitLab(CI / "gitlab-ci.yml", platform).run("board", XDG_CACHE_HOME=str(cache))


@pytest.mark.nightly
@pytest.mark.nights(2)
@pytest.mark.compiler
@pytest.mark.emulator
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("check", [_on_github, _on_gitlab])
def test_the_emulated_board_checks_a_package(platform: Platform, check: Callable[[Platform], Ran]) -> None:
    _add_pi4(platform)
    ran = check(platform)
    assert (ran.code, ran.steps[-1:]) == (0, ["benchmark:silero_vad@pi4"]), ran.output
    assert "there already: " in ran.output
    result = json.loads((ran.root / "build/cells/silero_vad@pi4/result.json").read_text())
    assert (result["emulated"], result["max_abs_error"] < 1e-3) == (True, True)
