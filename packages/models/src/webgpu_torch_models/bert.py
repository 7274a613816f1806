"""BERT (Devlin et al., 2018), and MiniLM, which has its shape.

Parameter names are those of Hugging Face's checkpoints. In comments B is the batch, T tokens, H heads, D elements of a head,
E the width.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Dropout, Embedding, LayerNorm, Linear, Module, ModuleList, Parameter
from webgpu_torch_nn import functional as F

from webgpu_torch_models.config import ClassifierConfig
from webgpu_torch_models.joined import products
from webgpu_torch_models.language import activation, attend, check_heads
from webgpu_torch_models.output import EncoderOutput
from webgpu_torch_models.pretrained import PreTrainedModel
from webgpu_torch_models.text_heads import ClassifyingModel, SpanFinder, TextModel, TokenClassifier


@dataclasses.dataclass
class BertConfig(ClassifierConfig):
    """Sizes and options, named as in config.json; the defaults are BERT-base's (Devlin et al., 2018)."""

    model_type: ClassVar[str] = "bert"
    #: whether positions are counted from after the padding token's number, which padding has itself
    positions_after_padding: ClassVar[bool] = False

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    classifier_dropout: float | None = None
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0
    tie_word_embeddings: bool = True

    @property
    def head_dropout(self) -> float:
        """The probability with which a head's input is dropped."""
        return self.hidden_dropout_prob if self.classifier_dropout is None else self.classifier_dropout

    def __post_init__(self) -> None:
        check_heads(hidden_size=self.hidden_size, num_attention_heads=self.num_attention_heads)
        activation(self.hidden_act)

    @property
    def longest_text(self) -> int:
        return self.max_position_embeddings - (self.pad_token_id + 1 if self.positions_after_padding else 0)


class BertEmbeddings(Module):
    """Words, positions and segments, added up and normalised."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.position_embeddings = Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.after_padding = config.pad_token_id if config.positions_after_padding else None
        self.limit = config.max_position_embeddings

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None) -> Tensor:
        tokens = input_ids.shape[1] + (0 if self.after_padding is None else self.after_padding + 1)
        if tokens > self.limit:
            raise ValueError(f"{tokens} positions are more than the model's max_position_embeddings={self.limit}")
        kinds = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        x = self.word_embeddings(input_ids) + self.token_type_embeddings(kinds)
        return self.dropout(self.LayerNorm(x + self.position_embeddings(self._positions(input_ids))))

    def _positions(self, input_ids: Tensor) -> Tensor:
        if self.after_padding is None:
            return torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0)
        text = (input_ids != self.after_padding).long()
        return text.cumsum(dim=1) * text + self.after_padding


class BertSelfAttention(Module):
    """Attention in both directions."""

    joined_maps: ClassVar[tuple[str, ...]] = ("query", "key", "value")

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.num_attention_heads, config.attention_probs_dropout_prob
        self.query = Linear(config.hidden_size, config.hidden_size)
        self.key = Linear(config.hidden_size, config.hidden_size)
        self.value = Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        query, key, value = products(x, (self.query,), (self.key,), (self.value,))
        return attend(query, key, value, self.heads, mask, dropout)


class BertOutput(Module):
    """A projection whose result is added to the residual stream and normalised."""

    def __init__(self, inner: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = Linear(inner, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(x)) + residual)


class BertAttention(Module):
    """Attention and its output."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.self = BertSelfAttention(config)
        self.output = BertOutput(config.hidden_size, config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.output(self.self(x, mask), x)


class BertIntermediate(Module):
    """The first half of the MLP."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.intermediate_size)
        self.activation = activation(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.dense(x))


class BertLayer(Module):
    """Attention and then the MLP, each normalised after it was added."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = BertAttention(config)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config.intermediate_size, config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.attention(x, mask)
        return self.output(self.intermediate(x), x)


class BertEncoder(Module):
    """The layers."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = ModuleList([BertLayer(config) for _ in range(config.num_hidden_layers)])

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        for layer in self.layer:
            x = layer(x, mask)
        return x


class BertPooler(Module):
    """What is made of the first token for the whole sequence."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.dense(x[:, 0]))


class BertModel(PreTrainedModel):
    """BERT without a head."""

    config_class = BertConfig
    base_of = "bert"
    ignored_keys = (r"embeddings\.position_ids$",)
    renamed_keys: ClassVar[dict[str, str]] = {r"\.gamma$": ".weight", r"\.beta$": ".bias"}

    def __init__(self, config: BertConfig, add_pooling_layer: bool = True) -> None:
        super().__init__(config)
        self.embeddings = BertEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config) if add_pooling_layer else None
        self.reset_parameters()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> EncoderOutput:
        """Compute each token's state, and the sequence's.

        Args:
            input_ids: int64 [batch, tokens].
            attention_mask: [batch, tokens], 0 at padding.
            token_type_ids: int64 [batch, tokens], the segment of each token.

        Raises:
            ValueError: more positions than the model has.
        """
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None]  # (B, 1, 1, T)
        x = self.encoder(self.embeddings(input_ids, token_type_ids), mask)  # (B, T, E)
        return EncoderOutput(x, None if self.pooler is None else self.pooler(x))


class BertPredictions(Module):
    """The head that names masked words."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.transform = Module()
        self.transform.dense = Linear(config.hidden_size, config.hidden_size)
        self.transform.LayerNorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = Parameter(torch.zeros(config.vocab_size))
        self.decoder = Linear(config.hidden_size, config.vocab_size)
        self.activation = activation(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.transform.LayerNorm(self.activation(self.transform.dense(x))))


class BertHead(TextModel):
    """What BERT with a head is loaded from."""

    config_class = BertConfig
    base_class: ClassVar[Any] = BertModel
    base_model_prefix = "bert"
    # Checkpoints of the pre-training have a second task, and a layer for it.
    ignored_keys = (*BertModel.ignored_keys, r"^cls\.", r"^bert\.pooler\.")
    renamed_keys = BertModel.renamed_keys


class BertForMaskedLM(BertHead, ClassifyingModel):
    """BERT that names masked words: logits [batch, tokens, vocabulary]."""

    tied_weights: ClassVar[dict[str, str]] = {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
    ignored_keys = (*BertModel.ignored_keys, r"^cls\.seq_relationship\.", r"^bert\.pooler\.")

    def add_head(self) -> None:
        self.cls = Module()
        self.cls.predictions = BertPredictions(self.config)

    def logits(self, result: EncoderOutput) -> Tensor:
        return self.cls.predictions(result.last_hidden_state)


class BertForSequenceClassification(BertHead, ClassifyingModel):
    """BERT that classifies texts: logits [batch, classes]."""

    pools = True
    ignored_keys = (*BertModel.ignored_keys, r"^cls\.")
    new_keys = (r"^classifier\.", r"\.pooler\.")

    def add_head(self) -> None:
        config = self.config
        self.dropout = Dropout(config.head_dropout)
        self.classifier = Linear(config.hidden_size, config.num_labels)

    def logits(self, result: EncoderOutput) -> Tensor:
        return self.classifier(self.dropout(result.pooler_output))


class BertForTokenClassification(BertHead, TokenClassifier):
    """BERT that classifies tokens: logits [batch, tokens, classes]."""


class BertForQuestionAnswering(BertHead, SpanFinder):
    """BERT that finds answers in texts."""


def mean_pooling(states: Tensor, attention_mask: Tensor, normalize: bool = True) -> Tensor:
    """Return each text's embedding: the mean of its tokens' states, of length one.

    Args:
        states: [batch, tokens, width], a ``last_hidden_state``.
        attention_mask: [batch, tokens], 0 at padding.
        normalize: whether to divide by the Euclidean length.
    """
    weights = attention_mask.to(states.dtype).unsqueeze(-1)
    mean = (states * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
    return F.normalize(mean, dim=-1) if normalize else mean
