"""Continuing a sequence token by token: greedy, or sampling with temperature, top-k and top-p."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F

from webgpu_torch_models.cache import CacheStep
from webgpu_torch_models.config import JsonConfig, ModelConfig

EAGER_DEVICES = ("cpu", "meta", "python")
"""Device types on which a decoding step is not captured unless asked for: there is no launch cost to save."""


@dataclasses.dataclass
class GenerationConfig(JsonConfig):
    """How to continue a sequence, as in generation_config.json.

    Attributes:
        max_new_tokens: how many tokens to add at most.
        do_sample: draw tokens instead of taking the most likely.
        temperature: divides the logits.
        top_k: draw among that many most likely tokens only; 0 is all.
        top_p: draw among the most likely tokens whose probabilities add up to it; 1.0 is all.
        eos_token_id: the token, or tokens, that end a sequence.
        pad_token_id: what follows the end of a sequence while others of the batch go on.
    """

    file_name: ClassVar[str] = "generation_config.json"

    max_new_tokens: int | None = None
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None

    @classmethod
    def from_model_config(cls, config: ModelConfig) -> GenerationConfig:
        """Return the defaults with the special tokens of a model."""
        names = ("bos_token_id", "eos_token_id", "pad_token_id")
        tokens: dict[str, Any] = {name: getattr(config, name, None) for name in names}
        return cls(**tokens)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> GenerationConfig:
        # Hugging Face writes null for "the default".
        return super().from_dict({key: value for key, value in values.items() if value is not None})

    def to_dict(self) -> dict[str, Any]:
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        return {key: value for key, value in super().to_dict().items() if value != defaults.get(key)}

    def changed(self, **options: Any) -> GenerationConfig:
        """Return a copy in which the options that are not None replace those here.

        Raises:
            ValueError: an option is out of range.
        """
        result = dataclasses.replace(self, **{key: value for key, value in options.items() if value is not None})
        if result.temperature <= 0:
            raise ValueError(
                f"temperature must be greater than 0, got {result.temperature}; for the limit 0 use do_sample=False"
            )
        if result.top_k < 0:
            raise ValueError(f"top_k must be 0 (all tokens) or positive, got {result.top_k}")
        if not 0 <= result.top_p <= 1:
            raise ValueError(f"top_p must be between 0 and 1, got {result.top_p}")
        return result

    def end_tokens(self) -> list[int]:
        """Return the tokens that end a sequence, as a list."""
        if self.eos_token_id is None:
            return []
        return [self.eos_token_id] if isinstance(self.eos_token_id, int) else list(self.eos_token_id)


def apply_top_k(scores: Tensor, top_k: int) -> Tensor:
    """Set all but the ``top_k`` largest scores [batch, vocabulary] (and those equal to the last) to -inf."""
    threshold = torch.topk(scores, min(top_k, scores.shape[-1]))[0][..., -1, None]
    return scores.masked_fill(scores < threshold, -float("inf"))


def apply_top_p(scores: Tensor, top_p: float) -> Tensor:
    """Keep the smallest set of most likely tokens whose probabilities reach ``top_p``; -inf elsewhere.

    Nucleus sampling (Holtzman et al., 2019); scores [batch, vocabulary].
    """
    ascending, order = torch.sort(scores, descending=False)
    removed = F.softmax(ascending, dim=-1).cumsum(dim=-1) <= 1 - top_p
    # The most likely token always stays.
    last = torch.arange(scores.shape[-1], device=scores.device) == scores.shape[-1] - 1
    removed = removed & ~last
    return scores.masked_fill(torch.zeros_like(removed).scatter(-1, order, removed), -float("inf"))


def process_scores(scores: Tensor, config: GenerationConfig) -> Tensor:
    """Apply temperature, top-k and top-p, in that order, to the logits [batch, vocabulary]."""
    if config.temperature != 1.0:
        scores = scores / config.temperature
    if config.top_k > 0:
        scores = apply_top_k(scores, config.top_k)
    if config.top_p < 1.0:
        scores = apply_top_p(scores, config.top_p)
    return scores


def _choose(logits: Tensor, config: GenerationConfig) -> Tensor:
    """Return the next tokens [batch] if they need no random number, else their probabilities [batch, vocabulary]."""
    scores = logits[:, -1].float()
    if not config.do_sample:
        return scores.argmax(dim=-1)
    return F.softmax(process_scores(scores, config), dim=-1)


class Decoder:
    """A model, its cache, and one decoding step as a function of tensors.

    Args:
        model: has ``new_cache`` and takes ``cache`` in its call.
        config: how tokens are chosen.
        batch_size, capacity: of the cache.
        padding: int64 [batch], padding at the start of each sequence.
        compile: capture the decoding step with :func:`torch.compile`, once for each window of the cache.
        context: what an encoder made for the decoder.
    """

    def __init__(
        self,
        model: Any,
        config: GenerationConfig,
        batch_size: int,
        capacity: int,
        padding: Tensor | None = None,
        compile: bool = False,
        context: Sequence[Tensor] = (),
    ) -> None:
        self.model = model
        self.config = config
        self.cache = model.new_cache(batch_size, capacity, padding)
        self.cache.context = context
        self.compile = compile
        self._seen: list[Tensor] = []
        self._variant: Any = None
        self._steps: dict[tuple[int, Any], Callable[..., tuple[Tensor, Tensor]]] = {}

    def prefill(self, input_ids: Tensor) -> Tensor:
        """Take up the prompt [batch, tokens]; return what :func:`_choose` returns for the token after it."""
        self._seen = [input_ids]
        self._variant = self.model.step_variant(input_ids.shape[1])
        return _choose(self.model(input_ids, cache=self.cache, logits_to_keep=1).logits, self.config)

    def advance(self, token: Tensor) -> Tensor:
        """Take up one token per sequence [batch]; return what :func:`_choose` returns for the token after it."""
        cache = self.cache
        cache.check_room(1)
        self._seen.append(token.unsqueeze(1))
        variant = self.model.step_variant(cache.length + 1)
        if variant != self._variant and self.model.starts_anew_with_variant:
            cache.clear()
            return self.prefill(torch.cat(self._seen, dim=1))
        cache.length += 1
        kind = cache.window(cache.length), variant
        step = self._steps.get(kind)
        if step is None:
            step = self._step_for(kind[0], cache.length)
            self._steps = {kind: torch.compile(step) if self.compile else step}
            step = self._steps[kind]
        # The padding, if any, is the same object at every step, as the buffers are.
        padding = () if cache.padding is None else (cache.padding,)
        choice, cache.position = step(token, cache.position, *padding, *cache.buffers, *cache.context)
        return choice

    def _step_for(self, window: int, length: int) -> Callable[..., tuple[Tensor, Tensor]]:
        padded, count = self.cache.padding is not None, len(self.cache.buffers)

        def step(token: Tensor, position: Tensor, *state: Tensor) -> tuple[Tensor, Tensor]:
            padding, state = (state[0], state[1:]) if padded else (None, state)
            buffers, context = state[:count], state[count:]
            view = CacheStep(buffers, position, 1, window, length, padding, context=context)
            logits = self.model(token.unsqueeze(1), cache=view).logits
            return _choose(logits, self.config), position + 1

        return step


def _padding_of(attention_mask: Tensor | None, tokens: int) -> Tensor | None:
    """Return how many tokens at each sequence's start are padding, or None if none are.

    Raises:
        ValueError: there is padding elsewhere.
    """
    if attention_mask is None:
        return None
    rows = attention_mask.tolist()
    if all(all(row) for row in rows):
        return None
    counts = [tokens - sum(map(bool, row)) for row in rows]
    if any(any(row[:count]) for row, count in zip(rows, counts, strict=True)):
        raise ValueError("attention_mask must have its zeros at the start of each row: pad prompts on the left")
    return torch.tensor(counts, dtype=torch.int64, device=attention_mask.device)


def _check_length(model: Any, input_ids: Tensor, new_tokens: int) -> None:
    if input_ids.ndim != 2 or input_ids.shape[1] == 0:
        raise ValueError(
            f"input_ids must be [batch, tokens] with at least one token, got shape {list(input_ids.shape)}"
        )
    if new_tokens < 1:
        raise ValueError(f"max_new_tokens must be at least 1, got {new_tokens}")
    limit = getattr(model.config, "n_positions", None)
    if limit is not None and input_ids.shape[1] + new_tokens > limit:
        raise ValueError(
            f"{input_ids.shape[1]} tokens of prompt and max_new_tokens={new_tokens} are more than the model's "
            f"n_positions={limit}"
        )


def generate(
    model: Any,
    input_ids: Tensor,
    *,
    max_new_tokens: int | None = None,
    do_sample: bool | None = None,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    eos_token_id: int | list[int] | None = None,
    pad_token_id: int | None = None,
    attention_mask: Tensor | None = None,
    generator: Any = None,
    streamer: Callable[[list[int]], None] | None = None,
    generation_config: GenerationConfig | None = None,
    compile: bool | None = None,
    context: Sequence[Tensor] = (),
) -> Tensor:
    """Continue sequences until they end or ``max_new_tokens`` (20 by default) are added.

    The chosen token stays on the device and is fed to the next step from there. The host reads it, once per token,
    only to call the streamer or to see whether all sequences have ended.

    Args:
        model: a model of this package, in evaluation mode.
        input_ids: int64 [batch, tokens].
        max_new_tokens, do_sample, temperature, top_k, top_p, eos_token_id, pad_token_id: override
            ``generation_config``, which is the model's own by default; see :class:`GenerationConfig`.
        attention_mask: [batch, tokens], 0 at padding, which must be on the left.
        generator: draws the tokens.
        streamer: called with the new tokens, one per sequence, as soon as they are known.
        compile: capture the decoding step; by default on every device but the CPU.
        context: what the model's encoder made, for a model that has one.

    Returns:
        int64 [batch, tokens + new tokens], prompts included; ended sequences are filled with the padding token.

    Raises:
        ValueError: an option is out of range, or the sequence would exceed the model's positions.
    """
    config = (generation_config or model.generation_config).changed(
        max_new_tokens=max_new_tokens,
        do_sample=do_sample,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        eos_token_id=eos_token_id,
        pad_token_id=pad_token_id,
    )
    new_tokens = 20 if config.max_new_tokens is None else config.max_new_tokens
    _check_length(model, input_ids, new_tokens)
    batch, tokens = input_ids.shape
    if compile is None:
        compile = input_ids.device.type not in EAGER_DEVICES
    with torch.no_grad():
        padding = _padding_of(attention_mask, tokens)
        decoder = Decoder(model, config, batch, tokens + new_tokens, padding, compile, context)
        chosen = list(_tokens(decoder, input_ids, new_tokens, generator, streamer))
        return torch.cat([input_ids, torch.stack(chosen, dim=1)], dim=1)


def _tokens(
    decoder: Decoder,
    input_ids: Tensor,
    new_tokens: int,
    generator: Any,
    streamer: Callable[[list[int]], None] | None,
) -> Any:
    """Give the next tokens [batch] one step after the other."""
    config = decoder.config
    ends = config.end_tokens()
    end_ids = torch.tensor(ends, dtype=input_ids.dtype, device=input_ids.device) if ends else None
    filler = config.pad_token_id if config.pad_token_id is not None else ends[0] if ends else None
    ended: Tensor | None = None
    ended_on_host = [False] * input_ids.shape[0]
    choice = decoder.prefill(input_ids)
    for index in range(new_tokens):
        token = torch.multinomial(choice, 1, generator=generator).squeeze(1) if config.do_sample else choice
        if end_ids is not None:
            if ended is not None:
                token = torch.where(ended, filler, token)
            now = (token.unsqueeze(1) == end_ids).any(dim=1)
            ended = now if ended is None else ended | now
        yield token
        if streamer is not None or end_ids is not None:
            values = token.tolist()
            if streamer is not None:
                streamer(values)
            ended_on_host = [old or value in ends for old, value in zip(ended_on_host, values, strict=True)]
            if all(ended_on_host):
                return
        if index + 1 < new_tokens:
            choice = decoder.advance(token)
