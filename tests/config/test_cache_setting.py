"""The key `cache:` of targets.yaml, and the variable that overrides it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tvmbuild.base.byte_sizes import SIZE
from tvmbuild.base.specs import CacheSpec
from tvmbuild.config import load_project
from tvmbuild.config.schema import load_schema
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.project import find_cache

TARGETS = "targets:\n  pc: {kind: llvm, mcpu: x86-64-v3, mtriple: x86_64-linux-gnu, num-cores: 2}\n"
PATH = "where the outputs are kept; relative to the project's folder, ~ is the user's home"
DEFAULT = 5_000_000_000


def _cache(write_project: Callable[..., Path], cache: str) -> CacheSpec | None:
    return load_project(write_project(targets=f"cache: {cache}\n{TARGETS}")).cache


@pytest.mark.parametrize(
    ("cache", "path", "size"),
    [
        ("shared", "{root}/shared", DEFAULT),
        ("../shared", "{root}/../shared", DEFAULT),
        ("/mnt/shared", "/mnt/shared", DEFAULT),
        ("~/shared", "{home}/shared", DEFAULT),
        ("~no-such-user/shared", "{root}/~no-such-user/shared", DEFAULT),
        ("{path: shared}", "{root}/shared", DEFAULT),
        ("{path: shared, size: 500 MB}", "{root}/shared", 500_000_000),
        ("{path: shared, size: 0.5 kB}", "{root}/shared", 500),
        ("{path: shared, size: 1.5GB}", "{root}/shared", 1_500_000_000),
        ("{path: shared, size: 2 TB}", "{root}/shared", 2_000_000_000_000),
    ],
)
def test_good_values(
    write_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, cache: str, path: str, size: int
) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    got = _cache(write_project, cache)
    root = write_project()
    assert got == CacheSpec(Path(path.format(root=root, home="/home/someone")), size)


def test_off_by_default(write_project: Callable[..., Path]) -> None:
    assert load_project(write_project()).cache is None


@pytest.mark.parametrize(
    ("cache", "message"),
    [
        ("5", "1:8: cache: 5 is a number; expected text; write it as '5'"),
        ("", "1:7: cache: found nothing; expected text or a map"),
        ("''", "1:8: cache: is empty; expected at least one character"),
        ("[a]", "1:8: cache: found a list; expected text or a map"),
        ("{size: 5 GB}", f'1:1: cache: the key "path" is missing; expected path: {PATH}'),
        ("{path: ''}", "1:15: cache.path: is empty; expected at least one character"),
        ("{pth: x}", '1:9: cache.pth: unknown key; expected path or size; did you mean "path"?'),
        (
            "{path: x, size: 5}",
            "1:24: cache.size: 5 is a number; expected a size with its unit, such as 500 MB or 5 GB",
        ),
        (
            "{path: x, size: 5 gb}",
            '1:24: cache.size: "5 gb" is not valid; expected a size with its unit, such as 500 MB or 5 GB',
        ),
    ],
)
def test_message_of_bad_values(load_mistakes: Callable[..., list[str]], cache: str, message: str) -> None:
    assert load_mistakes(targets=f"cache: {cache}\n{TARGETS}") == [f"targets.yaml:{message}"]


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        (None, CacheSpec(Path("/yaml"), 7)),
        ("/named", CacheSpec(Path("/named"), 7)),
        ("", None),
    ],
)
def test_the_variable_goes_before_the_file(
    write_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, variable: str | None, expected: CacheSpec
) -> None:
    monkeypatch.delenv("TVMBUILD_CACHE", raising=False)
    if variable is not None:
        monkeypatch.setenv("TVMBUILD_CACHE", variable)
    project = load_project(write_project(targets=f"cache: {{path: /yaml, size: 0.000007 MB}}\n{TARGETS}"))
    assert find_cache(project) == expected


def test_the_variable_is_enough(write_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_project()
    monkeypatch.setenv("TVMBUILD_CACHE", "beside")
    assert find_cache(load_project(root)) == CacheSpec(root / "beside", DEFAULT)


def test_the_size_can_be_a_variable_too(write_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    project = load_project(write_project())
    monkeypatch.setenv("TVMBUILD_CACHE_SIZE", "500 MB")
    assert find_cache(project) is None
    monkeypatch.setenv("TVMBUILD_CACHE", "/named")
    assert find_cache(project) == CacheSpec(Path("/named"), 500_000_000)
    monkeypatch.setenv("TVMBUILD_CACHE_SIZE", "big")
    with pytest.raises(TvmbuildError, match="TVMBUILD_CACHE_SIZE=big is not valid"):
        find_cache(project)


def test_the_schema_and_the_variable_agree_on_sizes() -> None:
    pattern = load_schema("targets")["$defs"]["cache"]["properties"]["size"]["pattern"]
    assert pattern == f"^{SIZE.pattern}$"
