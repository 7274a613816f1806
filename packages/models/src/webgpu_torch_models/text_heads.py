"""What is made of a text's states: classes of the text, classes of its tokens, where an answer lies in it, masked words."""

from __future__ import annotations

from typing import Any, ClassVar

from webgpu_torch_core import Tensor
from webgpu_torch_nn import Dropout, Linear

from webgpu_torch_models.config import ModelConfig
from webgpu_torch_models.language import classification_loss
from webgpu_torch_models.output import EncoderOutput, LogitsOutput, SpanOutput
from webgpu_torch_models.pretrained import PreTrainedModel


class TextModel(PreTrainedModel):
    """A network for texts, and what is made of its states.

    Class attributes:
        base_class: the network's class; it stands under ``base_model_prefix``.
        pools: whether the head reads what the network's pooling layer makes of a text; None where it never has one.
    """

    base_class: ClassVar[Any]
    pools: ClassVar[bool | None] = False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        more = {} if self.pools is None else {"add_pooling_layer": self.pools}
        setattr(self, self.base_model_prefix, self.base_class(config, **more))
        self.add_head()
        self.reset_parameters()
        self.tie_weights()

    def add_head(self) -> None:
        """Make the head's layers."""
        raise NotImplementedError

    def states(self, input_ids: Tensor, attention_mask: Tensor | None, token_type_ids: Tensor | None) -> EncoderOutput:
        """Run the network; segments are only given to one that has some."""
        more = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        return getattr(self, self.base_model_prefix)(input_ids, attention_mask, **more)


class ClassifyingModel(TextModel):
    """A network for texts with a head that gives logits."""

    def logits(self, result: EncoderOutput) -> Tensor:
        """Return the head's logits of what the network gave."""
        raise NotImplementedError

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> LogitsOutput:  # fmt: skip
        """Compute logits of each text, or of each of its tokens.

        Args:
            input_ids: int64 [batch, tokens].
            attention_mask: [batch, tokens], 0 at padding.
            token_type_ids: int64 [batch, tokens], the segment of each token, where the network has segments.
            labels: int64 [batch], or [batch, tokens] with -100 where nothing is asked.
        """
        logits = self.logits(self.states(input_ids, attention_mask, token_type_ids))
        return LogitsOutput(logits, classification_loss(logits, labels))


class TokenClassifier(ClassifyingModel):
    """A head that classifies tokens."""

    new_keys = (r"^classifier\.",)

    def add_head(self) -> None:
        self.dropout = Dropout(self.config.head_dropout)
        self.classifier = Linear(self.config.hidden_size, self.config.num_labels)

    def logits(self, result: EncoderOutput) -> Tensor:
        return self.classifier(self.dropout(result.last_hidden_state))


class SpanFinder(TextModel):
    """A head that says where in a text the answer to a question is."""

    new_keys = (r"^qa_outputs\.",)

    def add_head(self) -> None:
        self.qa_outputs = Linear(self.config.hidden_size, 2)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None,
        start_positions: Tensor | None = None, end_positions: Tensor | None = None,
    ) -> SpanOutput:  # fmt: skip
        """Compute logits of where an answer starts and ends, each [batch, tokens].

        Args:
            input_ids: int64 [batch, tokens], question and text.
            attention_mask: [batch, tokens], 0 at padding.
            token_type_ids: int64 [batch, tokens], the segment of each token, where the network has segments.
            start_positions, end_positions: int64 [batch], the numbers of the answer's first and last token; -100 for none.

        Raises:
            ValueError: only one of the positions is given.
        """
        if (start_positions is None) != (end_positions is None):
            raise ValueError("give both start_positions and end_positions, or neither")
        states = self.states(input_ids, attention_mask, token_type_ids).last_hidden_state
        start, end = self.qa_outputs(states).unbind(-1)  # (B, T) each
        first, last = classification_loss(start, start_positions), classification_loss(end, end_positions)
        return SpanOutput(start, end, None if first is None or last is None else (first + last) / 2)
