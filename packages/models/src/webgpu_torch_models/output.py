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
