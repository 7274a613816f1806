"""Decoders with mixtures of experts: Mixtral and Qwen3-MoE. All but the MLP is :mod:`.decoder`'s."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, ClassVar

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Module, Parameter
from webgpu_torch_nn import functional as F

from webgpu_torch_models.decoder import FULL, DecoderConfig, DecoderForCausalLM, DecoderLayer, DecoderModel
from webgpu_torch_models.decoder_families import Qwen3Config
from webgpu_torch_models.language import activation


@dataclasses.dataclass
class MixtralConfig(DecoderConfig):
    """Mixtral (Jiang et al., 2024): a few of several experts per token."""

    model_type: ClassVar[str] = "mixtral"
    #: names in checkpoints: of the layer's mixture, and of an expert's gate, up and down projection
    checkpoint_names: ClassVar[tuple[str, ...]] = ("block_sparse_moe", "w1", "w3", "w2")
    default_theta: ClassVar[float] = 1000000.0

    intermediate_size: int = 14336
    num_key_value_heads: int | None = 8
    max_position_embeddings: int = 131072
    rms_norm_eps: float = 1e-5
    num_experts_per_tok: int = 2
    num_local_experts: int = 8
    norm_topk_prob: bool = True

    @property
    def num_experts(self) -> int:
        """How many experts a layer has."""
        return self.num_local_experts

    @property
    def expert_size(self) -> int:
        """The inner width of an expert."""
        return self.intermediate_size

    def has_experts(self, layer: int) -> bool:
        """Return whether a layer has experts."""
        return True


@dataclasses.dataclass
class Qwen3MoeConfig(Qwen3Config):
    """Qwen3 with experts (Yang et al., 2025)."""

    model_type: ClassVar[str] = "qwen3_moe"
    checkpoint_names: ClassVar[tuple[str, ...]] = ("mlp", "gate_proj", "up_proj", "down_proj")

    hidden_size: int = 2048
    intermediate_size: int = 6144
    num_hidden_layers: int = 24
    num_key_value_heads: int | None = 4
    head_dim: int | None = None
    decoder_sparse_step: int = 1
    moe_intermediate_size: int = 768
    num_experts_per_tok: int = 8
    num_experts: int = 128
    norm_topk_prob: bool = False
    mlp_only_layers: list[int] | None = None

    def __post_init__(self) -> None:
        # Newer versions of Hugging Face's library write it under this name.
        self.num_experts = self.extra.pop("num_local_experts", self.num_experts)
        super().__post_init__()

    def default_layer_type(self, layer: int) -> str:
        """All layers see the same."""
        return FULL if self.sliding_window is None else "sliding_attention"

    @property
    def expert_size(self) -> int:
        """The inner width of an expert."""
        return self.moe_intermediate_size

    def has_experts(self, layer: int) -> bool:
        """Return whether a layer has experts."""
        return layer not in (self.mlp_only_layers or []) and (layer + 1) % self.decoder_sparse_step == 0


class Router(Module):
    """The probability of each expert, of which the largest count."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.chosen, self.normalized = config.num_experts_per_tok, config.norm_topk_prob
        self.weight = Parameter(torch.zeros(config.num_experts, config.hidden_size))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights and numbers of the chosen experts, each [rows, chosen]."""
        probabilities = F.softmax(F.linear(x, self.weight).float(), dim=-1)  # (N, X)
        weights, chosen = torch.topk(probabilities, self.chosen, dim=-1)
        if self.normalized:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        return weights.to(x.dtype), chosen


class Experts(Module):
    """Gated MLPs side by side, as stacked matrices."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        count, width, inner = config.num_experts, config.hidden_size, config.expert_size
        self.gate_up_proj = Parameter(torch.empty(count, 2 * inner, width))
        self.down_proj = Parameter(torch.empty(count, width, inner))
        self.activation = activation(config.hidden_act)

    def forward(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Return each row's weighted sum over its experts.

        Args:
            x: [rows, width].
            weights, chosen: of experts, each [rows, experts per row].
        """
        rows, count = chosen.shape
        # Rows stand in the order of their experts, so that each expert's rows are a group.
        order = torch.argsort(chosen.flatten(), stable=True)
        ends = F.one_hot(chosen.flatten(), self.down_proj.shape[0]).sum(0).cumsum(0).int()
        grouped = x[order // count]  # (N k, E)
        gate, up = F.grouped_mm(grouped, self.gate_up_proj.transpose(1, 2), offs=ends).chunk(2, dim=-1)
        result = F.grouped_mm(self.activation(gate) * up, self.down_proj.transpose(1, 2), offs=ends)
        result = result * weights.flatten()[order].unsqueeze(1)
        return torch.empty_like(result).index_copy(0, order, result).reshape(rows, count, -1).sum(1)


class MixtureOfExperts(Module):
    """A router and its experts, in place of a layer's MLP."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.gate = Router(config)
        self.experts = Experts(config)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])  # (B T, E)
        return self.experts(rows, *self.gate(rows)).reshape(x.shape)


class MixtureModel(DecoderModel):
    """A decoder whose layers have experts where the configuration says so."""

    def make_layer(self, config: Any, layer: int) -> Module:
        """Return one of the layers."""
        return DecoderLayer(config, layer, MixtureOfExperts(config) if config.has_experts(layer) else None)


class MixtureForCausalLM(DecoderForCausalLM):
    """A decoder with experts and a language-modelling head; checkpoints hold each expert's matrices apart."""

    model_class: ClassVar[type[DecoderModel]] = MixtureModel

    def from_checkpoint(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Stack the experts' matrices.

        Raises:
            ValueError: an expert's matrix is missing.
        """
        mixture, *parts = type(self.config).checkpoint_names  # type: ignore[attr-defined]
        pattern = re.compile(rf"(.*\.){mixture}\.experts\.(\d+)\.({'|'.join(parts)})\.weight")
        result: dict[str, Tensor] = {}
        found: dict[str, dict[tuple[int, str], Tensor]] = {}
        for key, value in weights.items():
            match = pattern.fullmatch(key)
            if match is None:
                result[key.replace(f".{mixture}.gate.", ".mlp.gate.")] = value
            else:
                found.setdefault(match[1], {})[int(match[2]), match[3]] = value
        for prefix, matrices in found.items():
            result.update(self._stacked(prefix, matrices, parts))
        return result

    def _stacked(self, prefix: str, matrices: dict[tuple[int, str], Tensor], parts: list[str]) -> dict[str, Tensor]:
        count = self.config.num_experts  # type: ignore[attr-defined]
        missing = [(number, part) for number in range(count) for part in parts if (number, part) not in matrices]
        if missing:
            number, part = missing[0]
            raise ValueError(f"the checkpoint lacks {part} of expert {number} in {prefix.rstrip('.')}")
        gate, up, down = ([matrices[number, part] for number in range(count)] for part in parts)
        both = [torch.cat(pair) for pair in zip(gate, up, strict=True)]
        return {
            f"{prefix}mlp.experts.gate_up_proj": torch.stack(both),
            f"{prefix}mlp.experts.down_proj": torch.stack(down),
        }

    def to_checkpoint(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Take the stacks apart again."""
        mixture, gate, up, down = type(self.config).checkpoint_names  # type: ignore[attr-defined]
        result: dict[str, Tensor] = {}
        for key, value in weights.items():
            prefix, _, stack = key.rpartition("mlp.experts.")
            if not prefix:
                result[key.replace(".mlp.gate.", f".{mixture}.gate.")] = value
                continue
            for number, matrix in enumerate(value):
                names = (down,) if stack == "down_proj" else (gate, up)
                for name, part in zip(names, matrix.chunk(len(names)), strict=True):
                    result[f"{prefix}{mixture}.experts.{number}.{name}.weight"] = part
        return result


class MixtralForCausalLM(MixtureForCausalLM):
    """Mixtral with a language-modelling head."""

    config_class = MixtralConfig


class Qwen3MoeForCausalLM(MixtureForCausalLM):
    """Qwen3-MoE with a language-modelling head."""

    config_class = Qwen3MoeConfig
