"""What can go wrong with a model, told in a sentence with what to try."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

_NEEDED = {
    "transformers": "pip install 'webgpu-torch[huggingface]'",
    "diffusers": "pip install 'webgpu-torch[huggingface]'",
    "PIL": "pip install pillow",
}


def _explain(error: Exception, options: Namespace) -> str | None:
    name, text = type(error).__name__, str(error)
    if isinstance(error, ModuleNotFoundError) and error.name in _NEEDED:
        return f"{error.name} is not installed: {_NEEDED[error.name]}"
    if name == "GatedRepoError" or "gated repo" in text:
        return f"{options.model} is gated: accept its conditions at https://huggingface.co/{options.model}, then run: hf auth login"
    if name in (
        "OfflineModeIsEnabled",
        "LocalEntryNotFoundError",
        "ConnectionError",
        "ConnectError",
        "MaxRetryError",
    ) or ("couldn't connect" in text.lower() or "cannot reach" in text.lower()):
        return f"the hub can't be reached and {options.model} is not in the cache: check the network, or give a local folder"
    if (
        name in ("RepositoryNotFoundError", "HFValidationError", "EntryNotFoundError")
        or "is not a local folder" in text
    ):
        return f"there is no model {options.model!r}, neither a folder here nor on the hub (private ones need: hf auth login)"
    if isinstance(error, OSError) and options.model in text:
        return f"{options.model} could not be loaded: {text.splitlines()[0]}"
    if isinstance(error, MemoryError) or "out of memory" in text.lower():
        return (
            f"there is not enough memory for {options.model}{_size_note(options)}: try --dtype float16, or --device cpu"
        )
    return None


def _size_note(options: Namespace) -> str:
    folder = Path(options.model)
    size = sum(file.stat().st_size for file in folder.rglob("*.safetensors")) if folder.is_dir() else 0
    return (
        f" (its weights need {size / 2**30:.1f} GiB as they are stored, twice as much as float32 if they are 16-bit)"
        if size
        else ""
    )


@contextlib.contextmanager
def explained(options: Namespace) -> Iterator[None]:
    """Turn the usual problems into a message and exit status 1; others pass as they are."""
    try:
        yield
    except Exception as error:
        message = _explain(error, options)
        if message is None:
            raise
        raise SystemExit(f"error: {message}") from error
