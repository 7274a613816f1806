"""Commands that read or write text."""

from __future__ import annotations

import json
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from .models import load, prepare


def _sampling(options: Namespace) -> dict[str, Any]:
    if options.temperature <= 0:
        return {"do_sample": False, "max_new_tokens": options.max_new_tokens}
    return {
        "do_sample": True,
        "temperature": options.temperature,
        "top_k": options.top_k,
        "top_p": options.top_p,
        "max_new_tokens": options.max_new_tokens,
    }


def _write(model: Any, tokenizer: Any, inputs: Any, options: Namespace) -> str:
    """Generate, print the text as it comes and the speed after it, or both as JSON at the end; return the text."""
    from transformers import TextStreamer

    inputs = {key: value.to(model.device) for key, value in inputs.items()}
    started = time.perf_counter()
    streamer = None if options.json else TextStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)
    tokens = model.generate(**inputs, streamer=streamer, **_sampling(options))[0][inputs["input_ids"].shape[1] :]
    took = time.perf_counter() - started
    text = tokenizer.decode(tokens, skip_special_tokens=True)
    if options.json:
        print(
            json.dumps({"text": text, "tokens": len(tokens), "seconds": took, "device": str(model.device)}), flush=True
        )
    else:
        print(f"[{len(tokens)} tokens, {len(tokens) / took:.1f} per second, on {model.device}]")
    return text


def generate(options: Namespace) -> int:
    """Continue a text."""
    _, device = prepare(options)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = load(AutoModelForCausalLM, options, device)
    if not options.json:
        print(options.prompt, end="", flush=True)
    _write(model, tokenizer, tokenizer(options.prompt, return_tensors="pt"), options)
    return 0


def chat(options: Namespace) -> int:
    """Talk with a model, turn by turn."""
    _, device = prepare(options)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    if tokenizer.chat_template is None:
        raise SystemExit(f"error: {options.model} has no chat template; use: webgpu-torch generate")
    model = load(AutoModelForCausalLM, options, device)
    messages = [{"role": "system", "content": options.system}] if options.system else []
    while True:
        try:
            said = input("" if options.json else "> ").strip()
        except EOFError:
            return 0
        if not said:
            return 0
        messages.append({"role": "user", "content": said})
        inputs = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        messages.append({"role": "assistant", "content": _write(model, tokenizer, inputs, options)})


def embed(options: Namespace) -> int:
    """Print the mean of each text's last hidden states over its tokens, scaled to length 1."""
    torch, device = prepare(options)
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = load(AutoModel, options, device)
    for text in options.inputs:
        inputs = {key: value.to(device) for key, value in tokenizer(text, return_tensors="pt", truncation=True).items()}
        with torch.inference_mode():
            states = model(**inputs).last_hidden_state.float()
            vector = torch.nn.functional.normalize(states.mean(1), dim=-1)[0]
        print(json.dumps({"text": text, "embedding": vector.tolist()}))
    return 0


def _is_image_name(text: str) -> bool:
    return Path(text).suffix.lower() in (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def classify(options: Namespace) -> int:
    """Print the classes of texts or images with their probabilities."""
    torch, device = prepare(options)
    images = all(Path(each).is_file() or _is_image_name(each) for each in options.inputs)
    missing = [each for each in options.inputs if _is_image_name(each) and not Path(each).is_file()]
    if missing:
        raise SystemExit(f"error: there is no file {missing[0]}")
    from transformers import (
        AutoImageProcessor,
        AutoModelForImageClassification,
        AutoModelForSequenceClassification,
        AutoTokenizer,
    )

    if images:
        from PIL import Image

        processor = AutoImageProcessor.from_pretrained(options.model)
        model = load(AutoModelForImageClassification, options, device)
    else:
        processor = AutoTokenizer.from_pretrained(options.model)
        model = load(AutoModelForSequenceClassification, options, device)
    for each in options.inputs:
        given = processor(Image.open(each).convert("RGB") if images else each, return_tensors="pt")
        with torch.inference_mode():
            scores = model(**{key: value.to(device) for key, value in given.items()}).logits[0].float().softmax(-1)
        best = scores.topk(min(options.top, len(scores)))
        found = [
            {"label": str(model.config.id2label.get(index, index)), "score": score}
            for score, index in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]
        if options.json:
            print(json.dumps({"input": each, "classes": found}))
            continue
        print(each)
        for one in found:
            print(f"  {100 * one['score']:5.1f} %  {one['label']}")
    return 0
