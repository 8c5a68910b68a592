"""The download of an sdist without building it. pip would run its setup code even to download it."""

from __future__ import annotations

import ssl
from pathlib import Path

from unearth import PackageFinder, UnpackError
from unearth.auth import MultiDomainBasicAuth
from unearth.fetchers.sync import PyPIClient
from unearth.preparer import HTTPErrors

from tvmbuild.errors import TvmbuildError
from tvmbuild.sources.pip_settings import PipSettings


def download_sdist(requirement: str, settings: PipSettings, folder: Path) -> Path | None:
    """Download the sdist of ``name==version`` into ``folder``, and return its path.

    Return None if no configured place has one. Raises TvmbuildError if the download fails.
    """
    indexes = () if settings.no_index or settings.index_url is None else (settings.index_url,)
    if settings.no_index and not settings.find_links:
        return None
    verify = ssl.create_default_context(cafile=settings.cert) if settings.cert else True
    with PyPIClient(trusted_hosts=settings.trusted_hosts, verify=verify, timeout=60.0) as session:
        session.auth = MultiDomainBasicAuth(prompting=False, index_urls=[*indexes, *settings.extra_index_urls])
        # Without an index and find-links, unearth adds its own default index, as pip does; so links come later.
        links = settings.find_links if settings.no_index else ()
        finder = PackageFinder(session=session, index_urls=indexes, find_links=links, no_binary=[":all:"])
        if not settings.no_index:
            for url in settings.extra_index_urls:
                finder.add_index_url(url)
            for link in settings.find_links:
                finder.add_find_links(link)
        try:
            best = finder.find_best_match(requirement).best
            if best is None or best.link.is_wheel:
                return None
            target = folder / "sdist"
            target.mkdir()
            return Path(finder.download(best.link, target))
        except (OSError, ValueError, UnpackError, *HTTPErrors) as error:
            raise TvmbuildError(
                f"cannot download the sdist of {requirement}: {error}",
                "check the network and pip's configuration (`pip config list`)",
            ) from error
