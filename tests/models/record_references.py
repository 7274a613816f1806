"""Record what Hugging Face's libraries compute for tiny models: ``python tests/models/record_references.py [names]``."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import reference_cases as cases
import torch
import transformers
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
    model = getattr(transformers, f"{family}ForCausalLM")(config)
    ids, mask = cases.tokens(torch)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model, written, shapes = with_drawn_weights(model, Path(folder), 1.5)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
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


if __name__ == "__main__":
    cases.FOLDER.mkdir(exist_ok=True)
    for each in sys.argv[1:] or (*cases.DECODERS, *cases.ENCODERS):
        (record_decoder if each in cases.DECODERS else record_encoder)(each)
