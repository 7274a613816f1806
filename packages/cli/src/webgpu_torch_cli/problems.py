"""What can go wrong with a model, told in a sentence with what to try."""

from __future__ import annotations

import contextlib
import re
from argparse import Namespace
from collections.abc import Iterator

_NEEDED = {
    "transformers": "pip install 'webgpu-torch[huggingface]'",
    "diffusers": "pip install 'webgpu-torch[huggingface]'",
    "PIL": "pip install pillow",
}
_UNREACHABLE = ("OfflineModeIsEnabled", "LocalEntryNotFoundError", "ConnectionError", "ConnectError", "MaxRetryError")
_UNKNOWN = ("RepositoryNotFoundError", "HFValidationError")
_OTHER_KIND = re.compile(r"Unrecognized configuration class.*?<class '[\w.]*\.(\w+)'>", re.DOTALL)


def _explain(error: BaseException, options: Namespace) -> str | None:
    name, text = type(error).__name__, str(error)
    if isinstance(error, ModuleNotFoundError) and error.name in _NEEDED:
        return f"{error.name} is not installed: {_NEEDED[error.name]}"
    if name == "GatedRepoError" or "access a gated repo" in text:
        return f"{options.model} is gated: accept its conditions at https://huggingface.co/{options.model}, then run: hf auth login"
    if name in _UNKNOWN or "is not a local folder" in text or "Repo id must" in text:
        return f"there is no model {options.model!r}, neither a folder here nor on the hub (private ones need: hf auth login)"
    if name in _UNREACHABLE or "couldn't connect" in text.lower() or "cannot reach" in text.lower():
        return f"the hub can't be reached and {options.model} is not in the cache: check the network, or give a local folder"
    if isinstance(error, MemoryError) or "out of memory" in text.lower():
        return _no_room(options)
    return None


def _explain_files(error: BaseException, options: Namespace) -> str | None:
    """Explain a checkpoint that is there and not what the command needs."""
    name, text = type(error).__name__, str(error)
    other = _OTHER_KIND.search(text)
    if other:
        return f"{options.model} is of another kind ({other[1]}) than webgpu-torch {options.command} takes"
    if "model_index.json" in text:
        return f"{options.model} has no model_index.json: webgpu-torch image takes pipelines of diffusers"
    if name == "EntryNotFoundError" or (isinstance(error, OSError | ValueError) and _about_files(text, options.model)):
        return f"{options.model} could not be loaded: {text.splitlines()[0]}"
    if isinstance(error, RuntimeError | ValueError) and options.device and _about_device(text):
        return f"--device {options.device}: {text.splitlines()[0]}"
    return None


def _about_files(text: str, model: str) -> bool:
    return model in text or any(each in text for each in ("backend tokenizer", "Unrecognized model", "tokenizer"))


def _about_device(text: str) -> bool:
    return "device" in text.lower()


def _no_room(options: Namespace) -> str:
    from .sizes import described_need

    need = described_need(options)
    ways = []
    if options.dtype in ("auto", "float32"):
        ways.append("--dtype float16, which needs half of float32")
    if not (options.device or "").startswith("cpu"):
        ways.append("--device cpu")
    if options.command == "image":
        ways.append("smaller --width and --height")
    return f"there is not enough memory for {options.model}{need}; try {', '.join([*ways, 'a smaller model'])}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        error = error.__cause__ or error.__context__


@contextlib.contextmanager
def explained(options: Namespace) -> Iterator[None]:
    """Turn the usual problems into a message and exit status 1; others pass as they are."""
    try:
        yield
    except Exception as error:
        # Libraries wrap what happened in sentences of their own.
        tries = (explain(each, options) for explain in (_explain, _explain_files) for each in _chain(error))
        message = next(filter(None, tries), None)
        if message is None:
            raise
        raise SystemExit(f"error: {message}") from error
