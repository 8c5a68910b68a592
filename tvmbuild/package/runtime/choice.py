"""The choice of the first package that this machine can run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tvmbuild.errors import CannotRunError, TvmbuildError
from tvmbuild.package.archive import is_pack
from tvmbuild.package.pack import Packed, list_packed
from tvmbuild.package.runtime.session import Session


def load_first(paths: Iterable[Path | str], make: Callable[[Path | str | Packed], Session]) -> Session:
    """Return a session of the first package that this machine can run; `passed_over` has the others before it.

    A pack stands for its packages, in its order. A package that is damaged, missing or fails for another reason is
    passed over with a warning. Raises TvmbuildError that names all reasons if no package can be loaded.
    """
    is_list = isinstance(paths, Iterable) and not isinstance(paths, bytes)
    listed: list[Any] = list(paths) if is_list else [paths]
    wrong = [each for each in listed if not isinstance(each, (str, Path))]
    if wrong:
        raise TvmbuildError(f"{wrong[0]!r} is no path of a package", "name one path, or a list of them")
    if not listed:
        raise TvmbuildError("no package was named", "name one or more")
    passed_over: dict[str, str] = {}
    for path in _list_all(listed, passed_over):
        try:
            session = make(path)
        except TvmbuildError as error:  # noqa: PERF203 - loading takes longer
            _pass_over(path, error, passed_over)
        else:
            session.passed_over = passed_over
            return session
    reasons = "".join(f"\n  {path}: {reason}" for path, reason in passed_over.items())
    raise TvmbuildError(f"this machine can run none of the packages:{reasons}", "build for a target of this machine")


def _list_all(paths: Sequence[Path | str], passed_over: dict[str, str]) -> Iterator[Path | str | Packed]:
    for path in paths:
        if not is_pack(Path(path)):
            yield path
            continue
        try:
            yield from list_packed(Path(path))
        except TvmbuildError as error:
            _pass_over(path, error, passed_over)


def _pass_over(path: Path | str | Packed, error: TvmbuildError, passed_over: dict[str, str]) -> None:
    passed_over[str(path)] = error.message
    if not isinstance(error, CannotRunError):
        warnings.warn(f"{path} was passed over: {error.message}", RuntimeWarning, stacklevel=4)
