"""Commands that read or write text."""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webgpu_torch_core import Tensor
    from webgpu_torch_models.pipelines.base import Scored

from .models import OTHER, OWN, load, load_own, prepare, tell_library


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


class _Writer:
    """Continues texts with the library's own model, or with transformers' where that is not known here."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        _, device = prepare(options)
        own = load_own("text-generation", options, device)
        self.library = OTHER if own is None else OWN
        self.model: Any
        self.tokenizer: Any
        if own is not None:
            self.model, self.tokenizer = own.model, own.tokenizer
            return
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.model = load(AutoModelForCausalLM, options, device)
        self.tokenizer = AutoTokenizer.from_pretrained(options.model)

    def prompt(self, text: str) -> list[int]:
        """Return a text's tokens."""
        return list(self.tokenizer.encode(text))

    def conversation(self, messages: list[dict[str, str]]) -> list[int]:
        """Return the tokens of a conversation that the model is to continue."""
        if self.library == OTHER:
            return self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)[
                "input_ids"
            ]
        return self.tokenizer.encode(self.tokenizer.apply_chat_template(messages), add_special_tokens=False)

    def write(self, prompt: list[int]) -> str:
        """Generate, print the text as it comes and the speed after it, or both as JSON at the end; return the text."""
        device, started = self.model.device, time.perf_counter()
        tokens = self._own_tokens(prompt) if self.library == OWN else self._other_tokens(prompt)
        took = time.perf_counter() - started
        text = self.tokenizer.decode(tokens, skip_special_tokens=True)
        if self.options.json:
            told = {
                "text": text,
                "tokens": len(tokens),
                "seconds": took,
                "device": str(device),
                "library": self.library,
            }
            print(json.dumps(told), flush=True)
        else:
            print(f"[{len(tokens)} tokens, {len(tokens) / took:.1f} per second, on {device}, by {self.library}]")
        return text

    def _own_tokens(self, prompt: list[int]) -> list[int]:
        import webgpu_torch as torch

        given = torch.tensor([prompt], dtype=torch.int64, device=self.model.device)
        written, tokens = self.tokenizer.stream(), []
        for (token,) in self.model.stream(given, tokenizer=self.tokenizer, **_sampling(self.options)):
            tokens.append(token)
            if not self.options.json:
                print(written.put(token), end="", flush=True)
        if not self.options.json:
            print(written.end())
        return tokens

    def _other_tokens(self, prompt: list[int]) -> list[int]:
        import webgpu_torch as torch
        from transformers import TextStreamer

        given = torch.tensor([prompt], dtype=torch.int64, device=self.model.device)
        streamer = (
            None if self.options.json else TextStreamer(self.tokenizer, skip_prompt=True, skip_special_tokens=True)
        )
        mask = torch.ones_like(given)
        written = self.model.generate(given, attention_mask=mask, streamer=streamer, **_sampling(self.options))
        return written[0][len(prompt) :].tolist()


def generate(options: Namespace) -> int:
    """Continue a text."""
    writer = _Writer(options)
    prompt = writer.prompt(options.prompt)
    if not options.json:
        print(options.prompt, end="", flush=True)
    writer.write(prompt)
    return 0


def chat(options: Namespace) -> int:
    """Talk with a model, turn by turn."""
    writer = _Writer(options)
    if writer.tokenizer.chat_template is None:
        raise SystemExit(f"error: {options.model} has no chat template; use: webgpu-torch generate")
    messages = [{"role": "system", "content": options.system}] if options.system else []
    while True:
        try:
            said = input("" if options.json else "> ").strip()
        except EOFError:
            return 0
        if not said:
            return 0
        messages.append({"role": "user", "content": said})
        messages.append({"role": "assistant", "content": writer.write(writer.conversation(messages))})


def _states_of(options: Namespace) -> tuple[str, Callable[[str], Tensor]]:
    """Return the library that computes the states of a text's tokens, [1, tokens, width], and a function that does."""
    _, device = prepare(options)
    own = load_own("feature-extraction", options, device)
    if own is not None:

        def states(text: str) -> Tensor:
            ids = own.tokenizer.encode_windows(text, limit=own.config.longest_text)[0].ids
            return own.model(own.integers([ids])).last_hidden_state

        return OWN, states
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = load(AutoModel, options, device)

    def other_states(text: str) -> Tensor:
        inputs = tokenizer(text, return_tensors="pt", truncation=True)
        return model(**{key: value.to(device) for key, value in inputs.items()}).last_hidden_state

    return OTHER, other_states


def embed(options: Namespace) -> int:
    """Print the mean of each text's last hidden states over its tokens, scaled to length 1."""
    library, states = _states_of(options)
    import webgpu_torch as torch

    for text in options.inputs:
        with torch.inference_mode():
            vector = torch.nn.functional.normalize(states(text).float().mean(1), dim=-1)[0]
        print(json.dumps({"text": text, "embedding": vector.tolist(), "library": library}))
    return 0


def _is_image_name(text: str) -> bool:
    return Path(text).suffix.lower() in (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def _classes_of(options: Namespace, images: bool) -> tuple[str, Callable[[str], list[Scored]]]:
    """Return the library that classifies, and a function that gives the classes of a text or of an image file."""
    _, device = prepare(options)
    own = load_own("image-classification" if images else "text-classification", options, device)
    if own is not None:

        def own_classes(given: str) -> list[Scored]:
            # Of a list of inputs, with more than one class asked for, each has a list of classes.
            return own([given], top_k=max(options.top, 2), function_to_apply="softmax")[0][: options.top]

        return OWN, own_classes
    import webgpu_torch as torch
    from transformers import (
        AutoImageProcessor,
        AutoModelForImageClassification,
        AutoModelForSequenceClassification,
        AutoTokenizer,
    )

    kind, reader = AutoModelForSequenceClassification, AutoTokenizer
    if images:
        from PIL import Image

        kind, reader = AutoModelForImageClassification, AutoImageProcessor
    processor, model = reader.from_pretrained(options.model), load(kind, options, device)

    def classes(given: str) -> list[Scored]:
        read = processor(Image.open(given).convert("RGB") if images else given, return_tensors="pt")
        with torch.inference_mode():
            scores = model(**{key: value.to(device) for key, value in read.items()}).logits[0].float().softmax(-1)
        best = scores.topk(min(options.top, len(scores)))
        return [
            {"label": str(model.config.id2label.get(index, index)), "score": score}
            for score, index in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]

    return OTHER, classes


def classify(options: Namespace) -> int:
    """Print the classes of texts or images with their probabilities."""
    images = all(Path(each).is_file() or _is_image_name(each) for each in options.inputs)
    missing = [each for each in options.inputs if _is_image_name(each) and not Path(each).is_file()]
    if missing:
        raise SystemExit(f"error: there is no file {missing[0]}")
    library, classes = _classes_of(options, images)
    for each in options.inputs:
        found = classes(each)
        if options.json:
            print(json.dumps({"input": each, "classes": found, "library": library}))
            continue
        print(each)
        for one in found:
            print(f"  {100 * one['score']:5.1f} %  {one['label']}")
    tell_library(options, library)
    return 0
