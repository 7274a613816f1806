"""What networks share that read one sequence and write another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_models.cache import CacheStep, KeyValueCache
from webgpu_torch_models.generation import generate, stream
from webgpu_torch_models.pretrained import PreTrainedModel


def shifted_right(labels: Tensor, start: int, padding: int) -> Tensor:
    """Return labels, int64 [batch, tokens], as the decoder reads them: moved by one, from ``start`` on."""
    moved = torch.cat([torch.full_like(labels[:, :1], start), labels[:, :-1]], dim=1)
    return moved.masked_fill(moved == -100, padding)


class Seq2SeqModel(PreTrainedModel):
    """An encoder, and a decoder that reads its result from a cache's context."""

    config: Any
    main_input_name: ClassVar[str] = "input_ids"

    def encode(self, read: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Run the encoder: return states [batch, tokens, width] of what is read; the mask is 0 at padding."""
        raise NotImplementedError(f"{type(self).__name__} has no decoder")

    def context_of(self, states: Tensor, attention_mask: Tensor | None = None) -> list[Tensor]:
        """Return what every step of the decoder reads: keys and values of each layer in turn, and a mask where there is one."""
        raise NotImplementedError(f"{type(self).__name__} has no decoder")

    def parts(
        self, read: Tensor | None, attention_mask: Tensor | None, decoder_input_ids: Tensor | None, labels: Tensor | None,
        cache: KeyValueCache | CacheStep | None,
    ) -> tuple[CacheStep | None, Tensor, Tensor | None, list[Tensor]]:  # fmt: skip
        """Return a call's view of the cache, what is written, the encoder's states, and what the decoder reads of them.

        With a cache, ``read`` is what is written, and the encoder does not run again.

        Raises:
            ValueError: there is nothing to read, or nothing is written.
        """
        if read is None:
            raise ValueError(f"give {self.main_input_name}: what the encoder reads")
        if cache is not None:
            step = cache.step(read.shape[1]) if isinstance(cache, KeyValueCache) else cache
            return step, read, None, list(step.context)
        written = decoder_input_ids
        if written is None and labels is not None:
            written = shifted_right(labels, self.config.start_token_id, self.config.pad_token_id)
        if written is None:
            raise ValueError("give decoder_input_ids or labels: what the decoder has written so far")
        states = self.encode(read, attention_mask)
        return None, written, states, self.context_of(states, attention_mask)

    def _read(
        self, input_ids: Tensor, attention_mask: Tensor | None, decoder_input_ids: Tensor | None
    ) -> tuple[Tensor, list[Tensor]]:
        """Return how the written sequences start, and what the encoder made of those read."""
        with torch.no_grad():
            context = self.context_of(self.encode(input_ids, attention_mask), attention_mask)
            if decoder_input_ids is None:
                decoder_input_ids = torch.full(
                    (input_ids.shape[0], 1), self.config.start_token_id, dtype=torch.int64, device=input_ids.device
                )
            return decoder_input_ids, context

    def generate(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, decoder_input_ids: Tensor | None = None, **options: Any
    ) -> Tensor:  # fmt: skip
        """Write a sequence for each of those given.

        Args:
            input_ids: what the encoder reads; int64 [batch, tokens] for a text.
            attention_mask: [batch, tokens], 0 at padding of what is read.
            decoder_input_ids: int64 [batch, tokens], how the written sequences start; the start token by default.
            options: as :func:`webgpu_torch_models.generation.generate`'s.

        Returns:
            int64 [batch, tokens], from the start token on.
        """
        start, context = self._read(input_ids, attention_mask, decoder_input_ids)
        return generate(self, start, context=context, **options)

    def stream(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, decoder_input_ids: Tensor | None = None, **options: Any
    ) -> Iterator[list[int]]:  # fmt: skip
        """Give the written tokens as they come; arguments as :meth:`generate`'s."""
        start, context = self._read(input_ids, attention_mask, decoder_input_ids)
        return stream(self, start, context=context, **options)
