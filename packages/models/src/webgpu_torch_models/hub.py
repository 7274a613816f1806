"""Finding a model: a local folder, or the Hugging Face hub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
PATTERNS = ["*.json", "*.safetensors", "merges.txt", "vocab.txt"]
#: the same weights in another type, or from training, which no configuration asks for
VARIANTS = ["*.fp16.safetensors", "*.non_ema.safetensors"]
TOKENIZER_PATTERNS = ["tokenizer*.json", "special_tokens_map.json", "vocab.json", "merges.txt", "chat_template.jinja"]


def find_folder(
    name_or_path: str | Path,
    *,
    token: str | None = None,
    revision: str | None = None,
    patterns: list[str] | None = None,
) -> Path:
    """Return a model's folder: the given one if it exists, else the local copy of a hub repository.

    Raises:
        FileNotFoundError: there is no such folder and the name is not a hub id, or the hub has no such model.
        ImportError: a hub id is given and huggingface_hub is not installed.
    """
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return path
    name = str(name_or_path)
    if path.is_file():
        raise FileNotFoundError(f"{name} is a file; give the folder that holds config.json and the weights")
    if not HUB_ID.fullmatch(name):
        raise FileNotFoundError(f"there is no folder {name}, and it is not a hub id such as openai-community/gpt2")
    try:
        import huggingface_hub
    except ImportError as error:
        raise ImportError(
            f"there is no folder {name}; to load it from the Hugging Face hub, install huggingface_hub"
        ) from error
    return _download(huggingface_hub, name, token, revision, patterns)


def _download(hub: Any, name: str, token: str | None, revision: str | None, patterns: list[str] | None) -> Path:
    options = {"revision": revision, "token": token, "ignore_patterns": VARIANTS}
    try:
        folder = Path(hub.snapshot_download(name, allow_patterns=patterns or PATTERNS, **options))
        if patterns is None and not any(folder.glob("*.safetensors")):
            # Only repositories without safetensors are asked for the older, larger files.
            folder = Path(hub.snapshot_download(name, allow_patterns=[*PATTERNS, "pytorch_model*.bin"], **options))
    except Exception as error:
        # A full disk or a mistake in a program is what it is; what the hub or the way there refuse is a missing model.
        if not _is_of_the_hub(error):
            raise
        at = "" if revision is None else f" at revision {revision}"
        raise FileNotFoundError(
            f"there is no folder {name}, and {name}{at} could not be had from the Hugging Face hub: {error}"
        ) from error
    return folder


def _is_of_the_hub(error: Exception) -> bool:
    """Return whether an exception says that the hub has no such model, or cannot be reached."""
    packages = ("huggingface_hub", "httpx", "httpx2", "httpcore", "requests", "urllib3")
    raised = {each.__module__.partition(".")[0] for each in type(error).__mro__}
    return isinstance(error, ConnectionError | TimeoutError | FileNotFoundError) or not raised.isdisjoint(packages)
