"""What goes wrong on the way to the hub is told apart from what is wrong here."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError
from webgpu_torch_models import hub


def asked(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def download(*names: object, **options: object) -> Path:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    hub.find_folder("some/model", revision="main")


@pytest.mark.parametrize(
    "error",
    [
        LocalEntryNotFoundError("offline"),
        RepositoryNotFoundError("no such repository", response=SimpleNamespace(headers={}, request=None)),
        HFValidationError("bad name"),
        ConnectionError("no network"),
        TimeoutError("too slow"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_the_hub_refuses_is_a_model_that_is_not_found(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    with pytest.raises(FileNotFoundError, match="some/model at revision main could not be had") as caught:
        asked(monkeypatch, error)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), PermissionError(), TypeError("mistake")]
)
def test_other_errors_are_what_they_are(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        asked(monkeypatch, error)
    assert caught.value is error
