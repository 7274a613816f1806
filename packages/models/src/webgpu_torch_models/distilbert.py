"""DistilBERT (Sanh et al., 2019), with the parameter names of Hugging Face's checkpoints."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Dropout, Embedding, LayerNorm, Linear, Module, ModuleList
from webgpu_torch_nn import functional as F

from webgpu_torch_models.config import ClassifierConfig
from webgpu_torch_models.joined import products
from webgpu_torch_models.language import activation, attend, check_heads
from webgpu_torch_models.output import EncoderOutput
from webgpu_torch_models.pretrained import PreTrainedModel
from webgpu_torch_models.text_heads import ClassifyingModel, SpanFinder, TextModel, TokenClassifier

#: its norms' epsilon is not in its configuration
_EPSILON = 1e-12


@dataclasses.dataclass
class DistilBertConfig(ClassifierConfig):
    """Sizes and options, named as in config.json."""

    model_type: ClassVar[str] = "distilbert"

    vocab_size: int = 30522
    max_position_embeddings: int = 512
    n_layers: int = 6
    n_heads: int = 12
    dim: int = 768
    hidden_dim: int = 3072
    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation: str = "gelu"
    initializer_range: float = 0.02
    seq_classif_dropout: float = 0.2
    qa_dropout: float = 0.1
    pad_token_id: int = 0
    tie_word_embeddings: bool = True

    @property
    def hidden_size(self) -> int:
        """The width of the states, by the name that other networks have for it."""
        return self.dim

    @property
    def head_dropout(self) -> float:
        """The probability with which a head's input is dropped."""
        return self.dropout

    def __post_init__(self) -> None:
        check_heads(dim=self.dim, n_heads=self.n_heads)
        activation(self.activation)


class Embeddings(Module):
    """Words and positions, added up and normalised."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.word_embeddings = Embedding(config.vocab_size, config.dim, padding_idx=config.pad_token_id)
        self.position_embeddings = Embedding(config.max_position_embeddings, config.dim)
        self.LayerNorm = LayerNorm(config.dim, eps=_EPSILON)
        self.dropout = Dropout(config.dropout)
        self.limit = config.max_position_embeddings

    def forward(self, input_ids: Tensor) -> Tensor:
        tokens = input_ids.shape[1]
        if tokens > self.limit:
            raise ValueError(f"{tokens} positions are more than the model's max_position_embeddings={self.limit}")
        positions = torch.arange(tokens, device=input_ids.device).unsqueeze(0)
        return self.dropout(self.LayerNorm(self.word_embeddings(input_ids) + self.position_embeddings(positions)))


class SelfAttention(Module):
    """Attention in both directions."""

    joined_maps: ClassVar[tuple[str, ...]] = ("q_lin", "k_lin", "v_lin")

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.n_heads, config.attention_dropout
        self.q_lin = Linear(config.dim, config.dim)
        self.k_lin = Linear(config.dim, config.dim)
        self.v_lin = Linear(config.dim, config.dim)
        self.out_lin = Linear(config.dim, config.dim)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        query, key, value = products(x, (self.q_lin,), (self.k_lin,), (self.v_lin,))
        return self.out_lin(attend(query, key, value, self.heads, mask, dropout))


class FeedForward(Module):
    """Two linear maps with an activation between them."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.lin1 = Linear(config.dim, config.hidden_dim)
        self.lin2 = Linear(config.hidden_dim, config.dim)
        self.activation = activation(config.activation)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.lin2(self.activation(self.lin1(x))))


class TransformerBlock(Module):
    """Attention and then the MLP, each normalised after it was added."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        self.sa_layer_norm = LayerNorm(config.dim, eps=_EPSILON)
        self.ffn = FeedForward(config)
        self.output_layer_norm = LayerNorm(config.dim, eps=_EPSILON)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.sa_layer_norm(self.attention(x, mask) + x)
        return self.output_layer_norm(self.ffn(x) + x)


class DistilBertModel(PreTrainedModel):
    """DistilBERT without a head."""

    config_class = DistilBertConfig
    base_of = "distilbert"

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__(config)
        self.embeddings = Embeddings(config)
        self.transformer = Module()
        self.transformer.layer = ModuleList([TransformerBlock(config) for _ in range(config.n_layers)])
        self.reset_parameters()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> EncoderOutput:
        """Compute each token's state; arguments as :meth:`BertModel.forward`."""
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None]  # (B, 1, 1, T)
        x = self.embeddings(input_ids)  # (B, T, E)
        for layer in self.transformer.layer:
            x = layer(x, mask)
        return EncoderOutput(x)


class DistilBertHead(TextModel):
    """What DistilBERT with a head is loaded from."""

    config_class = DistilBertConfig
    base_class: ClassVar[Any] = DistilBertModel
    pools = None
    base_model_prefix = "distilbert"
    ignored_keys = (r"^vocab_",)


class DistilBertForMaskedLM(DistilBertHead, ClassifyingModel):
    """DistilBERT that names masked words: logits [batch, tokens, vocabulary]."""

    tied_weights: ClassVar[dict[str, str]] = {"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"}
    ignored_keys = ()

    def add_head(self) -> None:
        config = self.config
        self.vocab_transform = Linear(config.dim, config.dim)
        self.vocab_layer_norm = LayerNorm(config.dim, eps=_EPSILON)
        self.vocab_projector = Linear(config.dim, config.vocab_size)
        self.activation = activation(config.activation)

    def logits(self, result: EncoderOutput) -> Tensor:
        inner = self.activation(self.vocab_transform(result.last_hidden_state))
        return self.vocab_projector(self.vocab_layer_norm(inner))


class DistilBertForSequenceClassification(DistilBertHead, ClassifyingModel):
    """DistilBERT that classifies texts: logits [batch, classes]."""

    new_keys = (r"^pre_classifier\.", r"^classifier\.")

    def add_head(self) -> None:
        config = self.config
        self.pre_classifier = Linear(config.dim, config.dim)
        self.classifier = Linear(config.dim, config.num_labels)
        self.dropout = Dropout(config.seq_classif_dropout)

    def logits(self, result: EncoderOutput) -> Tensor:
        inner = F.relu(self.pre_classifier(result.last_hidden_state[:, 0]))  # (B, E)
        return self.classifier(self.dropout(inner))


class DistilBertForTokenClassification(DistilBertHead, TokenClassifier):
    """DistilBERT that classifies tokens: logits [batch, tokens, classes]."""


class DistilBertForQuestionAnswering(DistilBertHead, SpanFinder):
    """DistilBERT that finds answers in texts."""

    def add_head(self) -> None:
        super().add_head()
        self.dropout = Dropout(self.config.qa_dropout)

    def states(self, input_ids: Tensor, attention_mask: Tensor | None, token_type_ids: Tensor | None) -> EncoderOutput:
        result = super().states(input_ids, attention_mask, token_type_ids)
        return EncoderOutput(self.dropout(result.last_hidden_state))
