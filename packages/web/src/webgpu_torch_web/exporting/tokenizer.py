"""Tokenizers that exported folders bring along."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol

from .errors import ExportError

TOKENIZER_FILE = "tokenizer.json"


class Backend(Protocol):
    """A tokenizer of the tokenizers library."""

    def to_str(self) -> str:
        """Return what tokenizer.json holds."""
        ...


class Tokenizer(Protocol):
    """A tokenizer of :mod:`webgpu_torch_models`."""

    backend: Backend


def described_tokenizer(tokenizer: Tokenizer) -> dict[str, object]:
    """Return what tokenizer.json holds.

    Raises:
        ExportError: it has a part that tokenizer.js does not read.
    """
    described = json.loads(tokenizer.backend.to_str())
    _check(described)
    return described


def _check(described: Mapping[str, object]) -> None:
    """Refuse a tokenizer.json that tokenizer.js does not read.

    Raises:
        ExportError: it has a part of another kind; the message names it.
    """
    known = {
        "normalizer": ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Replace", "Sequence"),
        "pre_tokenizer": ("ByteLevel", "Split", "Digits", "Sequence"),
        "model": ("BPE",),
        "decoder": ("ByteLevel",),
        "post_processor": ("ByteLevel", "TemplateProcessing", "RobertaProcessing", "Sequence"),
    }

    def look(part: object, place: str) -> None:
        if isinstance(part, dict):
            kind = str(part.get("type", "BPE" if place == "model" else ""))
            if kind not in known[place]:
                raise ExportError(
                    f"the tokenizer's {place} is of kind {kind}; exported folders have byte-level byte-pair encoding"
                )
            for each in next((part[key] for key in ("normalizers", "pretokenizers", "processors") if key in part), ()):
                look(each, place)

    for place in known:
        look(described.get(place), place)
    model = described.get("model")
    if isinstance(model, dict) and (model.get("byte_fallback") or model.get("continuing_subword_prefix")):
        raise ExportError(
            "the tokenizer's model falls back to bytes or marks subwords; byte-level encoding does neither"
        )
