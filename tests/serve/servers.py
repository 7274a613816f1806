"""Tiny models saved to folders, and servers of them in processes of their own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

#: every token is a letter; the last one ends a text
LETTERS = [chr(code) for code in range(32, 127)]
TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }};{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models
    from webgpu_torch_models import Tokenizer

    backend = Backend(models.BPE({each: number for number, each in enumerate(LETTERS)}, []))
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens(["<end>"])
    Tokenizer(backend, {"eos_token": "<end>"}, TEMPLATE).save_pretrained(folder)


def write_language_model(folder: Path) -> Path:
    import webgpu_torch_core as torch
    from webgpu_torch_models.decoder_families import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=96, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, eos_token_id=95,
        bos_token_id=None, initializer_range=0.6,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    # What requests do not say is what the folder says, but for beams.
    model.generation_config = model.generation_config.changed(top_k=40, num_beams=2)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def write_encoder(folder: Path) -> Path:
    import webgpu_torch_core as torch
    from webgpu_torch_models.bert import BertConfig, BertModel

    torch.manual_seed(4)
    config = BertConfig(
        vocab_size=96, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=32, initializer_range=0.5,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    write_tokenizer(folder)
    return folder


class Server:
    """A server in a process of its own; its address is read from what it prints."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [
            sys.executable,
            "-m",
            "webgpu_torch",
            "serve",
            str(folder),
            "--device",
            "cpu",
            "--port",
            "0",
            *options,
        ]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        found = re.search(r"http://\S+/", said)
        if found is None:
            self.process.kill()
            raise AssertionError(f"the server did not start: {said}{self.process.communicate()[0]}")
        self.address, self.name = found[0], folder.name

    def client(self, **options: Any) -> Any:
        """Return OpenAI's own client of it, which asks once."""
        openai = pytest.importorskip("openai")
        return openai.OpenAI(base_url=f"{self.address}v1", **{"api_key": "none", "max_retries": 0, **options})

    def metric(self, name: str) -> float:
        """Return one of its numbers."""
        import urllib.request

        with urllib.request.urlopen(f"{self.address}metrics") as answer:
            text = answer.read().decode()
        found = re.search(rf"^webgpu_torch_{re.escape(name)} (\S+)$", text, re.MULTILINE)
        assert found, f"there is no {name} in:\n{text}"
        return float(found[1])

    def end(self, *, expect: int = 0) -> str:
        """Interrupt it; return what it said."""
        self.process.send_signal(signal.SIGINT)
        said, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == expect, said
        return said


@contextlib.contextmanager
def serving(folder: Path, *options: str) -> Iterator[Server]:
    """Serve a folder while the block runs; the server must end by itself and say nothing."""
    server = Server(folder, *options)
    try:
        yield server
        if server.process.poll() is None:
            said = server.end()
            assert said == "", said
    finally:
        server.process.kill()
        server.process.communicate()
