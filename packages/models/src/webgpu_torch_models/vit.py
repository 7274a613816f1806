"""Vision transformers: ViT (Dosovitskiy et al., 2020), DeiT (Touvron et al., 2020), DINOv2 (Oquab et al., 2023).

Parameter names are those of Hugging Face's checkpoints. In comments B is the batch, T tokens (patches and what stands before
them), E the width.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Conv2d, Dropout, Identity, LayerNorm, Linear, Module, ModuleList, Parameter
from webgpu_torch_nn import functional as F

from webgpu_torch_models.config import ClassifierConfig
from webgpu_torch_models.joined import products
from webgpu_torch_models.language import activation, attend, check_heads, classification_loss
from webgpu_torch_models.output import EncoderOutput, LogitsOutput
from webgpu_torch_models.pretrained import PreTrainedModel
from webgpu_torch_models.vision import interpolated_positions


@dataclasses.dataclass
class ViTConfig(ClassifierConfig):
    """Sizes and options, named as in config.json; the defaults are ViT-B/16's."""

    model_type: ClassVar[str] = "vit"
    #: tokens before the patches
    leading_tokens: ClassVar[int] = 1

    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    image_size: int = 224
    patch_size: int = 16
    num_channels: int = 3
    qkv_bias: bool = True

    def __post_init__(self) -> None:
        check_heads(hidden_size=self.hidden_size, num_attention_heads=self.num_attention_heads)
        activation(self.hidden_act)


@dataclasses.dataclass
class DeiTConfig(ViTConfig):
    """DeiT: a second token learns from a teacher."""

    model_type: ClassVar[str] = "deit"
    leading_tokens: ClassVar[int] = 2


@dataclasses.dataclass
class Dinov2Config(ViTConfig):
    """DINOv2: branches are scaled."""

    model_type: ClassVar[str] = "dinov2"

    mlp_ratio: int = 4
    layer_norm_eps: float = 1e-6
    patch_size: int = 14
    layerscale_value: float = 1.0
    use_swiglu_ffn: bool = False
    use_mask_token: bool = True


class ViTEmbeddings(Module):
    """Patches, the tokens before them, and positions."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.patch, self.channels = config.patch_size, config.num_channels
        self.cls_token = Parameter(torch.zeros(1, 1, config.hidden_size))
        if config.leading_tokens == 2:
            self.distillation_token = Parameter(torch.zeros(1, 1, config.hidden_size))
        if isinstance(config, Dinov2Config) and config.use_mask_token:
            # Stands for hidden patches in the training of DINOv2; kept so that checkpoints keep it.
            self.mask_token = Parameter(torch.zeros(1, config.hidden_size))
        self.patch_embeddings = Module()
        self.patch_embeddings.projection = Conv2d(
            config.num_channels, config.hidden_size, config.patch_size, config.patch_size
        )
        count = (config.image_size // config.patch_size) ** 2 + config.leading_tokens
        self.position_embeddings = Parameter(torch.zeros(1, count, config.hidden_size))
        self.leading = config.leading_tokens
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, pixel_values: Tensor) -> Tensor:
        batch, channels, height, width = pixel_values.shape
        if channels != self.channels or height < self.patch or width < self.patch:
            raise ValueError(
                f"pixel_values must be [batch, {self.channels}, height, width] with at least one patch of "
                f"{self.patch}x{self.patch}, got {list(pixel_values.shape)}"
            )
        patches = self.patch_embeddings.projection(pixel_values).flatten(2).transpose(1, 2)  # (B, T, E)
        tokens = [self.cls_token, self.distillation_token] if self.leading == 2 else [self.cls_token]
        x = torch.cat([*(each.expand(batch, -1, -1) for each in tokens), patches], dim=1)
        grid = (height // self.patch, width // self.patch)
        return self.dropout(x + interpolated_positions(self.position_embeddings, grid, self.leading))


class ViTAttention(Module):
    """Attention among all tokens."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads, self.dropout = config.num_attention_heads, config.attention_probs_dropout_prob
        self.attention, self.output = Module(), Module()
        for name in ("query", "key", "value"):
            setattr(self.attention, name, Linear(width, width, bias=config.qkv_bias))
        self.attention.joined_maps = ("query", "key", "value")
        self.output.dense = Linear(width, width)
        self.after = Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor) -> Tensor:
        own = self.attention
        dropout = self.dropout if self.training else 0.0
        query, key, value = products(x, (own.query,), (own.key,), (own.value,))
        return self.after(self.output.dense(attend(query, key, value, self.heads, dropout=dropout)))


class ViTLayer(Module):
    """Attention and then the MLP, each on the normalised input and added to it."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.attention = ViTAttention(config)
        self.intermediate, self.output = Module(), Module()
        self.intermediate.dense = Linear(config.hidden_size, config.intermediate_size)
        self.output.dense = Linear(config.intermediate_size, config.hidden_size)
        self.layernorm_before = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.layernorm_after = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.activation = activation(config.hidden_act)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.layernorm_before(x))
        return x + self.dropout(self.output.dense(self.activation(self.intermediate.dense(self.layernorm_after(x)))))


class LayerScale(Module):
    """A learned factor for each channel of a branch."""

    def __init__(self, config: Dinov2Config) -> None:
        super().__init__()
        self.lambda1 = Parameter(torch.full((config.hidden_size,), config.layerscale_value))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.lambda1


class Dinov2MLP(Module):
    """Two linear maps with an activation between them, or with a gate."""

    def __init__(self, config: Dinov2Config) -> None:
        super().__init__()
        inner = config.hidden_size * config.mlp_ratio
        self.gated = config.use_swiglu_ffn
        if self.gated:
            # Two thirds of the inner width, in multiples of eight.
            inner = (inner * 2 // 3 + 7) // 8 * 8
            self.weights_in = Linear(config.hidden_size, 2 * inner)
            self.weights_out = Linear(inner, config.hidden_size)
        else:
            self.fc1 = Linear(config.hidden_size, inner)
            self.fc2 = Linear(inner, config.hidden_size)
        self.activation = activation(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        if not self.gated:
            return self.fc2(self.activation(self.fc1(x)))
        gate, up = self.weights_in(x).chunk(2, dim=-1)
        return self.weights_out(F.silu(gate) * up)


class Dinov2Layer(Module):
    """Attention and then the MLP, each on the normalised input, scaled and added to it."""

    def __init__(self, config: Dinov2Config) -> None:
        super().__init__()
        self.norm1 = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.attention = ViTAttention(config)
        self.layer_scale1 = LayerScale(config)
        self.norm2 = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.mlp = Dinov2MLP(config)
        self.layer_scale2 = LayerScale(config)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.layer_scale1(self.attention(self.norm1(x)))
        return x + self.layer_scale2(self.mlp(self.norm2(x)))


class ViTModel(PreTrainedModel):
    """A vision transformer without a head."""

    config_class: ClassVar[Any] = ViTConfig
    base_of = "vit"
    layer_class: ClassVar[Any] = ViTLayer
    new_keys = (r"^pooler\.",)

    def __init__(self, config: ViTConfig, add_pooling_layer: bool = True) -> None:
        super().__init__(config)
        self.embeddings = ViTEmbeddings(config)
        self.encoder = Module()
        self.encoder.layer = ModuleList([self.layer_class(config) for _ in range(config.num_hidden_layers)])
        self.layernorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.pooler = Module() if add_pooling_layer else None
        if self.pooler is not None:
            self.pooler.dense = Linear(config.hidden_size, config.hidden_size)
        self.reset_parameters()

    def forward(self, pixel_values: Tensor) -> EncoderOutput:
        """Compute each token's state, and the image's.

        Args:
            pixel_values: [batch, channels, height, width]; other sizes than the model's are interpolated.

        Raises:
            ValueError: wrong channels, or not one patch.
        """
        x = self.embeddings(pixel_values)
        for layer in self.encoder.layer:
            x = layer(x)
        x = self.layernorm(x)
        return EncoderOutput(x, self._pooled(x))

    def _pooled(self, x: Tensor) -> Tensor | None:
        return None if self.pooler is None else torch.tanh(self.pooler.dense(x[:, 0]))


class DeiTModel(ViTModel):
    """DeiT without a head."""

    config_class = DeiTConfig
    base_of = "deit"


class Dinov2Model(ViTModel):
    """DINOv2 without a head; the class token's state is the image's."""

    config_class = Dinov2Config
    base_of = "dinov2"
    layer_class = Dinov2Layer

    def __init__(self, config: Dinov2Config) -> None:
        super().__init__(config, add_pooling_layer=False)

    def _pooled(self, x: Tensor) -> Tensor | None:
        return x[:, 0]


class _ImageClassifier(PreTrainedModel):
    """A network for images with a head that classifies."""

    new_keys = (r"classifier\.",)
    ignored_keys = (r"\.pooler\.",)

    def head(self, width: int) -> Module:
        """Return a head for states of that width."""
        labels = self.config.num_labels
        return Linear(width, labels) if labels else Identity()

    def logits(self, states: Tensor) -> Tensor:
        """Return logits [batch, classes] for states [batch, tokens, width]."""
        raise NotImplementedError

    def forward(self, pixel_values: Tensor, labels: Tensor | None = None) -> LogitsOutput:
        """Compute logits [batch, classes].

        Args:
            pixel_values: [batch, channels, height, width].
            labels: int64 [batch].
        """
        states = getattr(self, self.base_model_prefix)(pixel_values).last_hidden_state
        logits = self.logits(states)
        return LogitsOutput(logits, classification_loss(logits, labels))


class ViTForImageClassification(_ImageClassifier):
    """ViT that classifies images."""

    config_class: ClassVar[Any] = ViTConfig
    base_model_prefix = "vit"

    def __init__(self, config: ViTConfig) -> None:
        super().__init__(config)
        self.vit = ViTModel(config, add_pooling_layer=False)
        self.classifier = self.head(config.hidden_size)
        self.reset_parameters()

    def logits(self, states: Tensor) -> Tensor:
        return self.classifier(states[:, 0])


class DeiTForImageClassification(_ImageClassifier):
    """DeiT that classifies images by its class token."""

    config_class: ClassVar[Any] = DeiTConfig
    base_model_prefix = "deit"
    ignored_keys = (*_ImageClassifier.ignored_keys, r"^distillation_classifier\.")
    renamed_keys: ClassVar[dict[str, str]] = {r"^cls_classifier\.": "classifier."}

    def __init__(self, config: DeiTConfig) -> None:
        super().__init__(config)
        self.deit = DeiTModel(config, add_pooling_layer=False)
        self.classifier = self.head(config.hidden_size)
        self.reset_parameters()

    def logits(self, states: Tensor) -> Tensor:
        return self.classifier(states[:, 0])


class DeiTForImageClassificationWithTeacher(_ImageClassifier):
    """DeiT that classifies images by both its tokens."""

    config_class: ClassVar[Any] = DeiTConfig
    base_model_prefix = "deit"

    def __init__(self, config: DeiTConfig) -> None:
        super().__init__(config)
        self.deit = DeiTModel(config, add_pooling_layer=False)
        self.cls_classifier = self.head(config.hidden_size)
        self.distillation_classifier = self.head(config.hidden_size)
        self.reset_parameters()

    def logits(self, states: Tensor) -> Tensor:
        return (self.cls_classifier(states[:, 0]) + self.distillation_classifier(states[:, 1])) / 2


class Dinov2ForImageClassification(_ImageClassifier):
    """DINOv2 that classifies images by its class token and the mean of the patches."""

    config_class: ClassVar[Any] = Dinov2Config
    base_model_prefix = "dinov2"

    def __init__(self, config: Dinov2Config) -> None:
        super().__init__(config)
        self.dinov2 = Dinov2Model(config)
        self.classifier = self.head(2 * config.hidden_size)
        self.reset_parameters()

    def logits(self, states: Tensor) -> Tensor:
        return self.classifier(torch.cat([states[:, 0], states[:, 1:].mean(dim=1)], dim=1))
