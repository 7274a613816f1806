"""CLIP (Radford et al., 2021) and SigLIP (Zhai et al., 2023): a network for texts and one for images, made to agree.

Parameter names are those of Hugging Face's checkpoints. In comments B is the batch, T tokens or patches, E the width.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Conv2d, Embedding, LayerNorm, Linear, Module, ModuleList, MultiheadAttention, Parameter
from webgpu_torch_nn import functional as F

from webgpu_torch_models.config import ModelConfig
from webgpu_torch_models.joined import products
from webgpu_torch_models.language import activation, attend, causal_mask, check_heads
from webgpu_torch_models.output import EncoderOutput, PairOutput
from webgpu_torch_models.pretrained import PreTrainedModel
from webgpu_torch_models.vision import interpolated_positions


@dataclasses.dataclass
class TowerConfig(ModelConfig):
    """What both networks have; the defaults are CLIP ViT-B/32's."""

    hidden_size: int = 512
    intermediate_size: int = 2048
    num_hidden_layers: int = 12
    num_attention_heads: int = 8
    hidden_act: str = "quick_gelu"
    layer_norm_eps: float = 1e-5
    attention_dropout: float = 0.0
    initializer_range: float = 0.02
    projection_dim: int = 512

    def __post_init__(self) -> None:
        check_heads(hidden_size=self.hidden_size, num_attention_heads=self.num_attention_heads)
        activation(self.hidden_act)


@dataclasses.dataclass
class CLIPTextConfig(TowerConfig):
    """The network for texts."""

    model_type: ClassVar[str] = "clip_text_model"
    is_causal: ClassVar[bool] = True

    vocab_size: int = 49408
    max_position_embeddings: int = 77
    eos_token_id: int | None = 49407


@dataclasses.dataclass
class CLIPVisionConfig(TowerConfig):
    """The network for images."""

    model_type: ClassVar[str] = "clip_vision_model"

    hidden_size: int = 768
    intermediate_size: int = 3072
    num_attention_heads: int = 12
    num_channels: int = 3
    image_size: int = 224
    patch_size: int = 32


@dataclasses.dataclass
class SiglipTextConfig(CLIPTextConfig):
    """SigLIP's network for texts: attention in both directions, the last token stands for the text."""

    model_type: ClassVar[str] = "siglip_text_model"
    is_causal: ClassVar[bool] = False

    vocab_size: int = 32000
    hidden_size: int = 768
    intermediate_size: int = 3072
    num_attention_heads: int = 12
    max_position_embeddings: int = 64
    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6
    projection_size: int | None = None


@dataclasses.dataclass
class SiglipVisionConfig(CLIPVisionConfig):
    """SigLIP's network for images: no class token, attention pools the patches."""

    model_type: ClassVar[str] = "siglip_vision_model"

    patch_size: int = 16
    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6


@dataclasses.dataclass
class CLIPConfig(ModelConfig):
    """Both networks' configurations."""

    model_type: ClassVar[str] = "clip"
    parts: ClassVar[tuple[type[CLIPTextConfig], type[CLIPVisionConfig]]] = (CLIPTextConfig, CLIPVisionConfig)

    text_config: Any = None
    vision_config: Any = None
    projection_dim: int = 512
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        for name, part in zip(("text_config", "vision_config"), self.parts, strict=True):
            given = getattr(self, name)
            setattr(self, name, part.from_dict(given or {}) if given is None or isinstance(given, dict) else given)

    def to_dict(self) -> dict[str, Any]:
        parts = {name: getattr(self, name).to_dict() for name in ("text_config", "vision_config")}
        return {**super().to_dict(), **parts}


@dataclasses.dataclass
class SiglipConfig(CLIPConfig):
    """Both networks' configurations."""

    model_type: ClassVar[str] = "siglip"
    parts: ClassVar[tuple[type[CLIPTextConfig], type[CLIPVisionConfig]]] = (SiglipTextConfig, SiglipVisionConfig)


class TowerAttention(Module):
    """Self-attention with several heads."""

    joined_maps: ClassVar[tuple[str, ...]] = ("q_proj", "k_proj", "v_proj")

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads, self.dropout = config.num_attention_heads, config.attention_dropout
        self.k_proj, self.v_proj = Linear(width, width), Linear(width, width)
        self.q_proj, self.out_proj = Linear(width, width), Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        query, key, value = products(x, (self.q_proj,), (self.k_proj,), (self.v_proj,))
        dropout = self.dropout if self.training else 0.0
        return self.out_proj(attend(query, key, value, self.heads, mask, dropout, is_causal and mask is None))


class TowerMLP(Module):
    """Two linear maps with an activation between them."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.fc1 = Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = Linear(config.intermediate_size, config.hidden_size)
        self.activation = activation(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.activation(self.fc1(x)))


class TowerLayer(Module):
    """Attention and then the MLP, each on the normalised input and added to it."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.self_attn = TowerAttention(config)
        self.layer_norm1 = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.mlp = TowerMLP(config)
        self.layer_norm2 = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, x: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        x = x + self.self_attn(self.layer_norm1(x), mask, is_causal)
        return x + self.mlp(self.layer_norm2(x))


class TowerEncoder(Module):
    """The layers."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.layers = ModuleList([TowerLayer(config) for _ in range(config.num_hidden_layers)])

    def forward(self, x: Tensor, mask: Tensor | None = None, is_causal: bool = False) -> list[Tensor]:
        """Return what went into each layer, and what came out of the last one."""
        states = [x]
        for layer in self.layers:
            states.append(layer(states[-1], mask, is_causal))
        return states


class TextEmbeddings(Module):
    """Tokens and positions."""

    def __init__(self, config: CLIPTextConfig) -> None:
        super().__init__()
        self.token_embedding = Embedding(config.vocab_size, config.hidden_size)
        self.position_embedding = Embedding(config.max_position_embeddings, config.hidden_size)

    def forward(self, input_ids: Tensor) -> Tensor:
        tokens, limit = input_ids.shape[1], self.position_embedding.num_embeddings
        if tokens > limit:
            raise ValueError(f"{tokens} tokens are more than the model's max_position_embeddings={limit}")
        return self.token_embedding(input_ids) + self.position_embedding.weight[:tokens]


class CLIPTextModel(PreTrainedModel):
    """The network for texts."""

    config_class: ClassVar[Any] = CLIPTextConfig
    base_of = "text_model"
    ignored_keys = (r"embeddings\.position_ids$", r"^vision_model\.", r"_projection\.", r"^logit_")

    def __init__(self, config: CLIPTextConfig) -> None:
        super().__init__(config)
        self.embeddings = TextEmbeddings(config)
        self.encoder = TowerEncoder(config)
        self.final_layer_norm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        if not config.is_causal:
            projection = getattr(config, "projection_size", None) or config.hidden_size
            self.head = Linear(config.hidden_size, projection)
        self.reset_parameters()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, output_hidden_states: bool = False
    ) -> EncoderOutput:
        """Compute each token's state, and the text's: that of its end token.

        Args:
            input_ids: int64 [batch, tokens].
            attention_mask: [batch, tokens], 0 at padding.
            output_hidden_states: return the states between the layers, too.
        """
        causal = self.config.is_causal
        mask = None
        if attention_mask is not None:
            mask = causal_mask(attention_mask) if causal else (attention_mask != 0)[:, None, None]
        states = self.encoder(self.embeddings(input_ids), mask, causal)
        last = self.final_layer_norm(states[-1])  # (B, T, E)
        if causal:
            rows = torch.arange(input_ids.shape[0], device=input_ids.device)
            pooled = last[rows, self._ends(input_ids)]
        else:
            pooled = self.head(last[:, -1])
        return EncoderOutput(last, pooled, tuple(states) if output_hidden_states else None)

    def _ends(self, input_ids: Tensor) -> Tensor:
        # Old configurations name a wrong token: there the end is the largest one.
        if self.config.eos_token_id == 2:
            return input_ids.argmax(dim=-1)
        return (input_ids == self.config.eos_token_id).int().argmax(dim=-1)


class VisionEmbeddings(Module):
    """Patches and positions; CLIP's begin with a class token."""

    def __init__(self, config: CLIPVisionConfig, has_class_token: bool) -> None:
        super().__init__()
        self.size, self.patch = config.image_size, config.patch_size
        self.has_class_token = has_class_token
        if has_class_token:
            self.class_embedding = Parameter(torch.zeros(config.hidden_size))
        self.patch_embedding = Conv2d(
            config.num_channels, config.hidden_size, config.patch_size, config.patch_size, bias=not has_class_token
        )
        count = (config.image_size // config.patch_size) ** 2 + has_class_token
        self.position_embedding = Embedding(count, config.hidden_size)

    def forward(self, pixel_values: Tensor) -> Tensor:
        x = self.patch_embedding(pixel_values).flatten(2).transpose(1, 2)  # (B, T, E)
        if self.has_class_token:
            x = torch.cat([self.class_embedding.expand(x.shape[0], 1, -1), x], dim=1)
        else:
            x = x.contiguous()  # all layers add to it
        grid = (pixel_values.shape[2] // self.patch, pixel_values.shape[3] // self.patch)
        positions = self.position_embedding.weight.unsqueeze(0)
        return x + interpolated_positions(positions, grid, int(self.has_class_token))


class PoolingHead(Module):
    """What SigLIP makes of the patches: one token attends to them."""

    def __init__(self, config: CLIPVisionConfig) -> None:
        super().__init__()
        self.probe = Parameter(torch.zeros(1, 1, config.hidden_size))
        self.attention = MultiheadAttention(config.hidden_size, config.num_attention_heads, batch_first=True)
        self.layernorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.mlp = TowerMLP(config)

    def forward(self, x: Tensor) -> Tensor:
        pooled = self.attention(self.probe.expand(x.shape[0], -1, -1), x, x, need_weights=False)[0]
        return (pooled + self.mlp(self.layernorm(pooled)))[:, 0]


class CLIPVisionModel(PreTrainedModel):
    """The network for images."""

    config_class: ClassVar[Any] = CLIPVisionConfig
    base_of = "vision_model"
    ignored_keys = (r"embeddings\.position_ids$", r"^text_model\.", r"_projection\.", r"^logit_")

    def __init__(self, config: CLIPVisionConfig) -> None:
        super().__init__(config)
        self.is_siglip = isinstance(config, SiglipVisionConfig)
        self.embeddings = VisionEmbeddings(config, not self.is_siglip)
        if not self.is_siglip:
            # The name is the checkpoints'.
            self.pre_layrnorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.encoder = TowerEncoder(config)
        self.post_layernorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        if self.is_siglip:
            self.head = PoolingHead(config)
        self.reset_parameters()

    def forward(self, pixel_values: Tensor, output_hidden_states: bool = False) -> EncoderOutput:
        """Compute each patch's state, and the image's.

        Args:
            pixel_values: [batch, channels, height, width], whole patches; other sizes than the model's are interpolated.
            output_hidden_states: return the states between the layers, too.
        """
        x = self.embeddings(pixel_values)
        states = self.encoder(x if self.is_siglip else self.pre_layrnorm(x))
        kept = tuple(states) if output_hidden_states else None
        if self.is_siglip:
            last = self.post_layernorm(states[-1])
            return EncoderOutput(last, self.head(last), kept)
        return EncoderOutput(states[-1], self.post_layernorm(states[-1][:, 0]), kept)


class CLIPTextModelWithProjection(PreTrainedModel):
    """The network for texts, and the projection into the common space: what Stable Diffusion XL reads texts with."""

    config_class: ClassVar[Any] = CLIPTextConfig
    ignored_keys = CLIPTextModel.ignored_keys[:2]

    def __init__(self, config: CLIPTextConfig) -> None:
        super().__init__(config)
        self.text_model = CLIPTextModel(config)
        self.text_projection = Linear(config.hidden_size, config.projection_dim, bias=False)
        self.reset_parameters()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, output_hidden_states: bool = False
    ) -> EncoderOutput:
        """As :meth:`CLIPTextModel.forward`; ``pooler_output`` is projected."""
        result = self.text_model(input_ids, attention_mask, output_hidden_states)
        return dataclasses.replace(result, pooler_output=self.text_projection(result.pooler_output))


class CLIPModel(PreTrainedModel):
    """Both networks, and how well an image and a text fit each other."""

    config_class: ClassVar[Any] = CLIPConfig
    ignored_keys = (r"embeddings\.position_ids$",)

    def __init__(self, config: CLIPConfig) -> None:
        super().__init__(config)
        self.text_model = CLIPTextModel(config.text_config)
        self.vision_model = CLIPVisionModel(config.vision_config)
        self.is_siglip = isinstance(config, SiglipConfig)
        self.logit_scale = Parameter(torch.full((1,) if self.is_siglip else (), 2.6592))
        if self.is_siglip:
            self.logit_bias = Parameter(torch.zeros(1))
        else:
            self.visual_projection = Linear(config.vision_config.hidden_size, config.projection_dim, bias=False)
            self.text_projection = Linear(config.text_config.hidden_size, config.projection_dim, bias=False)
        self.reset_parameters()

    def get_text_features(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Return the texts' embeddings [batch, width]."""
        pooled = self.text_model(input_ids, attention_mask).pooler_output
        return pooled if self.is_siglip else self.text_projection(pooled)

    def get_image_features(self, pixel_values: Tensor) -> Tensor:
        """Return the images' embeddings [batch, width]."""
        pooled = self.vision_model(pixel_values).pooler_output
        return pooled if self.is_siglip else self.visual_projection(pooled)

    def forward(self, input_ids: Tensor, pixel_values: Tensor, attention_mask: Tensor | None = None) -> PairOutput:
        """Compare every image with every text; arguments as the two networks'."""
        texts = F.normalize(self.get_text_features(input_ids, attention_mask), dim=-1)
        images = F.normalize(self.get_image_features(pixel_values), dim=-1)
        logits = texts @ images.t() * self.logit_scale.exp()
        logits = logits + self.logit_bias if self.is_siglip else logits
        return PairOutput(logits.t(), logits, texts, images)


class SiglipModel(CLIPModel):
    """SigLIP: both networks."""

    config_class = SiglipConfig


class SiglipTextModel(CLIPTextModel):
    """SigLIP's network for texts."""

    config_class = SiglipTextConfig


class SiglipVisionModel(CLIPVisionModel):
    """SigLIP's network for images."""

    config_class = SiglipVisionConfig
