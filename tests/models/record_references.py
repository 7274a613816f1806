"""Record what Hugging Face's libraries compute for tiny models: ``python tests/models/record_references.py [names]``."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import diffusers
import pipeline_cases as pipelines
import reference_cases as cases
import torch
import transformers
from diffusers.loaders.single_file_utils import convert_ldm_unet_checkpoint, convert_ldm_vae_checkpoint
from safetensors.torch import load_file, save_file


def write(name: str, config: dict[str, Any], shapes: dict[str, list[int]], outputs: dict[str, torch.Tensor]) -> None:
    """Write a case's files."""
    text = json.dumps({"config": config, "weights": shapes}, sort_keys=True, separators=(",", ":"))
    (cases.FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    save_file({key: value.contiguous() for key, value in outputs.items()}, cases.FOLDER / f"{name}.safetensors")
    print(name, {key: list(value.shape) for key, value in outputs.items()})


def with_drawn_weights(model: Any, folder: Path, scale: float) -> tuple[Any, dict[str, Any], dict[str, list[int]]]:
    """Return the model loaded again with drawn weights, its config.json and its checkpoint's names and shapes."""
    model.save_pretrained(folder)
    file = folder / "model.safetensors"
    shapes = {key: list(value.shape) for key, value in sorted(load_file(file).items())}
    save_file(cases.weights(torch, shapes, scale), file, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config.pop("transformers_version", None)
    loaded = type(model).from_pretrained(folder, attn_implementation="eager")
    return loaded.eval(), config, shapes


def record_decoder(name: str) -> None:
    """Record logits with and without padding, and 20 greedy tokens."""
    family = cases.DECODERS[name][0]
    configuration = "Gemma3TextConfig" if family == "Gemma3" else f"{family}Config"
    config = getattr(transformers, configuration)(**cases.decoder_options(name))
    model = getattr(transformers, f"{family}LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM")(config)
    ids, mask = cases.tokens(torch)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model, written, shapes = with_drawn_weights(model, Path(folder), 1.5)
        # GPT-2 counts positions from the start, padding included, unless it is told them.
        positions = None if family == "GPT2" else (mask.cumsum(-1) - 1).clamp(min=0)
        outputs = {
            "logits": model(ids).logits,
            "masked_logits": model(ids, attention_mask=mask, position_ids=positions).logits,
            "generated": model.generate(
                ids, attention_mask=mask, do_sample=False, max_new_tokens=20, min_new_tokens=20, pad_token_id=0
            ),
        }
    write(name, written, shapes, outputs)


def record_encoder(name: str) -> None:
    """Record states or logits, with padding at the end."""
    kind, options = cases.ENCODERS[name]
    architecture = kind.partition("For")[0].removesuffix("Model")
    model = getattr(transformers, kind)(getattr(transformers, f"{architecture}Config")(**options))
    ids, mask = cases.tokens(torch)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model, written, shapes = with_drawn_weights(model, Path(folder), 1.5)
        result = model(ids.flip(1), attention_mask=mask.flip(1))
    write(name, written, shapes, {key: value for key, value in result.items() if isinstance(value, torch.Tensor)})


def record_seq2seq(name: str) -> None:
    """Record logits of a written text, and 12 greedy tokens, with padding at the end of what is read."""
    kind, options = cases.SEQ2SEQ[name]
    config = getattr(transformers, f"{kind.partition('For')[0]}Config")(**options)
    model = getattr(transformers, kind)(config)
    ids, mask = (each.flip(1) for each in cases.tokens(torch))
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model, written, shapes = with_drawn_weights(model, Path(folder), 1.5)
        result = model(ids, attention_mask=mask, decoder_input_ids=ids[:, :5])
        tokens = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=12, min_new_tokens=12)
    outputs = {"logits": result.logits, "states": result.encoder_last_hidden_state, "generated": tokens}
    write(name, written, shapes, outputs)


def record_generations(name: str) -> None:
    """Record the tokens of every way to choose them."""
    outputs = {}
    for case, (model_name, options) in cases.GENERATIONS.items():
        recorded = cases.description(model_name)
        seq2seq = model_name in cases.SEQ2SEQ
        kind = transformers.AutoModelForSeq2SeqLM if seq2seq else transformers.AutoModelForCausalLM
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            (Path(folder) / "config.json").write_text(json.dumps(recorded["config"]))
            save_file(
                cases.weights(torch, recorded["weights"], 1.5),
                Path(folder) / "model.safetensors",
                metadata={"format": "pt"},
            )
            model = kind.from_pretrained(folder, attn_implementation="eager").eval()
            ids, mask = cases.tokens(torch)
            if seq2seq:
                ids, mask = ids.flip(1), mask.flip(1)
            torch.manual_seed(5)
            generated = model.generate(ids, attention_mask=mask, max_new_tokens=20, **options)
        outputs[case] = generated.contiguous()
        print(case, outputs[case].tolist())
    save_file(outputs, cases.FOLDER / f"{name}.safetensors")


def record_lora(name: str) -> None:
    """Record logits of a decoder with peft's adapter, and of GPT-2 whose maps are transposed."""
    import peft

    outputs, described = {}, {}
    for case, (model_name, options) in cases.ADAPTERS.items():
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            if model_name == "gpt2":
                model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**cases.GPT2)).eval()
                shapes = {
                    key: list(value.shape) for key, value in model.state_dict().items() if key != "lm_head.weight"
                }
                model.load_state_dict(cases.weights(torch, shapes, 1.5), strict=False)
                model.tie_weights()
                described["gpt2"] = {"config": {**cases.GPT2, "model_type": "gpt2"}, "weights": shapes}
            else:
                recorded = cases.description(model_name)
                (Path(folder) / "config.json").write_text(json.dumps(recorded["config"]))
                drawn = cases.weights(torch, recorded["weights"], 1.5)
                save_file(drawn, Path(folder) / "model.safetensors", metadata={"format": "pt"})
                model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
            adapted = peft.get_peft_model(model, peft.LoraConfig(**options)).eval()
            adapted.save_pretrained(Path(folder) / "adapter")
            config = json.loads((Path(folder) / "adapter" / "adapter_config.json").read_text())
            file = Path(folder) / "adapter" / "adapter_model.safetensors"
            shapes = {key: list(value.shape) for key, value in load_file(file).items()}
            drawn = cases.weights(torch, shapes)
            peft.set_peft_model_state_dict(adapted, drawn)
            outputs[case] = adapted(cases.tokens(torch)[0]).logits
        described[case] = {"config": config, "weights": shapes}
    (cases.FOLDER / f"{name}.json").write_text(json.dumps(described, sort_keys=True, separators=(",", ":")) + "\n")
    save_file({key: value.contiguous() for key, value in outputs.items()}, cases.FOLDER / f"{name}.safetensors")


def record_gguf(name: str) -> None:
    """Record blocks of random bits and the numbers that llama.cpp's own package reads in them."""
    import gguf
    import numpy

    random, outputs = numpy.random.default_rng(0), {}
    for kind, (nbytes, halves) in cases.GGUF_BLOCKS.items():
        blocks = random.integers(0, 256, (6, nbytes), dtype=numpy.uint8)
        for at in halves:
            # Scales of random bits would be infinite at times.
            drawn = random.normal(size=(6, 1)).astype(numpy.float16)
            blocks[:, at : at + 2] = drawn.view(numpy.uint8)
        numbers = gguf.quants.dequantize(blocks, getattr(gguf.GGMLQuantizationType, kind))
        outputs[f"{kind}.blocks"] = torch.from_numpy(blocks)
        outputs[f"{kind}.numbers"] = torch.from_numpy(numbers.astype(numpy.float32))
    save_file(outputs, cases.FOLDER / f"{name}.safetensors")


def record_vision(name: str) -> None:
    """Record what a model for images, texts or both returns."""
    kind, options, given = cases.VISION[name]
    model = getattr(transformers, kind)
    model = model(model.config_class(**options))
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model, written, shapes = with_drawn_weights(model, Path(folder), 1.5)
        more = {"interpolate_pos_encoding": True} if "large_images" in given else {}
        result = model(**cases.inputs(torch, given), **more)
    names = ("last_hidden_state", "pooler_output", "logits", "logits_per_image", "text_embeds", "image_embeds")
    result = dict(result)
    if kind == "CLIPTextModelWithProjection":
        result["pooler_output"] = result.pop("text_embeds")
    write(name, written, shapes, {key: value for key, value in result.items() if key in names})


def record_whisper(name: str) -> None:
    """Record logits of a written text, the encoder's states, and 12 greedy tokens chosen from the logits alone."""
    model = transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**cases.WHISPERS[name]))
    ids, _ = cases.tokens(torch)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model, written, shapes = with_drawn_weights(model, Path(folder), 1.5)
        heard = cases.features(torch, 2 * model.config.max_source_positions)
        result = model(heard, decoder_input_ids=ids[:, :5])
        # The library's own generation forces and forbids tokens of the real vocabulary.
        text = torch.full((2, 1), 3)
        for _ in range(12):
            text = torch.cat([text, model(heard, decoder_input_ids=text).logits[:, -1:].argmax(-1)], dim=1)
    outputs = {"logits": result.logits, "states": result.encoder_last_hidden_state, "generated": text}
    write(name, written, shapes, outputs)


def record_times(name: str) -> None:
    """Record which tokens Whisper's rules of times leave after texts of every length, and the segments of the texts."""
    from transformers.generation.logits_process import WhisperTimeStampLogitsProcessor
    from transformers.models.whisper.generation_whisper import WhisperGenerationMixin

    texts = cases.timed_texts(torch)
    processor = WhisperTimeStampLogitsProcessor(transformers.GenerationConfig(**cases.TIMED), 1)
    scores = torch.randn((texts.shape[1], len(texts), 97), generator=torch.Generator().manual_seed(4)) * 1.5
    left = [processor(texts[:, :length], scores[length - 1]) > -float("inf") for length in range(1, texts.shape[1] + 1)]
    first, segments = cases.TIMED["no_timestamps_token_id"] + 1, []
    for text in texts[:, 1:]:
        found, heard = WhisperGenerationMixin._retrieve_segment(
            text, [{}], torch.zeros(1, dtype=torch.float64), first, [100], 0.02, 0.01, 2, 0, 0, False, texts[:1, :1]
        )
        bounds = [round(float(each[end]) / 0.02) for each in found for end in ("start", "end")]
        segments.append([int(heard) // 2, len(found), *bounds, *[0] * (14 - len(bounds))])
    outputs = {"left": torch.stack(left).to(torch.uint8), "segments": torch.tensor(segments)}
    save_file(outputs, cases.FOLDER / f"{name}.safetensors")


def record_diffusion(name: str) -> None:
    """Record what a network of diffusion returns."""
    kind, options = cases.DIFFUSION[name]
    model = getattr(diffusers, kind)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model(**options).save_pretrained(folder)
        file = Path(folder) / "diffusion_pytorch_model.safetensors"
        shapes = {key: list(value.shape) for key, value in sorted(load_file(file).items())}
        save_file(cases.weights(torch, shapes), file)
        loaded = model.from_pretrained(folder).eval()
        config = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        given = cases.diffusion_inputs(torch, name)
        if kind == "AutoencoderKL":
            latents = loaded.encode(given["images"]).latent_dist
            outputs = {"mean": latents.mean, "deviation": latents.std, "decoded": loaded.decode(latents.mean).sample}
        else:
            outputs = {"sample": loaded(**given).sample}
    write(name, config, shapes, outputs)


def record_schedulers(name: str) -> None:
    """Record the timesteps and the images after every step, of a network that pretends."""
    outputs = {}
    for number, (kind, options) in enumerate(cases.SCHEDULERS):
        for steps in cases.STEPS:
            scheduler = getattr(diffusers, kind)(**options)
            scheduler.set_timesteps(steps, **({"mu": 0.7} if options.get("use_dynamic_shifting") else {}))
            start, draws = torch.Generator().manual_seed(6), torch.Generator().manual_seed(7)
            sample, bias = (torch.randn((1, 2, 3, 3), generator=start) for _ in range(2))
            sample, seen = sample * float(getattr(scheduler, "init_noise_sigma", 1.0)), []
            random = {"generator": draws} if "generator" in signature(scheduler.step).parameters else {}
            for timestep in scheduler.timesteps:
                scale = getattr(scheduler, "scale_model_input", lambda each, _: each)
                output = cases.pretended(scale(sample, timestep), bias, float(timestep))
                sample = scheduler.step(output, timestep, sample, **random).prev_sample
                seen.append(sample)
            outputs[f"{number}.{steps}.samples"] = torch.stack(seen)
            outputs[f"{number}.{steps}.timesteps"] = scheduler.timesteps.double()
    save_file(outputs, cases.FOLDER / f"{name}.safetensors")


def shifted_decode(vae: Any, decode: Any, latents: torch.Tensor, **options: Any) -> Any:
    """Decode latents that are scaled back, but not shifted."""
    return decode(latents + vae.config.shift_factor, **options)


def pipeline_parts(name: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return a pipeline's parts with drawn weights, written to a folder; their configurations, and the weights' shapes."""
    configs: dict[str, Any] = {}
    shapes: dict[str, Any] = {}
    # Parts that it has not are none.
    names = [f"{part}{end}" for part in ("text_encoder", "tokenizer") for end in ("", "_2", "_3")]
    parts = dict.fromkeys([*names, "safety_checker", "feature_extractor"])
    for part, (model, sizes) in pipelines.PIPELINES[name].items():
        library = transformers if "text" in part else diffusers
        model = getattr(library, model)
        made = model(model.config_class(**sizes)) if library is transformers else model(**sizes)
        made.save_pretrained(folder / part)
        file = next((folder / part).glob("*.safetensors"))
        shapes[part] = {key: list(value.shape) for key, value in sorted(load_file(file).items())}
        save_file(cases.weights(torch, shapes[part]), file, metadata={"format": "pt"})
        configs[part] = json.loads((folder / part / "config.json").read_text(encoding="utf-8"))
        parts[part] = model.from_pretrained(folder / part).eval()
        if library is transformers:
            pipelines.write_tokenizer_of(part, model.__name__, folder)
            tokenizer = part.replace("text_encoder", "tokenizer")
            is_clip = model.__name__.startswith("CLIP")
            reader = transformers.CLIPTokenizer if is_clip else transformers.AutoTokenizer
            parts[tokenizer] = reader.from_pretrained(folder / tokenizer)
    _, scheduler, options = pipelines.KINDS[name]
    parts["scheduler"] = getattr(diffusers, scheduler)(**options)
    return parts | pipelines.TOLD.get(name, {}), configs, shapes


def made_of(parts: dict[str, Any], kind: str) -> Any:
    """Return a pipeline of diffusers with those of the parts that it has."""
    made = getattr(diffusers, kind)
    pipeline = made(**{key: value for key, value in parts.items() if key in signature(made).parameters})
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def record_pipeline(name: str) -> None:
    """Record the weights' names, and the images that diffusers' pipelines make."""
    outputs = {}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        parts, configs, shapes = pipeline_parts(name, Path(folder))
        for case, (task, given) in pipelines.CALLS[name].items():
            pipeline = made_of(parts, f"{pipelines.KINDS[name][0]}{task}Pipeline")
            given = pipelines.given(torch, given)
            given = {key: value for key, value in given.items() if key in signature(pipeline.__call__).parameters}
            if isinstance(pipeline, diffusers.StableDiffusion3InpaintPipeline):
                # This one forgets the latents' shift, which the others undo.
                pipeline.vae.decode = partial(shifted_decode, pipeline.vae, pipeline.vae.decode)
            draws = torch.Generator().manual_seed(8)
            images = pipeline(pipelines.PROMPTS, num_inference_steps=6, generator=draws, output_type="pt", **given)
            outputs[case] = images.images
    write(name, configs, shapes, outputs)


def record_adapted(name: str) -> None:
    """Record images that pipelines make with adapters, and the adapters' shapes."""
    outputs, described = {}, {}
    for case, (model, maps) in pipelines.ADAPTERS.items():
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            parts, _, _ = pipeline_parts(model, Path(folder))
            pipeline = made_of(parts, f"{pipelines.KINDS[model][0]}Pipeline")
            named = cases.description("single_file")[model]["unet"]
            sizes = {}
            for part, module in maps:
                here = named.get(f"model.diffusion_model.{module}.weight", f"{module}.weight").removesuffix(".weight")
                part_name = {
                    "lora_unet": "unet",
                    "lora_te": "text_encoder",
                    "lora_te1": "text_encoder",
                    "lora_te2": "text_encoder_2",
                }.get(part, part)
                network = parts[part_name]
                known = dict(network.named_modules())
                shape = list((known.get(here) or known[here.removeprefix("text_model.")]).weight.shape)
                sizes[f"{part}.{module}"] = [2, *shape[1:]], [shape[0], 2, *[1] * (len(shape) - 2)]
            pipeline.load_lora_weights(pipelines.adapter(torch, case, sizes))
            draws = torch.Generator().manual_seed(8)
            given = {"height": 16, "width": 16, "num_inference_steps": 2, "generator": draws, "output_type": "pt"}
            outputs[case] = pipeline(pipelines.PROMPTS, guidance_scale=3.0, **given).images
            described[case] = sizes
            print(case, sizes)
    (cases.FOLDER / f"{name}.json").write_text(json.dumps(described, sort_keys=True) + "\n", encoding="utf-8")
    save_file({key: value.contiguous() for key, value in outputs.items()}, cases.FOLDER / f"{name}.safetensors")


def heard_by(folder: Path, sound: dict[str, Any], options: dict[str, Any]) -> str:
    """Return what a Whisper hears, as its pipeline does, which needs the real model's tokenizer."""
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(folder)
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    features = extractor(sound["raw"].numpy(), sampling_rate=sound["sampling_rate"], return_tensors="pt")
    return tokenizer.decode(model.generate(features["input_features"], **options)[0], skip_special_tokens=True)


def record_calls(name: str) -> None:
    """Record what transformers' pipelines return."""
    results = {}
    for case, (task, model_name, _, _, _) in cases.CALLS.items():
        recorded = cases.description(model_name)
        with tempfile.TemporaryDirectory() as name_of_folder, torch.no_grad():
            folder = Path(name_of_folder)
            (folder / "config.json").write_text(json.dumps(recorded["config"]))
            drawn = cases.weights(torch, recorded["weights"], 1.5)
            save_file(drawn, folder / "model.safetensors", metadata={"format": "pt"})
            cases.write_call(case, folder)
            given, options = cases.given_to(case, torch)
            if task == "automatic-speech-recognition":
                results[case] = {"text": heard_by(folder, given[0], options)}
                continue
            made = transformers.pipeline(task, model=name_of_folder, device="cpu")
            if model_name == "siglip":
                # As SigLIP's own tokenizer; the pipeline knows only of texts of 64 tokens.
                made.tokenizer.model_input_names = ["input_ids"]
                made._preprocess_params["tokenizer_kwargs"] = {"max_length": 16}
            results[case] = made(*given, **options)
            print(case, str(results[case])[:300])
    text = json.dumps(results, sort_keys=True, default=float)
    (cases.FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def _modules(shapes: dict[str, list[int]], pattern: str) -> list[str]:
    """Return what names match a pattern's group."""
    return sorted({match[1] for match in (re.search(pattern, key) for key in shapes) if match})


def record_single_file(name: str) -> None:
    """Record how files of latent-diffusion call the weights: of every name that can be, what diffusers makes of it."""
    resnet = (
        "in_layers.0",
        "in_layers.2",
        "emb_layers.1",
        "out_layers.0",
        "out_layers.3",
        "skip_connection",
        "op",
        "conv",
    )
    outputs = {}
    for case in ("pipeline", "pipeline_xl"):
        told = cases.description(case)
        outputs[case] = {}
        for part, convert in (("unet", convert_ldm_unet_checkpoint), ("vae", convert_ldm_vae_checkpoint)):
            shapes = told["weights"][part]
            inner = _modules(shapes, r"attentions\.\d+\.(.+)")
            if part == "unet":
                ends = [f"{each}.{end}" for each in resnet for end in ("weight", "bias")]
                names = [
                    "time_embed.0",
                    "time_embed.2",
                    "out.0",
                    "out.2",
                    "label_emb.0.0",
                    "label_emb.0.2",
                    "input_blocks.0.0",
                ]
                tried = [f"{each}.{end}" for each in names for end in ("weight", "bias")]
                blocks = [f"input_blocks.{number}" for number in range(1, 8)]
                blocks += [f"output_blocks.{number}" for number in range(8)]
                blocks.append("middle_block")
                tried += [f"{block}.{place}.{end}" for block in blocks for place in range(3) for end in (*ends, *inner)]
                start = "model.diffusion_model."
            else:
                ends = [
                    f"{each}.{end}"
                    for each in ("norm1", "conv1", "norm2", "conv2", "nin_shortcut")
                    for end in ("weight", "bias")
                ]
                attends = [
                    f"attn_1.{each}.{end}" for each in ("norm", "q", "k", "v", "proj_out") for end in ("weight", "bias")
                ]
                tried = []
                for side, way in (("encoder", "down"), ("decoder", "up")):
                    tried += [
                        f"{side}.{each}.{end}"
                        for each in ("conv_in", "conv_out", "norm_out")
                        for end in ("weight", "bias")
                    ]
                    tried += [
                        f"{side}.{way}.{level}.block.{number}.{end}"
                        for level in range(2)
                        for number in range(3)
                        for end in ends
                    ]
                    tried += [
                        f"{side}.{way}.{level}.{way}sample.conv.{end}"
                        for level in range(2)
                        for end in ("weight", "bias")
                    ]
                    tried += [f"{side}.mid.block_{number}.{end}" for number in (1, 2) for end in ends]
                    tried += [f"{side}.mid.{each}" for each in attends]
                tried += [f"{each}.{end}" for each in ("quant_conv", "post_quant_conv") for end in ("weight", "bias")]
                start = "first_stage_model."
            given = {start + each: torch.full((1, 1), float(number)) for number, each in enumerate(tried)}
            made = convert(given, told["config"][part])
            outputs[case][part] = {start + tried[int(made[key].item())]: key for key in shapes}
    text = json.dumps(outputs, sort_keys=True, separators=(",", ":"))
    (cases.FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    cases.FOLDER.mkdir(exist_ok=True)
    kinds = (
        (cases.DECODERS, record_decoder),
        (cases.ENCODERS, record_encoder),
        (cases.SEQ2SEQ, record_seq2seq),
        (("generations",), record_generations),
        (("lora",), record_lora),
        (("gguf",), record_gguf),
        (cases.VISION, record_vision),
        (cases.WHISPERS, record_whisper),
        (("times",), record_times),
        (cases.DIFFUSION, record_diffusion),
        (("schedulers",), record_schedulers),
        (pipelines.PIPELINES, record_pipeline),
        (("calls",), record_calls),
        (("single_file",), record_single_file),
        (("adapted",), record_adapted),
    )
    for group, record in kinds:
        for each in group:
            if each in (sys.argv[1:] or group):
                record(each)
