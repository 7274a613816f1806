"""What networks share that predict the next token."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_models.cache import CacheStep, KeyValueCache
from webgpu_torch_models.language import kept_positions, next_token_loss
from webgpu_torch_models.output import CausalLMOutput
from webgpu_torch_models.pretrained import PreTrainedModel


class CausalLM(PreTrainedModel):
    """A decoder with a language-modelling head.

    Attributes:
        head: the name of the head, a linear map.
        softcap: the greatest magnitude of logits, if they are bounded.
    """

    config: Any
    head: str = "lm_head"
    softcap: float | None = None

    def hidden(
        self, input_ids: Tensor, position_ids: Tensor, attention_mask: Tensor | None, step: CacheStep | None
    ) -> Tensor:
        """Return each token's last state, [batch, tokens, width]; arguments as :meth:`forward`'s."""
        raise NotImplementedError(f"{type(self).__name__} says not how it computes states")

    def default_positions(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Return int64 [batch or 1, tokens], counted from a sequence's first token that is no padding."""
        if attention_mask is None:
            return torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        return ((attention_mask != 0).long().cumsum(-1) - 1).clamp(min=0)

    def forward(
        self,
        input_ids: Tensor,
        labels: Tensor | None = None,
        cache: KeyValueCache | CacheStep | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        logits_to_keep: int | Tensor = 0,
    ) -> CausalLMOutput:
        """Compute the logits of the next token at every position.

        Args:
            input_ids: int64 [batch, tokens].
            labels: int64 [batch, tokens], usually ``input_ids``; -100 marks tokens that do not count in the loss.
            cache: tokens seen before; it takes up the new ones.
            attention_mask: [batch, tokens], 0 at padding (without a cache; a cache knows its own padding).
            position_ids: int64 [batch or 1, tokens]; see :meth:`default_positions`.
            logits_to_keep: compute the logits of only that many last positions (0 is all), or of those that int64
                [positions] names.

        Raises:
            ValueError: more positions than the model has.
        """
        step = cache.step(input_ids.shape[1]) if isinstance(cache, KeyValueCache) else cache
        if position_ids is None:
            position_ids = self.default_positions(input_ids, attention_mask) if step is None else step.position_ids
        hidden = kept_positions(self.hidden(input_ids, position_ids, attention_mask, step), logits_to_keep)
        logits = getattr(self, self.head)(hidden)
        if self.softcap is not None:
            logits = torch.tanh(logits / self.softcap) * self.softcap
        loss = None if labels is None else next_token_loss(logits, labels)
        return CausalLMOutput(logits=logits, loss=loss, cache=cache)
