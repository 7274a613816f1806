"""Continuing sequences until they end: all at once, or token by token as they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar, Unpack

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.record.devices import is_accelerator

from webgpu_torch_models.generation.beams import beam_search
from webgpu_torch_models.generation.config import GenerationConfig, GenerationOptions
from webgpu_torch_models.generation.decoding import Decoder
from webgpu_torch_models.generation.endings import Endings, Progress
from webgpu_torch_models.generation.speculation import Speculation, check_assistant

if TYPE_CHECKING:
    from webgpu_torch_models.pretrained import PreTrainedModel
    from webgpu_torch_models.tokenizer import Tokenizer

T = TypeVar("T")


def padding_of(attention_mask: Tensor | None, tokens: int) -> Tensor | None:
    """Return how many tokens at each sequence's start are padding, int64 [batch], or None if none are.

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


def check_length(model: PreTrainedModel, tokens: int, new_tokens: int) -> None:
    """Raise ValueError where a prompt and what follows it are more than the model's learned positions."""
    for name in ("n_positions", "max_target_positions"):
        limit = getattr(model.config, name, None)
        if limit is not None and tokens + new_tokens > limit:
            raise ValueError(
                f"{tokens} tokens of prompt and max_new_tokens={new_tokens} are more than the model's {name}={limit}"
            )


class _Request:
    """What is asked for: arguments as :func:`generate`'s."""

    def __init__(
        self, model: PreTrainedModel, input_ids: Tensor, attention_mask: Tensor | None, generator: torch.Generator | None,
        tokenizer: Tokenizer | None,
        generation_config: GenerationConfig | None, compile: bool | None, context: Sequence[Tensor],
        assistant_model: PreTrainedModel | None, options: GenerationOptions,
    ) -> None:  # fmt: skip
        self.model, self.input_ids, self.generator, self.context = model, input_ids, generator, context
        self.assistant = assistant_model
        self.config = (generation_config or model.generation_config).changed(**options)
        if input_ids.ndim != 2 or input_ids.shape[1] == 0:
            raise ValueError(
                f"input_ids must be [batch, tokens] with at least one token, got shape {list(input_ids.shape)}"
            )
        check_length(model, input_ids.shape[1], self.config.new_tokens)
        if assistant_model is not None:
            check_assistant(model, assistant_model, self.config, input_ids, context)
            check_length(assistant_model, input_ids.shape[1], self.config.new_tokens)
        self.endings = Endings(self.config, tokenizer)
        # There is no launch cost to save by capturing, and nothing to read ahead of.
        self.is_on_host = not is_accelerator(input_ids.device)
        self.compile = not self.is_on_host if compile is None else compile
        if self.is_on_host and self.config.do_sample:
            # The host's random numbers are drawn in Python, which no capture repeats.
            self.compile = False
        self.padding = padding_of(attention_mask, input_ids.shape[1])

    def tokens(self, progress: Progress, reads: bool) -> Iterator[tuple[Tensor, list[int]]]:
        """Give the next tokens [batch], one step after the other, and where they are read what they are."""
        if self.assistant is not None:
            yield from self._accepted(self.assistant, progress)
            return
        ids, count = self.input_ids, self.config.new_tokens
        decoder = Decoder(
            self.model,
            self.config,
            ids.shape[0],
            ids.shape[1] + count,
            self.padding,
            self.compile,
            self.context,
            generator=self.generator,
        )
        token = decoder.prefill(ids)
        for index in range(count):
            waiting = torch.webgpu.read_later(token) if reads else None
            is_last, following = index + 1 == count, None
            if not is_last and not (reads and self.is_on_host):
                # The device works on the next token while the host looks at this one.
                following = decoder.advance(token)
            yield token, progress.take(waiting()) if waiting is not None else []
            if is_last or all(progress.ended):
                return
            token = decoder.advance(token) if following is None else following

    def _accepted(self, assistant: PreTrainedModel, progress: Progress) -> Iterator[tuple[Tensor, list[int]]]:
        speculation = Speculation(
            self.model, assistant, self.config, self.input_ids, self.padding, self.compile, self.generator
        )
        for token in speculation.tokens():
            yield torch.tensor([token], device=self.input_ids.device), progress.take([token])
            if all(progress.ended):
                return


def _without_gradients(items: Iterator[T]) -> Iterator[T]:
    """Give an iterator's items; gradients are off while it works, and as they were in between."""
    while True:
        with torch.no_grad():
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


def generate(
    model: PreTrainedModel,
    input_ids: Tensor,
    *,
    attention_mask: Tensor | None = None,
    generator: torch.Generator | None = None,
    tokenizer: Tokenizer | None = None,
    generation_config: GenerationConfig | None = None,
    compile: bool | None = None,
    context: Sequence[Tensor] = (),
    assistant_model: PreTrainedModel | None = None,
    **options: Unpack[GenerationOptions],
) -> Tensor:
    """Continue sequences until they end or ``max_new_tokens`` (20 by default) are added.

    Every step chooses its token on the device and feeds it to the next one there. The host reads a token, once per step, only
    where a sequence can end before; on a device that works on its own it does so while the next step runs.

    Args:
        model: a model of this package, in evaluation mode.
        input_ids: int64 [batch, tokens].
        attention_mask: [batch, tokens], 0 at padding, which must be on the left.
        generator: draws the tokens.
        tokenizer: finds ``stop_strings`` in the text.
        generation_config: the model's own by default.
        compile: capture the decoding step; by default on every device but the CPU.
        context: what the model's encoder made, for a model that has one.
        assistant_model: a smaller model of the same vocabulary that proposes ``num_assistant_tokens`` at a time, which the
            model scores in one pass; greedy tokens are the same as without it, drawn ones are distributed the same.
        options: attributes of :class:`GenerationConfig`, which they override.

    Returns:
        int64 [batch, tokens + new tokens], prompts included; ended sequences are filled with the padding token.

    Raises:
        TypeError: there is no such option.
        ValueError: an option is out of range, the sequence would exceed the model's positions, or ``assistant_model`` cannot
            propose tokens to the model.
    """
    request = _Request(
        model, input_ids, attention_mask, generator, tokenizer, generation_config, compile, context,
        assistant_model, options,
    )  # fmt: skip
    config = request.config
    with torch.no_grad():
        if config.num_beams > 1:
            return beam_search(
                model, input_ids, config, request.endings, request.padding, request.compile, context, generator
            )
        progress = Progress(request.endings, input_ids.shape[0], config.filler)
        chosen = [token for token, _ in request.tokens(progress, bool(request.endings))]
        new = torch.stack(chosen, dim=1)
        if request.endings and min(progress.lengths) < len(chosen):
            lengths = torch.tensor(progress.lengths, device=new.device).unsqueeze(1)
            new = new.masked_fill(torch.arange(len(chosen), device=new.device) >= lengths, config.filler)
        return torch.cat([input_ids, new], dim=1)


def stream(
    model: PreTrainedModel,
    input_ids: Tensor,
    *,
    attention_mask: Tensor | None = None,
    generator: torch.Generator | None = None,
    tokenizer: Tokenizer | None = None,
    generation_config: GenerationConfig | None = None,
    compile: bool | None = None,
    context: Sequence[Tensor] = (),
    assistant_model: PreTrainedModel | None = None,
    **options: Unpack[GenerationOptions],
) -> Iterator[list[int]]:
    """Continue sequences as :func:`generate` does; give the new tokens, one of each sequence, as soon as they are known.

    Raises:
        ValueError: as :func:`generate`; also a beam search, of which nothing is certain before its end.
    """
    request = _Request(
        model, input_ids, attention_mask, generator, tokenizer, generation_config, compile, context,
        assistant_model, options,
    )  # fmt: skip
    if request.config.num_beams > 1:
        raise ValueError(f"num_beams={request.config.num_beams} gives no tokens before its end: use generate")
    progress = Progress(request.endings, input_ids.shape[0], request.config.filler)
    return (values for _, values in _without_gradients(request.tokens(progress, True)))
