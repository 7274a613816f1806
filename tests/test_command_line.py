"""The words of the command line, before any model is loaded: what is the model, the prompt, the inputs; JSON; exit statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from webgpu_torch_cli import _sort_words, build_parser, completion, main


def sorted_words(*words: str) -> tuple[str, str | None, list[str]]:
    options = build_parser().parse_args(words)
    _sort_words(options)
    return options.model, getattr(options, "prompt", None), options.inputs


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (("generate", "m", "Hello you"), ("m", "Hello you")),
        (("generate", "m", "--prompt", "Hello"), ("m", "Hello")),
        (("generate", "--model", "m", "Hello"), ("m", "Hello")),
        (("generate", "--model", "m", "--prompt", "Hello", "--top-k", "3"), ("m", "Hello")),
        (("image", "m", "a house", "--output", "x.png"), ("m", "a house")),
        (("chat", "m"), ("m", None)),
        (("bench", "m"), ("m", None)),
    ],
)
def test_model_and_prompt(line: tuple[str, ...], expected: tuple[str, str | None]) -> None:
    assert sorted_words(*line)[:2] == expected


def test_inputs() -> None:
    assert sorted_words("embed", "m", "a", "b")[2] == ["a", "b"]
    assert sorted_words("classify", "--model", "m", "a", "b")[2] == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("generate",), "which model?"),
        (("generate", "m"), "one prompt is needed, got 0"),
        (("generate", "m", "a", "b"), "one prompt is needed, got 2"),
        (("chat", "m", "a"), "chat takes no text on the command line, got 'a'"),
        (("embed", "m"), "embed needs something to work on"),
    ],
)
def test_mistakes_end_with_status_2(line: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line)
    assert ended.value.code == 2 and said in capsys.readouterr().err


def test_info_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"python", "cpu"} <= {each["type"] for each in found["backends"]} and found["interface"] >= 1


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    program = "import sys; from webgpu_torch_cli import main; sys.stdout.reconfigure(line_buffering=True); sys.exit(main(['info']))"
    command = f'{sys.executable} -c "{program}" | true'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=120)
    assert "Traceback" not in done.stderr


def test_a_decoder_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from webgpu_torch_models import AutoModelForCausalLM
    from webgpu_torch_models.decoder_families import LlamaConfig

    config = LlamaConfig(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        bos_token_id=None,
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    line = ["bench", str(tmp_path), "--device", "cpu", "--prompt-tokens", "8", "--new-tokens", "3"]
    assert main([*line, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"] == 2 * 50 * 32 + 4 * 32 * 32 + 3 * 32 * 32 + 3 * 32
    assert found["weight_bytes"] == 4 * found["parameters"]
    assert found["tokens_per_second"] == pytest.approx(1 / found["token_seconds"])
    assert found["token_seconds"] >= found["host_seconds"] > 0 < found["prefill_seconds"]
    assert main([*line, "--quantize", "int8"]) == 0
    assert "ms a token" in capsys.readouterr().out
    assert main([*line[:-1], "0"]) == 1
    assert "new_tokens must be at least 1, got 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("gen",), {"generate"}),
        (("generate", "--attn", ""), {"sdpa", "eager", "webgpu_torch"}),
        (("info", "--n"), {"--numerics"}),
        (("web", ""), {"build", "serve"}),
        (("completion", "f"), {"fish"}),
        (("embed", "model", "--j"), {"--json"}),
        (("serve", "model", "--quantize", "int"), {"int8", "int4"}),
        (("classify", "model", "cat"), set()),
    ],
)
def test_bash_completes(typed: tuple[str, ...], offered: set[str]) -> None:
    words = " ".join(f"'{each}'" for each in ("webgpu-torch", *typed))
    ask = f'COMP_WORDS=({words}); COMP_CWORD={len(typed)}; _webgpu_torch; printf "%s\\n" "${{COMPREPLY[@]}}"'
    script = completion.bash(build_parser()) + ask
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert set(done.stdout.split()) == offered


def test_every_shell_knows_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in completion.SHELLS:
        assert main(["completion", shell]) == 0
        script = capsys.readouterr().out
        assert all(each in script for each in ("transcribe", "guidance", "nf4"))


def test_every_command_has_json() -> None:
    for name, options, _ in completion._described(build_parser()):
        assert ("--json" in options) == (name not in ("run", "completion"))


@pytest.mark.parametrize(
    "setting", ["WEBGPU_TORCH_NODE_LIMIT=many", "WEBGPU_TORCH_RUNTIME=none", "PYTHONIOENCODING=ascii"]
)
def test_info_tells_what_is_wrong_without_a_traceback(setting: str) -> None:
    name, _, value = setting.partition("=")
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from webgpu_torch_cli import main; sys.exit(main(['info']))"],
        capture_output=True, text=True, check=False, timeout=120, env={**os.environ, name: value},
    )  # fmt: skip
    assert "Traceback" not in done.stderr and done.returncode == (1 if value == "many" else 0)
    assert name in done.stdout + done.stderr or name == "PYTHONIOENCODING"
