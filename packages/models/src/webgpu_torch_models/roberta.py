"""RoBERTa (Liu et al., 2019): BERT with other heads, and positions counted from after the padding token's number."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Dropout, LayerNorm, Linear, Module, Parameter
from webgpu_torch_nn import functional as F

from webgpu_torch_models.bert import BertConfig, BertModel
from webgpu_torch_models.output import EncoderOutput
from webgpu_torch_models.text_heads import ClassifyingModel, SpanFinder, TextModel, TokenClassifier


@dataclasses.dataclass
class RobertaConfig(BertConfig):
    """Sizes and options, named as in config.json; the defaults are RoBERTa-base's."""

    model_type: ClassVar[str] = "roberta"
    positions_after_padding: ClassVar[bool] = True

    vocab_size: int = 50265
    max_position_embeddings: int = 514
    type_vocab_size: int = 1
    layer_norm_eps: float = 1e-5
    pad_token_id: int = 1


class RobertaModel(BertModel):
    """RoBERTa without a head."""

    config_class = RobertaConfig
    base_of = "roberta"


class RobertaPredictions(Module):
    """The head that names masked words."""

    def __init__(self, config: RobertaConfig) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.layer_norm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = Parameter(torch.zeros(config.vocab_size))
        self.decoder = Linear(config.hidden_size, config.vocab_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.layer_norm(F.gelu(self.dense(x))))


class RobertaHead(TextModel):
    """What RoBERTa with a head is loaded from."""

    config_class = RobertaConfig
    base_class: ClassVar[Any] = RobertaModel
    base_model_prefix = "roberta"
    ignored_keys = (*BertModel.ignored_keys, r"^roberta\.pooler\.", r"^lm_head\.")


class RobertaForMaskedLM(RobertaHead, ClassifyingModel):
    """RoBERTa that names masked words: logits [batch, tokens, vocabulary]."""

    tied_weights: ClassVar[dict[str, str]] = {
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    }
    ignored_keys = RobertaHead.ignored_keys[:-1]

    def add_head(self) -> None:
        self.lm_head = RobertaPredictions(self.config)

    def logits(self, result: EncoderOutput) -> Tensor:
        return self.lm_head(result.last_hidden_state)


class RobertaForSequenceClassification(RobertaHead, ClassifyingModel):
    """RoBERTa that classifies texts: logits [batch, classes]."""

    new_keys = (r"^classifier\.",)

    def add_head(self) -> None:
        config = self.config
        self.classifier = Module()
        self.classifier.dense = Linear(config.hidden_size, config.hidden_size)
        self.classifier.out_proj = Linear(config.hidden_size, config.num_labels)
        self.dropout = Dropout(config.head_dropout)

    def logits(self, result: EncoderOutput) -> Tensor:
        inner = torch.tanh(self.classifier.dense(self.dropout(result.last_hidden_state[:, 0])))  # (B, E)
        return self.classifier.out_proj(self.dropout(inner))


class RobertaForTokenClassification(RobertaHead, TokenClassifier):
    """RoBERTa that classifies tokens: logits [batch, tokens, classes]."""


class RobertaForQuestionAnswering(RobertaHead, SpanFinder):
    """RoBERTa that finds answers in texts."""
