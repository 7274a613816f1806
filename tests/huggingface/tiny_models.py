"""Every architecture of transformers at a few thousand parameters, and inputs that fit it; the same under either torch."""

from __future__ import annotations

import inspect
import random
import re
from typing import Any

import numpy as np

#: attribute-name pattern -> small value; the first that matches the name of an integer of a configuration decides
SMALL = (
    (r"vocab_size", 120),
    (r"n_groups?$|num_expert_group$", 2),
    (r"topk_group$|attn_layer_offset$", 1),
    (r"attn_layer_period$|layer_group_size$", 2),
    (r"mamba_d_head|mamba_head_dim", 16),
    (r"num_kv_shared_layers", 0),
    (
        r"(^|_)(num_)?(hidden_layers|layers|n_layers?|n_layer|num_layers|encoder_layers|decoder_layers|num_blocks|depth)$",
        2,
    ),
    (r"layers?$|num_hidden_groups$|n_layers", 2),
    (r"kv_heads$|key_value_heads$|num_key_value|n_kv_head", 2),
    (r"heads?$|n_head$|attention_heads", 4),
    (r"rotary_dim$", 8),
    (r"d_ssm$", 64),
    (r"d_state$|state_size$|chunk_size$", 16),
    (r"head_dim$|d_kv$|kv_channels|head_size|key_dim$|value_head_dim", 8),
    (r"num_(local_)?experts$|n_routed_experts|moe_num_experts|num_experts", 4),
    (r"experts_per_tok$|top_k$|moe_k|num_selected", 2),
    (r"intermediate|ffn|inner|d_ff|feedforward|mlp_dim|encoder_hidden_size_ff|dim_feedforward", 48),
    (r"max_position|n_positions|max_seq_len|n_ctx|max_sequence|max_source|max_target", 128),
    (
        r"hidden_size$|hidden_size_per_layer_input|d_model$|n_embd$|embed_dim$|hidden_dim$|^dim$|d_embed$|embedding_size$|projection_dim$|width$|_dim$|hidden_sizes?$",
        32,
    ),
    (r"rank$", 8),
    (r"image_size$", 32),
    (r"patch_size$", 8),
    (r"num_mel_bins|n_mels|feature_size|input_feat_per_channel", 16),
)
#: the same for lists with one entry per stage
SMALL_STAGES = (
    (r"depths$|layer_depths|num_blocks$|stage_num_blocks", 1),
    (r"hidden_sizes$|embed_dims$|dims$|channels$|widths$", 32),
)
KEEP = re.compile(
    r"token_id|_id$|num_labels|num_channels|in_channels|kernel|stride|padding|index|conv_bias|dropout|eps|factor|rope_theta"
)
MAXIMUM_PARAMETERS = 20_000_000
BATCH, LENGTH = 2, 8
#: spread of random weights at which layers of these widths keep their signals' size; attention is far from uniform then
SPREAD = 0.2
#: kind of automatic class by the prefix of an architecture's name
KINDS = {"base": "AutoModel", "lm": "AutoModelForCausalLM", "seq2seq": "AutoModelForSeq2SeqLM"}
#: ways to generate tokens, as arguments of ``generate``
GENERATION: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beam": {"num_beams": 3},
    "static": {"cache_implementation": "static", "disable_compile": True},
}
NEW_TOKENS = 6


def shrink(config: Any, stages: bool = False, seen: set[int] | None = None) -> Any:
    """Make a configuration's sizes small, in place, and those of the configurations inside it; its stages' if asked."""
    seen = set() if seen is None else seen
    if id(config) in seen:
        return config
    seen.add(id(config))
    layers = vars(config).get("num_hidden_layers")
    if "_heterogeneity_spec" in vars(config):
        # Sizes of single layers that are gone: all get the common ones.
        config.per_layer_config = {}
    for name, value in list(vars(config).items()):
        if hasattr(value, "to_dict") and not name.startswith("_"):
            shrink(value, stages, seen)
        elif isinstance(value, list | tuple) and isinstance(layers, int) and len(value) == layers > 4:
            # One entry per layer: the two that stay differ where any do.
            small, kept = _small(name), (value[0], next((each for each in value if each != value[0]), value[-1]))
            setattr(config, name, [min(each, small) if small and each.__class__ is int else each for each in kept])
        elif isinstance(value, list | tuple) and value and all(each.__class__ is int for each in value):
            small = next((small for pattern, small in SMALL_STAGES if re.search(pattern, name)), None)
            if name.endswith("heads"):
                setattr(config, name, [min(each, 2) for each in value])
            elif small is not None and stages:
                setattr(config, name, [min(each, small) for each in value])
        elif name in ("initializer_range", "init_std"):
            setattr(config, name, SPREAD)
        elif name == "pad_token_id":
            config.pad_token_id = None if value is None else min(value, 1)
        elif isinstance(value, bool) or not isinstance(value, int) or name.startswith("_") or KEEP.search(name):
            continue
        else:
            small = _small(name)
            if small is not None and value > small:
                setattr(config, name, small)
    _reconcile(config)
    return config


def _small(name: str) -> int | None:
    return next((small for pattern, small in SMALL if re.search(pattern, name)), None)


def _reconcile(config: Any) -> None:
    """Set sizes that follow from others, where a configuration stores them."""
    own = vars(config)
    if "qk_head_dim" in own and "qk_rope_head_dim" in own and "qk_nope_head_dim" in own:
        config.qk_head_dim = config.qk_nope_head_dim + config.qk_rope_head_dim
        if "head_dim" in own:
            config.head_dim = config.qk_rope_head_dim
    if "kv_lora_rank" in own and "num_key_value_heads" in own:
        config.num_key_value_heads = config.num_attention_heads
    if {"state_size", "expand", "num_heads", "head_dim"} <= set(own):
        config.head_dim = config.expand * config.hidden_size // config.num_heads
    if "mamba_d_ssm" in own and "mamba_d_head" in own:
        config.mamba_d_head = config.mamba_d_ssm // config.mamba_n_heads
    stages = own.get("stage_names")
    if stages and isinstance(own.get("num_hidden_layers"), int) and len(stages) > config.num_hidden_layers + 1 > 1:
        config.stage_names = stages[: config.num_hidden_layers + 1]
        config._out_features, config._out_indices = [config.stage_names[-1]], [len(config.stage_names) - 1]
    if "attn_layer_indices" in own:
        config.attn_layer_indices = [1]


def _shorten_lists(config: Any) -> None:
    """Cut lists of one entry per layer to the number of layers."""
    layers = getattr(config, "num_hidden_layers", None)
    for name in (
        "layer_types",
        "layers_block_type",
        "mlp_layer_types",
        "block_types",
        "attention_layers",
        "no_rope_layers",
    ):
        value = getattr(config, name, None)
        if isinstance(value, list | tuple) and isinstance(layers, int) and len(value) > layers:
            setattr(config, name, type(value)(value[:layers]))
    for value in vars(config).values():
        if hasattr(value, "to_dict"):
            _shorten_lists(value)


def names() -> list[str]:
    """Return ``kind.model_type`` for every base model, causal language model and sequence-to-sequence model."""
    from transformers.models.auto import modeling_auto as auto

    listed = {
        "base": auto.MODEL_MAPPING_NAMES,
        "lm": auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        "seq2seq": auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    }
    return [f"{kind}.{each}" for kind, mapping in listed.items() for each in sorted(mapping)]


def automatic_class(name: str) -> Any:
    """Return the class of transformers that builds and loads an architecture."""
    import transformers

    return getattr(transformers, KINDS[name.partition(".")[0]])


def tiny_config(name: str, stages: bool = False) -> Any:
    """Return the small configuration of an architecture; with small stages too if asked."""
    from transformers import AutoConfig

    config = shrink(AutoConfig.for_model(name.partition(".")[2]), stages)
    _shorten_lists(config)
    return config


def build(name: str, config: Any) -> Any:
    """Return a model with weights drawn at random."""
    return automatic_class(name).from_config(config, attn_implementation="eager").eval()


def generate(torch: Any, model: Any, input_ids: Any, mode: str) -> np.ndarray:
    """Return the tokens that a model generates after the ones given, in one of the ways of :data:`GENERATION`."""
    seed_everything(torch)
    if model.config.is_encoder_decoder and model.generation_config.decoder_start_token_id is None:
        model.generation_config.decoder_start_token_id = 0
    tokens = model.generate(
        input_ids=input_ids,
        attention_mask=torch.ones_like(input_ids),
        max_new_tokens=NEW_TOKENS,
        do_sample=False,
        **GENERATION[mode],
    )
    return tokens.cpu().numpy()


def _size(config: Any, *names: str, default: int) -> int:
    for name in names:
        for place in (config, *(value for value in vars(config).values() if hasattr(value, "to_dict"))):
            value = getattr(place, name, None)
            if isinstance(value, list | tuple) and value:
                value = value[0]
            if isinstance(value, int):
                return value
    return default


def inputs(config: Any, forward: Any, main_input: str) -> dict[str, np.ndarray]:
    """Return arrays for a model's forward: the main input, and what else it cannot do without."""
    generator = np.random.default_rng(0)
    parameters = inspect.signature(forward).parameters
    vocabulary = _size(config, "vocab_size", default=100)
    ids = generator.integers(3, min(vocabulary, 100), (BATCH, LENGTH))
    channels, image = _size(config, "num_channels", "in_channels", default=3), _size(config, "image_size", default=32)
    mels = _size(config, "num_mel_bins", "input_feat_per_channel", "feature_size", default=16)
    made: dict[str, Any] = {
        "input_ids": ids,
        "decoder_input_ids": ids[:, :4],
        "pixel_values": generator.standard_normal((BATCH, channels, image, image)).astype(np.float32),
        "input_features": generator.standard_normal(
            (BATCH, mels, 2 * _size(config, "max_source_positions", default=32))
        ),
        "input_values": generator.standard_normal((BATCH, 4000)).astype(np.float32),
        "bbox": np.sort(generator.integers(0, 30, (BATCH, LENGTH, 4)), -1),
    }
    chosen = {}
    for each in parameters:
        required = parameters[each].default is inspect.Parameter.empty
        if each in made and (each == main_input or required or each in ("decoder_input_ids", "bbox", "pixel_values")):
            chosen[each] = made[each]
    if "input_ids" in parameters and not chosen:
        chosen["input_ids"] = ids
    if main_input == "input_ids":
        chosen.pop("pixel_values", None) if "input_ids" not in chosen else None
        if "pixel_values" in chosen and parameters["pixel_values"].default is not inspect.Parameter.empty:
            # Models of text and images need both only where there is no text-only way; CLIP and its kin do.
            if not re.search(
                "clip|siglip|align|flava|groupvit|owl|vilt|blip|bridgetower", type(config).__name__.lower()
            ):
                del chosen["pixel_values"]
    return {key: value.astype(np.float32) if value.dtype == np.float64 else value for key, value in chosen.items()}


def seed_everything(torch: Any) -> None:
    """Start every source of random numbers."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def outputs(result: Any, prefix: str = "") -> dict[str, Any]:
    """Return the floating-point tensors of a model's result by path."""
    found: dict[str, Any] = {}
    items = (
        result.items() if hasattr(result, "items") else enumerate(result) if isinstance(result, list | tuple) else ()
    )
    if hasattr(result, "is_floating_point"):
        if result.is_floating_point():
            found[prefix or "."] = result
    for key, value in items:
        found.update(outputs(value, f"{prefix}.{key}"))
    return found
