"""What goes wrong on the way to the hub is told apart from what is wrong here."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError
from webgpu_torch_models import hub
from webgpu_torch_models.decoder_families import LlamaConfig, LlamaForCausalLM


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


LOADING = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[2:]))  # an import of these fails
from webgpu_torch_models import AutoModelForCausalLM
import webgpu_torch_core as torch
with torch.device("cpu"):
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
    print(model.generate(torch.tensor([[1, 2]]), max_new_tokens=2, num_beams=1).shape)
"""


def test_a_folder_needs_nothing_that_pages_lack(tmp_path: Path) -> None:
    config = LlamaConfig(
        vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, eos_token_id=None
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    command = [sys.executable, "-c", LOADING, str(tmp_path), "tqdm", "huggingface_hub", "tokenizers", "jinja2", "PIL"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.stdout == "torch.Size([1, 4])\n", ended.stderr
