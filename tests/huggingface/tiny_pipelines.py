"""Pipelines of diffusers with small random components, and what they are asked; the same under either torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SIZE, LENGTH, WORDS = 32, 16, 120
PROMPT, NEGATIVE, OTHER = "a red squirrel", "low quality", "2 dogs"


def clip_tokenizer() -> Any:
    """Return a CLIP tokenizer whose words are single letters."""
    from transformers import CLIPTokenizer

    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,:;!?'-+*/()[]<>=_#&%$"
    tokens = [*letters, *(f"{each}</w>" for each in letters), "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    return CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=LENGTH)


def t5_tokenizer() -> Any:
    """Return a T5 tokenizer whose words are single letters."""
    from transformers import T5Tokenizer

    letters = "▁abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,"
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((each, -2.0) for each in letters)]
    return T5Tokenizer(vocab=pieces, extra_ids=0, model_max_length=LENGTH)


def _clip_text(projection: bool = False, width: int = 32, activation: str = "quick_gelu") -> Any:
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    config = CLIPTextConfig(
        bos_token_id=WORDS - 2,
        eos_token_id=WORDS - 1,
        pad_token_id=WORDS - 1,
        hidden_size=width,
        projection_dim=width,
        intermediate_size=37,
        num_attention_heads=4,
        num_hidden_layers=3,
        vocab_size=WORDS,
        max_position_embeddings=LENGTH,
        hidden_act=activation,
    )
    return (CLIPTextModelWithProjection if projection else CLIPTextModel)(config).eval()


def _t5() -> Any:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=80, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4, dropout_rate=0.0)
    return T5EncoderModel(config).eval()


def _vae(latents: int = 4, **options: Any) -> Any:
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        block_out_channels=[8, 16],
        in_channels=3,
        out_channels=3,
        down_block_types=["DownEncoderBlock2D"] * 2,
        up_block_types=["UpDecoderBlock2D"] * 2,
        latent_channels=latents,
        norm_num_groups=4,
        **options,
    ).eval()


def _unet(channels: int = 4, **options: Any) -> Any:
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        **{
            "block_out_channels": (8, 16),
            "layers_per_block": 1,
            "sample_size": SIZE // 2,
            "in_channels": channels,
            "out_channels": 4,
            "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
            "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
            "cross_attention_dim": 32,
            "norm_num_groups": 4,
            "attention_head_dim": 4,
        }
        | options
    ).eval()


def _ddim(**options: Any) -> Any:
    from diffusers import DDIMScheduler

    return DDIMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        set_alpha_to_one=False,
        **options,
    )


def _safety_checker() -> Any:
    from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker
    from transformers import CLIPConfig

    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision |= {"image_size": SIZE, "patch_size": 8, "projection_dim": 16}
    checker = StableDiffusionSafetyChecker(CLIPConfig(projection_dim=16, vision_config=vision)).eval()
    # Nothing is near a concept, as after training; random concepts would blacken every other image.
    checker.concept_embeds_weights.data.fill_(2.0)
    checker.special_care_embeds_weights.data.fill_(2.0)
    return checker


def _image_processor() -> Any:
    from transformers import CLIPImageProcessor

    return CLIPImageProcessor(size=SIZE, crop_size=SIZE)


def _stable_diffusion(kind: str = "StableDiffusionPipeline", **options: Any) -> Any:
    import diffusers

    parts: dict[str, Any] = {
        "unet": _unet(),
        "scheduler": _ddim(steps_offset=1),
        "vae": _vae(),
        "text_encoder": _clip_text(),
    }
    parts |= {"tokenizer": clip_tokenizer(), "safety_checker": None, "feature_extractor": None}
    return getattr(diffusers, kind)(**parts | options, requires_safety_checker=False)


def _xl_unet(**options: Any) -> Any:
    return _unet(**_ADDED | options)


def _stable_diffusion_xl(kind: str = "StableDiffusionXLPipeline", **options: Any) -> Any:
    import diffusers

    scheduler = diffusers.EulerDiscreteScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", steps_offset=1, timestep_spacing="leading"
    )
    parts: dict[str, Any] = {"unet": _xl_unet(), "scheduler": scheduler, "vae": _vae()}
    parts |= {"text_encoder": _clip_text(activation="gelu"), "tokenizer": clip_tokenizer()}
    parts |= {"text_encoder_2": _clip_text(True, activation="gelu"), "tokenizer_2": clip_tokenizer()}
    return getattr(diffusers, kind)(**parts | options)


def _stable_diffusion_3(kind: str = "StableDiffusion3Pipeline", **options: Any) -> Any:
    import diffusers

    transformer = diffusers.SD3Transformer2DModel(
        sample_size=SIZE // 2,
        patch_size=1,
        in_channels=4,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=4,
        joint_attention_dim=32,
        caption_projection_dim=32,
        pooled_projection_dim=64,
        out_channels=4,
        qk_norm="rms_norm",
        dual_attention_layers=(0,),
    )
    vae = _vae(use_quant_conv=False, use_post_quant_conv=False, shift_factor=0.0609, scaling_factor=1.5035)
    parts: dict[str, Any] = {"transformer": transformer.eval(), "vae": vae}
    parts |= {"scheduler": diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0)}
    parts |= {"text_encoder": _clip_text(True, activation="gelu"), "tokenizer": clip_tokenizer()}
    parts |= {"text_encoder_2": _clip_text(True, activation="gelu"), "tokenizer_2": clip_tokenizer()}
    parts |= {"text_encoder_3": _t5(), "tokenizer_3": t5_tokenizer()}
    return getattr(diffusers, kind)(**parts | options)


def _flux(kind: str = "FluxPipeline", **options: Any) -> Any:
    import diffusers

    transformer = diffusers.FluxTransformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=(4, 4, 8),
        guidance_embeds=True,
    )
    vae = _vae(1, use_quant_conv=False, use_post_quant_conv=False, shift_factor=0.0609, scaling_factor=1.5035)
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True)
    parts: dict[str, Any] = {"transformer": transformer.eval(), "vae": vae, "scheduler": scheduler}
    parts |= {"text_encoder": _clip_text(activation="gelu"), "tokenizer": clip_tokenizer()}
    parts |= {"text_encoder_2": _t5(), "tokenizer_2": t5_tokenizer()}
    return getattr(diffusers, kind)(**parts | options)


_ADDED: dict[str, Any] = {
    "attention_head_dim": (2, 4),
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 8,
    "transformer_layers_per_block": (1, 2),
    "projection_class_embeddings_input_dim": 80,
    "cross_attention_dim": 64,
}


def _controlnet(torch: Any, **options: Any) -> Any:
    from diffusers import ControlNetModel

    model = ControlNetModel(
        **{
            "block_out_channels": (8, 16),
            "layers_per_block": 1,
            "in_channels": 4,
            "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
            "cross_attention_dim": 32,
            "attention_head_dim": 4,
            "conditioning_embedding_out_channels": (4, 8),
            "norm_num_groups": 4,
        }
        | options
    ).eval()
    # Control networks begin with convolutions of zero, which would say nothing.
    for name, parameter in model.named_parameters():
        if "controlnet" in name or "conv_out" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def _unconditional() -> Any:
    import diffusers

    unet = diffusers.UNet2DModel(
        sample_size=16,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        attention_head_dim=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    return diffusers.DDPMPipeline(unet.eval(), diffusers.DDPMScheduler())


def _classes() -> Any:
    import diffusers

    transformer = diffusers.DiTTransformer2DModel(
        sample_size=16,
        num_layers=2,
        patch_size=4,
        attention_head_dim=8,
        num_attention_heads=2,
        in_channels=4,
        out_channels=8,
    )
    return diffusers.DiTPipeline(transformer.eval(), _vae(), _ddim())


def _pixart() -> Any:
    import diffusers

    transformer = diffusers.PixArtTransformer2DModel(
        sample_size=16,
        num_layers=2,
        patch_size=2,
        attention_head_dim=8,
        num_attention_heads=3,
        caption_channels=32,
        in_channels=4,
        cross_attention_dim=24,
        out_channels=8,
        use_additional_conditions=False,
    )
    scheduler = diffusers.DPMSolverMultistepScheduler()
    return diffusers.PixArtSigmaPipeline(t5_tokenizer(), _t5(), _vae(), transformer.eval(), scheduler)


def _wan() -> Any:
    import diffusers

    vae = diffusers.AutoencoderKLWan(
        base_dim=4, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True]
    )
    transformer = diffusers.WanTransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=16,
        out_channels=16,
        text_dim=32,
        freq_dim=64,
        ffn_dim=32,
        num_layers=2,
        cross_attn_norm=True,
        qk_norm="rms_norm_across_heads",
        rope_max_seq_len=32,
    )
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(shift=7.0)
    return diffusers.WanPipeline(t5_tokenizer(), _t5(), vae.eval(), scheduler, transformer.eval())


def _motion() -> Any:
    import diffusers

    motion = diffusers.MotionAdapter(
        block_out_channels=(8, 16), motion_layers_per_block=1, motion_norm_num_groups=2, motion_num_attention_heads=4
    )
    return diffusers.AnimateDiffPipeline(
        _vae(), _clip_text(), clip_tokenizer(), _unet(), motion.eval(), _ddim(), None, None
    )


def picture(seed: int = 0, channels: int = 3) -> np.ndarray:
    """Return a smooth picture of bytes."""
    rows, columns = np.mgrid[0:SIZE, 0:SIZE] / SIZE
    waves = [np.sin((seed + each + 2) * (rows + each * columns)) for each in range(channels)]
    return ((np.stack(waves, -1) * 0.5 + 0.5) * 255).astype(np.uint8)


def _pil(seed: int = 0) -> Any:
    from PIL import Image

    return Image.fromarray(picture(seed)).convert("RGB")


def _mask() -> Any:
    from PIL import Image

    mask = np.zeros((SIZE, SIZE), np.uint8)
    mask[8:24, 8:24] = 255
    return Image.fromarray(mask)


def _floats(seed: int = 0) -> np.ndarray:
    return picture(seed).astype(np.float32)[None] / 255


def _float_mask() -> np.ndarray:
    mask = np.zeros((1, SIZE, SIZE, 1), np.float32)
    mask[:, 8:24, 8:24] = 1
    return mask


_TEXT: dict[str, Any] = {"prompt": PROMPT, "negative_prompt": NEGATIVE, "guidance_scale": 6.0, "num_inference_steps": 3}
_SIZED = _TEXT | {"height": SIZE, "width": SIZE}
_FLUX: dict[str, Any] = {
    "prompt": PROMPT,
    "num_inference_steps": 3,
    "guidance_scale": 3.5,
    "height": SIZE,
    "width": SIZE,
}
_FLUX |= {"max_sequence_length": LENGTH}

#: name -> how the pipeline is made (given torch), and what it is asked
PIPELINES: dict[str, tuple[Callable[[Any], Any], Callable[[], dict[str, Any]]]] = {
    "sd": (lambda torch: _stable_diffusion(), lambda: _SIZED),
    "sd-two-images": (
        lambda torch: _stable_diffusion(),
        lambda: _SIZED | {"num_images_per_prompt": 2, "guidance_rescale": 0.5},
    ),
    "sd-safety": (
        lambda torch: _stable_diffusion(safety_checker=_safety_checker(), feature_extractor=_image_processor()),
        lambda: _SIZED,
    ),
    "sd-img2img": (
        lambda torch: _stable_diffusion("StableDiffusionImg2ImgPipeline"),
        lambda: _TEXT | {"image": _pil(), "strength": 0.8},
    ),
    "sd-img2img-numpy": (
        lambda torch: _stable_diffusion("StableDiffusionImg2ImgPipeline"),
        lambda: _TEXT | {"image": _floats(), "strength": 0.8},
    ),
    "sd-inpaint": (
        lambda torch: _stable_diffusion("StableDiffusionInpaintPipeline"),
        lambda: _SIZED | {"image": _pil(), "mask_image": _mask(), "strength": 0.9},
    ),
    "sd-inpaint-9-channels": (
        lambda torch: _stable_diffusion("StableDiffusionInpaintPipeline", unet=_unet(9)),
        lambda: _SIZED | {"image": _pil(), "mask_image": _mask()},
    ),
    "sd-inpaint-numpy": (
        lambda torch: _stable_diffusion("StableDiffusionInpaintPipeline"),
        lambda: _SIZED | {"image": _floats(), "mask_image": _float_mask(), "strength": 0.9},
    ),
    "sd-controlnet": (
        lambda torch: _stable_diffusion("StableDiffusionControlNetPipeline", controlnet=_controlnet(torch)),
        lambda: _TEXT | {"image": _pil(3), "controlnet_conditioning_scale": 0.8},
    ),
    "sdxl": (lambda torch: _stable_diffusion_xl(), lambda: _SIZED),
    "sdxl-img2img": (
        lambda torch: _stable_diffusion_xl("StableDiffusionXLImg2ImgPipeline", unet=_xl_unet()),
        lambda: _TEXT | {"image": _pil(), "strength": 0.8},
    ),
    "sdxl-inpaint": (
        lambda torch: _stable_diffusion_xl("StableDiffusionXLInpaintPipeline"),
        lambda: _SIZED | {"image": _pil(), "mask_image": _mask(), "strength": 0.9},
    ),
    "sd3": (lambda torch: _stable_diffusion_3(), lambda: _SIZED | {"max_sequence_length": LENGTH}),
    "sd3-img2img": (
        lambda torch: _stable_diffusion_3("StableDiffusion3Img2ImgPipeline"),
        lambda: _SIZED | {"image": _pil(), "strength": 0.8, "max_sequence_length": LENGTH},
    ),
    "flux": (lambda torch: _flux(), lambda: _FLUX),
    "flux-img2img": (lambda torch: _flux("FluxImg2ImgPipeline"), lambda: _FLUX | {"image": _pil(), "strength": 0.8}),
    "sdxl-controlnet": (
        lambda torch: _stable_diffusion_xl(
            "StableDiffusionXLControlNetPipeline", controlnet=_controlnet(torch, **_ADDED)
        ),
        lambda: _TEXT | {"image": _pil(3), "controlnet_conditioning_scale": 0.8},
    ),
    "ddpm": (lambda torch: _unconditional(), lambda: {"num_inference_steps": 3}),
    "dit": (lambda torch: _classes(), lambda: {"class_labels": [3], "num_inference_steps": 3}),
    "pixart": (
        lambda torch: _pixart(),
        lambda: _SIZED | {"use_resolution_binning": False, "max_sequence_length": LENGTH, "clean_caption": False},
    ),
    "wan": (lambda torch: _wan(), lambda: _SIZED | {"num_frames": 5, "max_sequence_length": LENGTH}),
    "animatediff": (lambda torch: _motion(), lambda: _SIZED | {"num_frames": 4}),
}
#: pipelines tried with an adapter's weights, too
ADAPTED = ("sd+lora", "sdxl+lora", "flux+lora")


def build(torch: Any, name: str) -> Any:
    """Return a pipeline with weights drawn at random."""
    torch.manual_seed(0)
    pipeline = PIPELINES[name.partition("+")[0]][0](torch)
    for each in pipeline.components.values():
        for key, parameter in each.named_parameters() if hasattr(each, "named_parameters") else ():
            # Last layers small or zero, as training starts with, would leave nothing to compare.
            if "conv_out.weight" in key or "proj_out" in key:
                torch.nn.init.normal_(parameter, std=0.15)
    return pipeline


def asked(name: str) -> dict[str, Any]:
    """Return what a pipeline is called with."""
    return PIPELINES[name.partition("+")[0]][1]()


def write_lora(torch: Any, pipeline: Any, folder: Path) -> None:
    """Write the weights of a random low-rank adapter of a pipeline's networks; the pipeline keeps the adapter."""
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    torch.manual_seed(1)
    kind = "unet" if hasattr(pipeline, "unet") else "transformer"
    targets = {kind: ["to_q", "to_k", "to_v", "to_out.0"], "text_encoder": ["q_proj", "v_proj"]}
    given = {}
    for part, names in targets.items():
        network = getattr(pipeline, part)
        network.add_adapter(LoraConfig(r=4, lora_alpha=4, target_modules=names, init_lora_weights=False))
        given[f"{part}_lora_layers"] = get_peft_model_state_dict(network)
    type(pipeline).save_lora_weights(folder, **given)
