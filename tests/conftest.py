"""Fixtures that several test folders share, and pytest's summary of tests that this machine cannot run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from digits import write_digits
from doit_project import end_started
from hypothesis import settings
from made_once import begin_run, end_run
from needs import NEEDS, SHARED, explain_absent, summarise_absent
from nights import ALL, VARIABLE, begin_night, note_whole_run, sample_cases, skip_other_nights

from tvmbuild.compiler.bugs import RAISE_BUGS

PROJECT = Path(__file__).resolve().parent.parent
_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
_OWNS_RUN = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    for name, (meaning, _) in NEEDS.items():
        config.addinivalue_line("markers", f"{name}: needs {meaning}")
    # A shell's background job ignores Ctrl-C, and every process that a test starts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault(RAISE_BUGS, "1")  # a bug of a pass or a schedule rule raises, in every process of a test
    if not config.getoption("hypothesis_profile", None):
        settings.load_profile("default")  # where CI is set, hypothesis would draw the same examples in each run
    config.stash[_OWNS_RUN] = begin_run()
    begin_night()
    note_whole_run(config)


def pytest_report_header() -> str:
    return f"{VARIABLE}={begin_night()}: {VARIABLE}={ALL} runs what other nights do"


def pytest_unconfigure(config: pytest.Config) -> None:
    if config.stash.get(_OWNS_RUN, False):
        end_run()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    sample_cases(items)  # before `-m` deselects by the marks
    yield
    skip_other_nights(items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in NEEDS:
        if item.get_closest_marker(name) is not None and (why := explain_absent(name)):
            pytest.skip(f"{name}: {why}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.getreports("skipped")
    told = summarise_absent(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    if told:
        terminalreporter.write_line(f"not run here: {told}")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """End the processes that the test left running, and give this process its cores back.

    A tune stage that runs in it restricts itself to some cores, and its children inherit that.
    """
    yield
    end_started()
    if _CORES:
        os.sched_setaffinity(0, _CORES)


@pytest.fixture(scope="session")
def project_root() -> Path:
    return PROJECT


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ONNX file of a small classifier; tests must only read it."""
    return write_digits(tmp_path_factory.mktemp("digits") / "digits.onnx")


@pytest.fixture(scope="session")
def shared_models() -> Path:
    """The models for tests with the marker `shared`."""
    return SHARED / "models"


@pytest.fixture(scope="session")
def shared_images() -> Path:
    """The pictures for tests with the marker `shared`."""
    return SHARED / "images"


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test its own cache and runtime folders."""
    for variable in ("XDG_CACHE_HOME", "XDG_RUNTIME_DIR"):
        folder = tmp_path / variable.lower()
        folder.mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(folder))
