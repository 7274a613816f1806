"""The words of the command line, before any model is loaded: what is the model, the prompt, the inputs; JSON; exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from webgpu_torch_cli import _sort_words, build_parser, main


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
