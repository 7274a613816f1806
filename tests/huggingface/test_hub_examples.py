"""The Hugging Face examples on small checkpoints: with their one line and, without it, on PyTorch; the results agree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

for _library in ("transformers", "diffusers", "peft", "accelerate", "PIL"):
    pytest.importorskip(_library)

HERE = Path(__file__).parent
EXAMPLES = HERE.parent.parent / "examples" / "huggingface"
LINE = "import webgpu_torch.as_torch  # isort: split\n"
RunPython = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the small checkpoints, written by PyTorch."""
    folder = tmp_path_factory.mktemp("models")
    command = [sys.executable, "-W", "ignore", str(HERE / "tiny_checkpoints.py"), str(folder), "causal", "diffusion"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)
    return folder


@pytest.fixture
def both(run_python: RunPython, tmp_path: Path) -> Callable[..., list[str]]:
    """Run an example as it is and without its line, each with its own output; return what they print."""

    def run(name: str, *arguments: object, outputs: tuple[Path, Path] | None = None) -> list[str]:
        text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
        assert text.count(LINE) == 1 and text.count("webgpu_torch") == 1, "more than one line differs"
        original = tmp_path / f"{name}.py"
        original.write_text(text.replace(LINE, ""), encoding="utf-8")
        printed = []
        for place, script in enumerate((EXAMPLES / f"{name}.py", original)):
            more = ("--output", outputs[place]) if outputs else ()
            ended = run_python("-W", "ignore", script, *arguments, *more)
            assert ended.returncode == 0, ended.stdout + ended.stderr
            printed.append(ended.stdout)
        return printed

    return run


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--sample",)])
def test_text_generation(more: tuple[str, ...], both: Callable[..., list[str]], models: Path) -> None:
    """The same tokens, likeliest or drawn."""
    prompt = ("--prompt", "Once upon a time", "--max-new-tokens", 12, "--device", "cpu")
    ours, theirs = both("text_generation", "--model", models / "causal", *prompt, *more)
    assert ours == theirs and ours.startswith("Once upon a time") and len(ours) > 20


@pytest.mark.slow
def test_image_generation(both: Callable[..., list[str]], models: Path, tmp_path: Path) -> None:
    """The same picture, but for rounding."""
    from PIL import Image, ImageChops

    names = tmp_path / "ours.png", tmp_path / "theirs.png"
    options = ("--steps", 3, "--size", 32, "--device", "cpu")
    both("image_generation", "--model", models / "diffusion", *options, outputs=names)
    pictures = [Image.open(each).convert("RGB") for each in names]
    assert pictures[0].size == (32, 32)
    difference = ImageChops.difference(*pictures).getextrema()
    assert max(high for _, high in difference) <= 1
    assert pictures[1].getextrema() != ((0, 0),) * 3


@pytest.mark.slow
def test_lora_finetuning(both: Callable[..., list[str]], models: Path, tmp_path: Path) -> None:
    """The same losses, and adapters of the same names."""
    from safetensors.numpy import load_file

    folders = tmp_path / "ours", tmp_path / "theirs"
    text = ("--text", EXAMPLES.parent / "data" / "tensors.md")
    options = (*text, "--steps", 6, "--length", 16, "--rate", 1e-2, "--cpu")
    printed = both("lora_finetuning", "--model", models / "causal", *options, outputs=folders)
    losses = [[float(each) for each in re.findall(r"'loss': '?([\d.]+)", text)] for text in printed]
    assert len(losses[0]) == 6 and losses[0] == pytest.approx(losses[1], abs=2e-3)
    assert losses[0][-1] < losses[0][0] - 0.01
    adapters = [load_file(each / "adapter_model.safetensors") for each in folders]
    assert adapters[0].keys() == adapters[1].keys()
    for name, value in adapters[1].items():
        assert adapters[0][name] == pytest.approx(value, abs=1e-3), name
