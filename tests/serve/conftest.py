"""A server of a tiny language model, OpenAI's client of it, and what the model says by itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from servers import Server, serving, write_language_model


@pytest.fixture(scope="session")
def text_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_language_model(tmp_path_factory.mktemp("folders") / "letters")


@pytest.fixture(scope="session")
def text_server(text_folder: Path) -> Iterator[Server]:
    with serving(text_folder, "--batch", "4", "--queue", "3", "--cache-tokens", "4096") as server:
        yield server


@pytest.fixture
def client(text_server: Server) -> Iterator[Any]:
    with text_server.client() as found:
        yield found


@pytest.fixture(scope="session")
def alone(text_folder: Path) -> Any:
    """Return a function that gives the text that a prompt gets by itself."""
    import webgpu_torch_core as torch
    from webgpu_torch_models import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(text_folder, device="cpu")
    tokenizer = AutoTokenizer.from_pretrained(text_folder)

    def text(prompt: str, count: int, seed: int | None = None, **options: Any) -> str:
        ids = tokenizer.encode(prompt)
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        options = {
            "do_sample": seed is not None,
            "max_new_tokens": count,
            "generator": generator,
            "num_beams": 1,
            **options,
        }
        found = model.generate(torch.tensor([ids]), **options)[0, len(ids) :]
        return tokenizer.decode(found, skip_special_tokens=True)

    return text
