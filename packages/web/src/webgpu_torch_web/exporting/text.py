"""Language models as folders that generate text: plans that share a key-value cache, the tokenizer, and where they end.

A prompt but its last token goes through a plan for its length, rounded up to a power of two: tokens behind its end are
written to the cache and overwritten before anything attends to them. Then every token, the prompt's last one first,
goes through a plan that attends to a window of the cache, of which there is one for each doubling of its length. Which
position a token has is an input, so that one plan serves all positions of its window.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from .errors import ExportError
from .folder import Json, write_folder
from .functions import SCRIPTS, opened
from .tokenizer import TOKENIZER_FILE, Tokenizer, described_tokenizer

#: tokens of the shortest prefill and of the shortest window
SHORTEST_PROMPT, SHORTEST_WINDOW = 16, 128
TEXT_SCRIPTS = ("text.js", "text.d.ts", "tokenizer.js", "tokenizer.d.ts")


class Step(Protocol):
    """One call's view of a cache; see :class:`webgpu_torch_models.cache.CacheStep`."""


class Cache(Protocol):
    """A key-value cache; see :class:`webgpu_torch_models.cache.KeyValueCache`."""

    buffers: list[Tensor]
    position: Tensor
    length: int
    capacity: int

    def step(self, count: int) -> Step:
        """Return the view with which a call adds ``count`` tokens."""
        ...

    def reserve(self, tokens: int) -> int:
        """Have room for so many tokens; return for how many there is."""
        ...


class Output(Protocol):
    """What a language model returns."""

    logits: Tensor


class LanguageModel(Protocol):
    """A causal language model of :mod:`webgpu_torch_models`."""

    new_cache: Callable[[int, int], Cache]
    starts_anew_with_variant: bool

    def __call__(self, input_ids: Tensor, *, cache: Step) -> Output:
        """Return the logits [batch, tokens, vocabulary]."""
        ...


def _prefill(model: LanguageModel, cache: Cache, buffers: Sequence[Tensor], tokens: Tensor) -> None:
    """Write the keys and values of tokens [1, count] into an empty cache; the logits are not wanted."""
    cache.position, cache.length = torch.zeros(1, dtype=torch.int64, device=tokens.device), 0
    model(tokens, cache=cache.step(tokens.shape[1]))


def _decode(
    model: LanguageModel, cache: Cache, buffers: Sequence[Tensor], window: int, token: Tensor, position: Tensor
) -> dict[str, Tensor]:
    """Return the logits [vocabulary] behind a token [1, 1] at a position [1], and the most likely next token."""
    cache.position, cache.length = position, window - 1
    logits = model(token, cache=cache.step(1)).logits[0, -1].float()
    return {"logits": logits, "best": logits.argmax(-1)}


def _doublings(first: int, last: int) -> list[int]:
    found = []
    while first < last:
        found.append(first)
        first *= 2
    return [*found, last]


def export_text(
    model: LanguageModel,
    tokenizer: Tokenizer,
    folder: str | os.PathLike[str],
    *,
    capacity: int = 1024,
    end_tokens: Sequence[int] = (),
    weights: str = "float32",
    limits: Mapping[str, int] | None = None,
    features: Sequence[str] = (),
) -> Path:
    """Write a language model to a folder that generates text in browsers and in Node: see :func:`.functions.export`.

    Args:
        model: a causal language model of webgpu-torch-models (``GPT2LMHeadModel``, ``AutoModelForCausalLM`` …).
        tokenizer: its tokenizer: byte-level byte-pair encoding, as GPT-2's and Llama 3's.
        folder: where to; it is made if need be.
        capacity: most tokens of prompt and answer together.
        end_tokens: tokens that end an answer.
        weights, limits, features: as for :func:`.functions.export`.

    Returns:
        Path: the folder.

    Raises:
        ExportError: the model does what cannot be exported, or the tokenizer is of another kind.
        ValueError: an option is none of those above.
    """
    described = described_tokenizer(tokenizer)
    if model.starts_anew_with_variant:
        raise ExportError(
            f"{type(model).__name__} computes its positions in another way once a text is long: it cannot be exported"
        )
    session = opened(limits, features, weights)
    cache = model.new_cache(1, capacity)
    cache.reserve(capacity)
    position, length, device = cache.position, cache.length, cache.position.device
    buffers = tuple(cache.buffers)

    def whole(*shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.int64, device=device)

    try:
        prompts = _doublings(min(SHORTEST_PROMPT, capacity), capacity)
        for count in prompts:
            session.capture(
                f"prefill{count}", partial(_prefill, model, cache, buffers), (), {"tokens": whole(1, count)}
            )
        windows = _doublings(min(SHORTEST_WINDOW, capacity), capacity)
        for window in windows:
            function = partial(_decode, model, cache, buffers, window)
            session.capture(f"decode{window}", function, (), {"token": whole(1, 1), "position": whole(1)})
    finally:
        cache.position, cache.length = position, length
    text: Json = {"prefill": prompts, "decode": windows, "capacity": capacity, "end": list(end_tokens)}
    target = Path(folder)
    write_folder(session, target, weights, {"text": text}, (*SCRIPTS, *TEXT_SCRIPTS))
    (target / TOKENIZER_FILE).write_text(json.dumps(described, ensure_ascii=False), encoding="utf-8")
    return target
