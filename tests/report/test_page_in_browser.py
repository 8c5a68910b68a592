"""The page in a real browser: no errors on the console, nothing wider than a phone, everything works by keyboard."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, started_browser
from finished_project import write_finished_project
from made_matrix import make_matrix, make_timed

from tvmbuild.base.files import write_json
from tvmbuild.base.layout import Layout
from tvmbuild.base.steps import Settings
from tvmbuild.cli.report.serve import LiveReport, Server
from tvmbuild.planning.project import load_plan
from tvmbuild.report.html_page import write_html

pytestmark = [pytest.mark.browser]
FOCUSED = "document.activeElement.hash || document.activeElement.id || document.activeElement.textContent"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as started:
        yield started


@pytest.fixture(autouse=True)
def _no_complaints(browser: Browser) -> Iterator[None]:
    browser.resize(1280, 900)
    browser.complaints.clear()
    yield
    browser.evaluate("sessionStorage.clear()")  # the page's memory across loads
    assert browser.complaints == []


def open_page(browser: Browser, path: Path, models: int, targets: int, fragment: str = "") -> None:
    path.write_text(write_html(make_matrix(models, targets)), encoding="utf-8")
    browser.open(f"{path.as_uri()}{fragment}")


def list_models(browser: Browser) -> list[str]:
    rows = "[...document.querySelectorAll('#matrix tbody tr')].filter((row) => !row.hidden)"
    listed: list[str] = browser.evaluate(f"{rows}.map((row) => row.cells[0].textContent)")
    return listed


@pytest.mark.parametrize("size", [(3, 5), (20, 10)])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_wider_than_the_window(
    browser: Browser, tmp_path: Path, size: tuple[int, int], width: int, dark: bool
) -> None:
    browser.resize(width, 800, dark=dark)
    for fragment in ("", "#mobilenet_v2@x86-64-v3", "#compare"):
        open_page(browser, tmp_path / "report.html", *size, fragment)
        # A phone's window would grow with the page.
        assert browser.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [width, width], fragment
        assert browser.evaluate("document.body.innerText.length") > 100
        assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(15, 20, 25)" if dark else "rgb(255, 255, 255)"
        )


def test_the_matrix_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path / "report.html", 3, 5)
    browser.evaluate("document.querySelector('#matrix tbody a').focus()")
    assert browser.evaluate("document.querySelectorAll('#matrix [tabindex=\"0\"]').length") == 1
    browser.press("ArrowRight", "ArrowDown")
    assert browser.evaluate(FOCUSED) == "#resnet50@x86-64-v4"
    browser.press("End")
    assert browser.evaluate(FOCUSED) == "#resnet50@nuc-vulkan"
    browser.press("ArrowRight", "ArrowDown", "Home")
    assert browser.evaluate(FOCUSED) == "#silero_vad@x86-64-v3"
    browser.press("Enter")
    browser.wait("location.hash === '#silero_vad@x86-64-v3'")
    assert browser.evaluate(FOCUSED) == "silero_vad@x86-64-v3"
    assert browser.evaluate("[...document.querySelectorAll('main > *')].filter((each) => !each.hidden).length") == 1
    browser.press("Escape")
    browser.wait("!document.getElementById('overview').hidden")
    assert browser.evaluate(FOCUSED) == "#silero_vad@x86-64-v3"
    browser.press("ArrowUp", "ArrowUp", "ArrowUp", "Enter")  # the head of the column
    assert browser.evaluate("document.querySelector('[aria-sort]').textContent") == "x86-64-v3"
    assert list_models(browser) == ["mobilenet_v2", "silero_vad", "resnet50"]


def test_filter_and_order(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path / "report.html", 20, 10)
    browser.press("/")
    assert browser.evaluate(FOCUSED) == "filter"
    browser.press(*"minilm v3")
    assert list_models(browser) == ["minilm", "minilm_12"]
    assert browser.evaluate("document.getElementById('shown').textContent") == "4 of 200 shown"
    browser.press("Escape")
    assert len(list_models(browser)) == 20
    choose = "const e = document.getElementById('{}'); e.value = '{}'; e.dispatchEvent(new Event('change'))"
    browser.evaluate(choose.format("state", "failed").replace("const e", "var e"))
    assert browser.evaluate("document.getElementById('shown').textContent") == "18 of 200 shown"
    browser.evaluate(choose.format("order", "1").replace("const e", "var e"))
    assert list_models(browser) == sorted(list_models(browser))


def test_two_cells_and_two_runs_side_by_side(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path / "report.html", 3, 5)
    browser.evaluate("document.querySelector('#matrix tbody a').focus()")
    browser.press("c", "ArrowDown", "ArrowDown", "c")
    browser.wait("location.hash === '#compare'")
    assert read_row(browser, "median latency, ms")[2].startswith("0.346 [0.336, 0.356]: the first is less")
    run = "[...document.getElementById('side1').options].find((each) => each.value.includes('run of 2026-06-07'))"
    browser.evaluate(f"{run}.selected = true; document.getElementById('side1').dispatchEvent(new Event('change'))")
    assert read_row(browser, "median latency, ms")[2].startswith("0.926 [")
    assert read_row(browser, "peak memory")[2] == "only one has it"


def read_row(browser: Browser, name: str) -> list[str]:
    rows = "[...document.querySelectorAll('#sides tr')]"
    row = f"{rows}.find((row) => row.cells[0].textContent === '{name}')"
    texts: list[str] = browser.evaluate(f"[...{row}.cells].slice(1).map((cell) => cell.textContent)")
    return texts


def test_names_from_outside_do_nothing(browser: Browser, tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>\"'&<script>alert(2)</script>"
    path = tmp_path / "report.html"
    path.write_text(write_html([make_timed(evil, evil), make_timed("net", evil)]), encoding="utf-8")
    browser.open(path.as_uri())
    assert browser.evaluate("document.querySelectorAll('img, script').length") == 1
    browser.evaluate("document.querySelector('#matrix tbody a').focus()")
    browser.press("Enter")
    browser.wait("document.documentElement.classList.contains('paged')")
    assert browser.evaluate("document.activeElement.textContent") == f"{evil}@{evil}"
    browser.evaluate("location.hash = '#compare'")
    browser.wait("document.querySelector('#sides table') !== null")
    assert browser.evaluate("document.querySelectorAll('img, script').length") == 1


def test_without_scripts_all_of_it_is_there(browser: Browser, tmp_path: Path) -> None:
    browser.forbid_scripts(forbidden=True)
    try:
        open_page(browser, tmp_path / "report.html", 3, 5)
        shown: list[bool] = browser.evaluate(
            "[...document.querySelectorAll('section.cell')].map((e) => e.offsetHeight > 0)"
        )
        assert (len(shown), all(shown)) == (15, True)
        assert browser.evaluate("document.getElementById('controls').offsetHeight") == 0
    finally:
        browser.forbid_scripts(forbidden=False)


def test_what_screen_readers_are_told(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path / "report.html", 3, 5)
    tree: list[dict[str, Any]] = browser.list_accessible()
    named = {(each["role"]["value"], each["name"]["value"]) for each in tree if each.get("name", {}).get("value")}
    roles = {each["role"]["value"] for each in tree}
    assert {"grid", "row", "gridcell", "columnheader", "rowheader", "searchbox", "combobox"} <= roles
    assert ("link", "resnet50 on x86-64-v3: failed, 20/34 Tasks have a record") in named
    assert not [each for each in tree if each["role"]["value"] == "link" and not each.get("name", {}).get("value")]


def test_a_served_page_follows_the_files(browser: Browser, tmp_path: Path) -> None:
    project = write_finished_project(tmp_path)
    with Server(LiveReport(load_plan(project.root, Settings())), 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.open(server.url)
        browser.wait("document.getElementById('live').textContent === 'live'")
        before = browser.evaluate("document.querySelector('header p').textContent")
        write_json(Layout(project.root).failure("compile:first@v3"), {"message": "no such operator"})
        browser.wait(f"![{before!r}, undefined].includes(document.querySelector('header p')?.textContent)")
        assert "1 failed" in browser.evaluate("document.querySelector('header p').textContent")
        server.shutdown()


@pytest.mark.parametrize(("models", "targets"), [(0, 0), (1, 1)])
def test_small_projects_have_a_page_too(browser: Browser, tmp_path: Path, models: int, targets: int) -> None:
    open_page(browser, tmp_path / "report.html", models, targets)
    browser.press("/", "Escape")
    assert browser.evaluate("document.querySelector('header p').textContent").startswith("1 cell" if models else "no c")
    browser.evaluate("location.hash = '#compare'")
    browser.wait("document.documentElement.classList.contains('paged')")
    browser.press("Escape")
    browser.wait("!document.getElementById('overview').hidden")
