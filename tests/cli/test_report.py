from __future__ import annotations

import os
import threading
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from benchmark_results import make_result
from doit_project import DoitProject
from finished_project import CONV, write_finished_project
from made_matrix import make_timed

from tvmbuild.base.files import write_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import Settings
from tvmbuild.cli import main
from tvmbuild.cli.report.serve import LiveReport, Server
from tvmbuild.doit_adapter.main import take_long
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.profile import Peak
from tvmbuild.planning.plan import Plan
from tvmbuild.planning.project import load_plan
from tvmbuild.report.peaks import read_peaks


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> DoitProject:
    return write_finished_project(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def plan(project: DoitProject) -> Plan:
    return load_plan(project.root, Settings())


@pytest.fixture(scope="module")
def server(plan: Plan) -> Iterator[Server]:
    with Server(LiveReport(plan), 0) as started:
        threading.Thread(target=started.serve_forever, args=(0.02,), daemon=True).start()
        yield started
        started.shutdown()


@pytest.fixture
def _in_project(project: DoitProject, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.root)
    monkeypatch.setattr("tvmbuild.cli.report.command.load_plan", lambda *_: plan)


@pytest.mark.usefixtures("_in_project")
def test_it_writes_both_files_and_shows_the_matrix(project: DoitProject, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report"]) == 0
    short = capsys.readouterr().out
    assert short.splitlines()[-1] == "wrote build/report.html and build/report.md"
    assert Layout(project.root).report_html.exists()
    assert " status " not in short
    assert main(["report", "-v"]) == 0
    assert " status " in capsys.readouterr().out


@pytest.mark.usefixtures("_in_project")
def test_open_says_where_it_is_when_no_browser_can_be_started(
    project: DoitProject, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert main(["report", "--open"]) == 0
    assert opened == [Layout(project.root).report_html.as_uri()]
    assert f"no browser could be started here; open {opened[0]}" in capsys.readouterr().out


@pytest.mark.usefixtures("_in_project")
def test_peaks_are_measured_for_what_was_timed_here(
    project: DoitProject, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--peaks"]) == 1
    assert "no cell was timed on this machine" in capsys.readouterr().err
    machine = make_result().machine
    peak, gpus = Peak(100.0, 10.0, 2, "FMA", "copy"), Peak(900.0, 90.0, 0, "FMA", "copy")
    soft = replace(make_timed("net", "soft"), result=make_result(), built_for=PackageTarget("soft", "vulkan"))
    here = replace(make_timed("net", "cpu"), result=make_result(), built_for=PackageTarget("cpu", "llvm"))
    monkeypatch.setattr("tvmbuild.cli.report.command.collect_cells", lambda *_: [soft, here])
    monkeypatch.setattr("tvmbuild.devices.watch.Watch.read", lambda _: machine)
    monkeypatch.setattr("tvmbuild.devices.local.peak.measure_peak", lambda _: peak)
    monkeypatch.setattr("tvmbuild.devices.local.gpu_peak.measure_gpu_peak", {PackageTarget("soft", "vulkan"): gpus}.get)
    assert main(["report", "--peaks"]) == 0
    assert read_peaks(Layout(project.root).peaks) == {(machine.name, 2): peak, (f"{machine.name}, vulkan", 0): gpus}
    told = capsys.readouterr().out
    assert f"{machine.name}, 2 threads: 100 GFLOP/s, 10.0 GB/s\n{machine.name}, vulkan: 900 GFLOP/s, 90.0 GB/s" in told


def get(server: Server, path: str, host: str | None = None) -> tuple[int, bytes]:
    request = urllib.request.Request(f"{server.url.rstrip('/')}{path}")  # noqa: S310 - it is ours
    if host is not None:
        request.add_header("Host", host)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, b""


def test_the_served_page_is_as_the_files_are(server: Server, project: DoitProject) -> None:
    status, page = get(server, "/")
    stamp = get(server, "/stamp")[1]
    assert (status, b'name="tvmbuild-stamp" content="' + stamp in page) == (200, True)
    assert get(server, "/stamp")[1] == stamp
    failure = Layout(project.root).failure("compile:first@v3")
    write_json(failure, {"message": "no such operator"})
    assert get(server, "/stamp")[1] != stamp
    assert b"no such operator" in get(server, "/build/report.html")[1]
    failure.unlink()
    assert get(server, "/stamp")[1] == stamp


@pytest.mark.parametrize(
    "path", ["/models.yaml", "/records/../models.yaml", "/records/v3/..%2f..%2fmodels.yaml", "/records/v3/", "/build/"]
)
def test_nothing_else_of_the_disk_is_served(server: Server, path: str) -> None:
    assert get(server, path)[0] == 404


def test_records_are_served_and_other_hosts_are_refused(server: Server) -> None:
    status, data = get(server, f"/records/v3/{CONV}.json")
    assert (status, b'"key"' in data) == (200, True)
    assert get(server, f"/records/v3/{'0' * 16}.json")[0] == 404
    assert get(server, "/stamp", f"localhost:{server.server_port}")[0] == 200
    assert get(server, "/stamp", f"tvmbuild.example:{server.server_port}")[0] == 403


def test_a_search_changes_the_page_now_and_then(plan: Plan) -> None:
    report, journal = LiveReport(plan), Layout(plan.root).journal("v3", CONV)
    before = report.stamp()
    journal.parent.mkdir(parents=True)
    journal.write_text("\n")
    os.utime(journal, (3000, 3000))
    began = report.stamp()
    os.utime(journal, (3029, 3029))
    assert before != began == report.stamp()
    os.utime(journal, (3031, 3031))
    assert report.stamp() != began
    journal.unlink()
    assert report.stamp() == before


def test_changed_yaml_files_change_the_page(tmp_path: Path) -> None:
    project = write_finished_project(tmp_path)
    report = LiveReport(load_plan(project.root, Settings()))
    assert b"second@v3" in report.page()
    project.edit("models.yaml", "  second: {source", "  third: {source")
    assert b"third@v3" in report.page()
    project.edit("models.yaml", "third: {source", "third: {sauce")
    assert b"third@v3" in report.page()


def test_a_port_in_use_is_an_error(server: Server) -> None:
    with pytest.raises(TvmbuildError, match=f"port {server.server_port} cannot be used"):
        Server(server.report, server.server_port)


def test_a_v_without_a_number_is_ours() -> None:
    assert take_long(["-v", "compile:*"]) == (["compile:*"], True)
    assert take_long(["benchmark", "-v"]) == (["benchmark"], True)
    assert take_long(["-v", "2", "-n", "2"]) == (["-v", "2", "-n", "2"], False)
    assert take_long([]) == ([], False)
