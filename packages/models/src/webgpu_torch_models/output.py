"""What models return."""

from __future__ import annotations

import dataclasses
from typing import Any

from webgpu_torch_core import Tensor


@dataclasses.dataclass
class CausalLMOutput:
    """The result of a language model.

    Attributes:
        logits: [batch, tokens, vocabulary].
        loss: mean cross-entropy of the next tokens, if labels were given.
        cache: the cache that was given.
    """

    logits: Tensor
    loss: Tensor | None = None
    cache: Any = None


@dataclasses.dataclass
class EncoderOutput:
    """The result of a network without a head.

    Attributes:
        last_hidden_state: [batch, tokens, width].
        pooler_output: [batch, width], of the whole sequence, where the network has such a layer.
    """

    last_hidden_state: Tensor
    pooler_output: Tensor | None = None


@dataclasses.dataclass
class LogitsOutput:
    """The result of a network with a head.

    Attributes:
        logits: [batch, classes], or [batch, tokens, classes] where every token has its own.
        loss: cross-entropy, if labels were given.
    """

    logits: Tensor
    loss: Tensor | None = None
