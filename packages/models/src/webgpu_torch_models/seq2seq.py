"""What networks share that read one sequence and write another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_models.generation import generate, stream
from webgpu_torch_models.pretrained import PreTrainedModel


def shifted_right(labels: Tensor, start: int, padding: int) -> Tensor:
    """Return labels, int64 [batch, tokens], as the decoder reads them: moved by one, from ``start`` on."""
    moved = torch.cat([torch.full_like(labels[:, :1], start), labels[:, :-1]], dim=1)
    return moved.masked_fill(moved == -100, padding)


class Seq2SeqModel(PreTrainedModel):
    """An encoder, and a decoder that reads its result from a cache's context."""

    config: Any

    def context(self, *inputs: Any, **named: Any) -> list[Tensor]:
        """Run the encoder: return what every step of the decoder reads."""
        raise NotImplementedError(f"{type(self).__name__} has no decoder")

    def _read(
        self, input_ids: Tensor, attention_mask: Tensor | None, decoder_input_ids: Tensor | None
    ) -> tuple[Tensor, list[Tensor]]:
        """Return how the written sequences start, and what the encoder made of those read."""
        with torch.no_grad():
            given = (input_ids,) if attention_mask is None else (input_ids, attention_mask)
            context = self.context(*given)
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
