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
        hidden_states: what went into each layer and came out of the last one, if they were asked for.
    """

    last_hidden_state: Tensor
    pooler_output: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None


@dataclasses.dataclass
class LogitsOutput:
    """The result of a network with a head.

    Attributes:
        logits: [batch, classes], or [batch, tokens, classes] where every token has its own.
        loss: cross-entropy, if labels were given.
    """

    logits: Tensor
    loss: Tensor | None = None


@dataclasses.dataclass
class SpanOutput:
    """The result of a network that finds an answer in a text.

    Attributes:
        start_logits: [batch, tokens], that the answer starts at a token.
        end_logits: [batch, tokens], that it ends with a token.
        loss: mean cross-entropy of both, if positions were given.
    """

    start_logits: Tensor
    end_logits: Tensor
    loss: Tensor | None = None


@dataclasses.dataclass
class Seq2SeqOutput:
    """The result of a network that reads one sequence and writes another.

    Attributes:
        logits: [batch, tokens, vocabulary], of the written sequence.
        encoder_last_hidden_state: [batch, tokens read, width].
        loss: cross-entropy of the labels, if they were given.
        cache: the cache that was given.
    """

    logits: Tensor
    encoder_last_hidden_state: Tensor | None = None
    loss: Tensor | None = None
    cache: Any = None


@dataclasses.dataclass
class PairOutput:
    """The result of a network that compares images and texts.

    Attributes:
        logits_per_image: [images, texts], how well they fit each other.
        logits_per_text: the same, transposed.
        text_embeds: [texts, width], of length one.
        image_embeds: [images, width], of length one.
    """

    logits_per_image: Tensor
    logits_per_text: Tensor
    text_embeds: Tensor
    image_embeds: Tensor
