"""Answers that are computed in one go: embeddings and images."""

from __future__ import annotations

import base64
import io
import re
import struct
import time
from typing import TYPE_CHECKING

import webgpu_torch_core as torch
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webgpu_torch_serve.engine import Engine, as_request_errors
from webgpu_torch_serve.errors import RequestError
from webgpu_torch_serve.parameters import Fields, prompts

if TYPE_CHECKING:
    from PIL import Image

#: how many texts or images one request may ask for
MOST_TEXTS, MOST_IMAGES = 256, 10


async def embed(request: Request, engine: Engine, fields: Fields) -> Response:
    """Answer a request for the embeddings of texts.

    Raises:
        RequestError: it cannot be answered.
    """
    served = engine.served
    given = prompts(fields, "input")
    form = fields.one_of("encoding_format", ("float", "base64"), "float")
    fields.refuse(dimensions="the model's vectors are given whole")
    fields.end()
    if len(given) > MOST_TEXTS:
        raise RequestError(f"input has {len(given)} texts; at most {MOST_TEXTS} are taken at once", param="input")
    assert served.tokenizer is not None
    with as_request_errors():
        rows = [each if isinstance(each, list) else served.tokenizer.encode(each) for each in given]
        if not all(rows):
            raise RequestError("input has a text without tokens", param="input")
        wrong = next((each for row in rows for each in row if not 0 <= each < served.model.config.vocab_size), None)
        if wrong is not None:
            raise RequestError(f"input: token {wrong} is none of the model's", param="input")
        vectors = await engine.call(lambda: served.embed(rows))
    tokens = sum(map(len, rows))
    engine.metrics.prompt_tokens.inc(tokens)
    data = [
        {"object": "embedding", "index": number, "embedding": each if form == "float" else _packed(each)}
        for number, each in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return JSONResponse({"object": "list", "data": data, "model": served.name, "usage": usage})


def _packed(values: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


async def draw(request: Request, engine: Engine, fields: Fields) -> Response:
    """Answer a request for images of a text.

    Raises:
        RequestError: it cannot be answered.
    """
    served = engine.served
    prompt = fields.text("prompt")
    options: dict[str, object] = {
        "steps": fields.integer("steps", 1, 1000, 30),
        "guidance_scale": fields.number("guidance_scale", 0, 100),
        "negative_prompt": fields.text("negative_prompt", "") or None,
    }
    count, seed = fields.integer("n", 1, MOST_IMAGES, 1) or 1, fields.integer("seed", 0, 2**63 - 1)
    size = fields.take("size", 'a size such as "512x512"', _is_size, "auto")
    if size != "auto":
        options["width"], options["height"] = map(int, size.split("x"))
    if fields.one_of("response_format", ("b64_json", "url"), "b64_json") == "url":
        raise RequestError('response_format="url" is not supported: use "b64_json"', param="response_format")
    fields.one_of("output_format", ("png",), "png")
    fields.refuse(style="the prompt says it", background="images have no transparency", stream="an image comes whole")
    fields.text("quality", "auto")
    fields.end()

    def work() -> list[str]:
        generator = torch.Generator()
        generator.seed() if seed is None else generator.manual_seed(seed)
        images: list[Image.Image] = served.model([prompt] * count, generator=generator, **options)
        return [_png(each) for each in images]

    with as_request_errors():
        images = await engine.call(work)
    return JSONResponse({"created": int(time.time()), "data": [{"b64_json": each} for each in images]})


def _is_size(value: object) -> bool:
    return isinstance(value, str) and (value == "auto" or re.fullmatch(r"[1-9]\d{0,4}x[1-9]\d{0,4}", value) is not None)


def _png(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
