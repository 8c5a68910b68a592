"""The download of one file from the Hugging Face Hub, by the Hub's library, which knows tokens and mirrors."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from tvmbuild.base.source_specs import HUB
from tvmbuild.errors import TvmbuildError


def download_hub(repository: str, file: str, revision: str | None) -> Path:
    """Download the file and return its path in the library's own cache (`HF_HOME`).

    Raises TvmbuildError, which names what is missing or why the download failed.
    """
    library, errors = _import("huggingface_hub"), _import("huggingface_hub.errors")
    _import("huggingface_hub.utils").disable_progress_bars()
    where = f"{repository} at {revision or 'main'}"
    try:
        return Path(library.hf_hub_download(repo_id=repository, filename=file, revision=revision))
    except errors.GatedRepoError as error:
        raise TvmbuildError(
            f"{repository} is shown only to users who have agreed to its terms",
            "agree to them on its page, then `hf auth login`, or set HF_TOKEN",
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise TvmbuildError(
            f"the Hub has no repository {repository}, or does not show it to you",
            "correct `hub:` in models.yaml; a private one needs `hf auth login`, or HF_TOKEN",
        ) from error
    except errors.RevisionNotFoundError as error:
        raise TvmbuildError(f"{repository} has no revision {revision}", "correct `revision:` in models.yaml") from error
    except errors.EntryNotFoundError as error:
        if isinstance(error, errors.LocalEntryNotFoundError):
            raise _unreachable(repository, file, error.__cause__ or error) from error
        raise TvmbuildError(f"{where} has no file {file}", "correct `file:` in models.yaml") from error
    except (errors.HFValidationError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise TvmbuildError(f"{repository}, file {file}: {reason}", "correct `hub:` in models.yaml") from error
    except (OSError, errors.HfHubHTTPError) as error:
        raise _unreachable(repository, file, error) from error


def _unreachable(repository: str, file: str, error: BaseException) -> TvmbuildError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return TvmbuildError(
        f"cannot download {file} of {repository}: {reason}",
        "check the network (HTTPS_PROXY, HF_ENDPOINT), or use a local file with `path:`",
    )


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise TvmbuildError(HUB.explain(HUB.distributions[0])) from error
