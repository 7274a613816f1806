"""The command line on small checkpoints: every command, and what it says when something is wrong."""

from __future__ import annotations

import http.server
import json
import math
import os
import struct
import subprocess
import sys
import threading
import types
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

HERE = Path(__file__).parent
RunPython = Callable[..., subprocess.CompletedProcess[str]]
NAMES = ("causal", "plain", "encoder", "sentiment", "pictures", "speech")


def _write(folder: Path, *names: str) -> Path:
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    command = [sys.executable, "-W", "ignore", str(HERE / "tiny_checkpoints.py"), str(folder), *names]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the small checkpoints, written by PyTorch."""
    return _write(tmp_path_factory.mktemp("models"), *NAMES)


Outcome = types.SimpleNamespace
Commands = Callable[..., list[Outcome]]


@pytest.fixture
def commands(run_python: RunPython) -> Commands:
    """Run commands of ``webgpu-torch`` one after the other, in one process; ``given`` is what each reads."""

    def run(*commands: tuple[object, ...], given: str = "", **variables: str) -> list[Outcome]:
        asked = json.dumps([([str(each) for each in command], given) for command in commands])
        bars = {"HF_HUB_DISABLE_PROGRESS_BARS": "0"}
        ended = run_python("-W", "ignore", HERE / "command_driver.py", given=asked, **bars, **variables)
        assert ended.returncode == 0, ended.stderr
        return [types.SimpleNamespace(**each) for each in json.loads(ended.stdout)]

    return run


def _printed(ended: Outcome) -> str:
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def _problem(ended: Outcome) -> str:
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.stderr.splitlines()[-1]


def _check_generate(first: Outcome, second: Outcome, third: Outcome) -> None:
    printed = _printed(first)
    assert printed.startswith("Once upon") and "6 tokens" in printed.splitlines()[-1] and "on cpu" in printed
    assert "by webgpu_torch_models]" in printed and "by transformers]" in _printed(second)
    assert "Loading weights" in second.stderr, "no progress bar"
    assert {_printed(each).rpartition("[")[0] for each in (second, third)} == {printed.rpartition("[")[0]}


def _check_classes(ended: Outcome, given: object, labels: set[str]) -> None:
    lines = _printed(ended).splitlines()
    assert lines[0] == str(given)
    shares = [float(each.split()[0]) for each in lines[1:]]
    assert {each.split()[-1] for each in lines[1:]} == labels
    assert shares == sorted(shares, reverse=True) and abs(sum(shares) - 100) < 0.5


def _write_sounds(folder: Path) -> None:
    for name, rate, channels in (("mono.wav", 16000, 1), ("stereo.wav", 8000, 2)):
        with wave.open(str(folder / name), "wb") as file:
            file.setnchannels(channels)
            file.setsampwidth(2)
            file.setframerate(rate)
            samples = [int(9000 * math.sin(440 * 6.283 * i / rate)) for i in range(rate // 2) for _ in range(channels)]
            file.writeframes(struct.pack(f"<{len(samples)}h", *samples))
    (folder / "text.wav").write_text("no sound")


@pytest.mark.slow
def test_text(commands: Commands, models: Path) -> None:
    found = commands(("info",), ("generate", models / "causal", "Once upon", "--max-new-tokens", 6, "--device", "cpu"))
    assert "cpu" in _printed(found[0]) and "webgpu_torch_backend_cpu" in found[0].stdout
    assert _printed(found[1]).startswith("Once upon") and "by webgpu_torch_models]" in found[1].stdout


@pytest.mark.slow
def test_both_libraries_write_the_same(commands: Commands, models: Path) -> None:
    """A known architecture is computed by the library's own model, which says so; ``--attn`` asks transformers for it."""
    likeliest = ("--temperature", 0, "--max-new-tokens", 8, "--device", "cpu", "--json")
    for command in (("generate", models / "causal", "Once upon"), ("chat", models / "causal")):
        own, other = commands((*command, *likeliest), (*command, *likeliest, "--attn", "eager"), given="hi\nso\n")
        mine, theirs = ([json.loads(each) for each in _printed(ended).splitlines()] for ended in (own, other))
        assert [each["text"] for each in mine] == [each["text"] for each in theirs]
        assert {each["library"] for each in mine} == {"webgpu_torch_models"}
        assert {each["library"] for each in theirs} == {"transformers"}


def _printed_objects(ended: Outcome, library: str) -> list[dict[str, Any]]:
    """Return what a command printed as JSON, which must be computed by a library."""
    found = [json.loads(each) for each in _printed(ended).splitlines()]
    assert {each.pop("library") for each in found} == {library}
    return found


@pytest.mark.slow
def test_both_libraries_find_the_same(commands: Commands, models: Path, tmp_path: Path) -> None:
    """What reads texts, images and sound is computed by the library's own models, too, and says what transformers says."""
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (40, 30), (200, 30, 30)).save(tmp_path / "red.png")
    _write_sounds(tmp_path)
    asked = (
        ("embed", models / "encoder", "a small model", "dog"),
        ("classify", models / "sentiment", "a tensor", "--top", 1),
        ("classify", models / "sentiment", "a tensor", "dog"),
        ("classify", models / "pictures", "red.png"),
        ("transcribe", models / "speech", "mono.wav"),
    )
    common = ("--device", "cpu", "--json")
    found = commands(*((*each, *common) for each in asked), *((*each, *common, "--attn", "eager") for each in asked))
    for own, other in zip(found[: len(asked)], found[len(asked) :]):
        mine, theirs = _printed_objects(own, "webgpu_torch_models"), _printed_objects(other, "transformers")
        _check_alike(mine, theirs)


def _check_alike(mine: Any, theirs: Any) -> None:
    """Compare what JSON holds: numbers within 1e-4, all else exactly."""
    if isinstance(mine, float):
        assert math.isclose(mine, theirs, rel_tol=1e-4, abs_tol=1e-4)
    elif isinstance(mine, dict | list):
        assert type(mine) is type(theirs) and len(mine) == len(theirs)
        for each in mine if isinstance(mine, dict) else range(len(mine)):
            _check_alike(mine[each], theirs[each])
    else:
        assert mine == theirs


@pytest.mark.slow
def test_commands(commands: Commands, models: Path, tmp_path: Path) -> None:
    """Every command on models of its kind: what it prints, and that seeds decide."""
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (40, 30), (200, 30, 30)).save(tmp_path / "red.png")
    _write_sounds(tmp_path)
    text = ("generate", "--model", models / "causal", "--prompt", "Once upon", "--max-new-tokens", 6, "--seed", 4)
    text += ("--device", "cpu")
    found = commands(
        ("info",),
        text,
        (*text, "--attn", "webgpu_torch"),
        (*text, "--dtype", "float32"),
        ("chat", "--model", models / "causal", "--max-new-tokens", 3, "--system", "Be brief."),
        ("embed", "--model", models / "encoder", "a small model", "dog", "more than is read " * 200),
        ("classify", "--model", models / "sentiment", "a tensor"),
        ("classify", "--model", models / "pictures", "red.png"),
        ("transcribe", "--model", models / "speech", "mono.wav", "stereo.wav"),
        given="hi\nso\n",
    )
    assert "cpu" in _printed(found[0]) and "webgpu_torch_backend_cpu" in found[0].stdout
    _check_generate(*found[1:4])
    assert _printed(found[4]).count("tokens, ") == 2, "not two answers to two lines"
    vectors = [json.loads(each) for each in _printed(found[5]).splitlines()]
    assert [each["text"] for each in vectors[:2]] == ["a small model", "dog"] and len(vectors) == 3
    for each in vectors:
        assert len(each["embedding"]) == 32
        assert math.isclose(sum(value * value for value in each["embedding"]), 1.0, rel_tol=1e-4)
    _check_classes(found[6], "a tensor", {"bad", "fair", "good"})
    _check_classes(found[7], "red.png", {"cat", "dog", "bird", "fish"})
    assert len(_printed(found[8]).splitlines()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "webgpu"])
def test_image(commands: Commands, tmp_path: Path, device: str) -> None:
    """A picture of the size asked for, the same for the same seed; other names of files are refused first."""
    pytest.importorskip("diffusers")
    image = pytest.importorskip("PIL.Image")
    model = _write(tmp_path, "diffusion") / "diffusion"
    size = ("--height", 32, "--width", 64)
    asked = ("image", "--model", model, "--prompt", "a red house", "--steps", 2, *size, "--device", device)
    found = commands(
        (*asked, "--negative-prompt", "blue", "--output", "one.png"),
        (*asked, "--negative-prompt", "blue", "--output", "two.png"),
        (*asked, "--negative-prompt", "blue", "--output", "three.png", "--attn", "sdpa"),
        (*asked, "--output", "picture.txt"),
    )
    pictures = []
    for ended, name, library in zip(found, ("one", "two", "three"), (*["webgpu_torch_models"] * 2, "diffusers")):
        assert _printed(ended) == f"saved {name}.png\n" and "2/2" in ended.stderr, "no progress bar"
        assert f"[by {library}]" in ended.stderr
        pictures.append(image.open(tmp_path / f"{name}.png"))
    assert pictures[0].size == (64, 32) and pictures[0].tobytes() == pictures[1].tobytes()
    assert max(abs(one - other) for one, other in zip(pictures[0].tobytes(), pictures[2].tobytes())) <= 2
    assert len(pictures[0].getcolors(1 << 16)) > 10
    assert _problem(found[3]) == "error: --output picture.txt should end in .png, .jpg or .webp"


# What can go wrong


class _Hub(http.server.BaseHTTPRequestHandler):
    """A hub that has nothing, and says of some that they are gated."""

    def do_GET(self) -> None:
        """Refuse."""
        gated = "/gated" in self.path
        self.send_response(403 if gated else 404)
        self.send_header("X-Error-Code", "GatedRepo" if gated else "RepoNotFound")
        self.send_header("X-Error-Message", "restricted" if gated else "not found")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub() -> Iterator[dict[str, str]]:
    """The variables that lead to a hub on this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HUB_OFFLINE": "0"}
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_problems(commands: Commands, hub: dict[str, str], models: Path, tmp_path: Path) -> None:
    """Models that are not there or gated, options that do not exist, files that are of another kind."""
    asked = ("--prompt", "a")
    causal = ("generate", "--model", models / "causal", *asked)
    _write_sounds(tmp_path)
    (tmp_path / "empty").mkdir()
    expected = {
        ("generate", "--model", "./nothing", *asked): "there is no folder ./nothing",
        (
            "generate",
            "--model",
            "someone/nothing",
            *asked,
        ): "there is no model 'someone/nothing', neither a folder here",
        ("generate", "--model", "someone/gated", *asked): "someone/gated is gated: accept its conditions at https://",
        ("generate", "--model", "no name!", *asked): "there is no model 'no name!'",
        ("generate", "--model", "./empty", *asked): "./empty could not be loaded: ",
        ("chat", "--model", models / "plain"): f"{models / 'plain'} has no chat template; use: webgpu-torch generate",
        (*causal, "--dtype", "float3"): "there is no type float3; use float32, float16 or bfloat16",
        (*causal, "--dtype", "int64"): "there is no type int64; use float32",
        (*causal, "--device", "abacus"): "--device abacus: ",
        ("classify", "--model", models / "pictures", "missing.png"): "there is no file missing.png",
        ("transcribe", "--model", models / "speech", "missing.wav"): "there is no file missing.wav",
        ("transcribe", "--model", models / "speech", "text.wav"): "text.wav is not a WAV file",
        ("transcribe", "--model", models / "causal", "mono.wav"): (
            f"{models / 'causal'} is of another kind (LlamaConfig) than webgpu-torch transcribe takes"
        ),
    }
    found = commands(*expected, **hub, HF_HOME=str(tmp_path / "home"))
    said = [_problem(each) for each in found]
    wrong = [(each, start) for each, start in zip(said, expected.values()) if not each.startswith(f"error: {start}")]
    assert wrong == []


@pytest.mark.slow
def test_problems_of_pipelines(commands: Commands, hub: dict[str, str], models: Path, tmp_path: Path) -> None:
    """``image`` explains the same, and checkpoints that are no pipelines."""
    pytest.importorskip("diffusers")
    asked = ("--prompt", "a")
    names = ("someone/nothing", "someone/gated", models / "causal")
    found = commands(*(("image", "--model", each, *asked) for each in names), **hub, HF_HOME=str(tmp_path / "home"))
    starts = ("there is no model", "someone/gated is gated", f"{models / 'causal'} has no model_index.json")
    for ended, start in zip(found, starts):
        assert _problem(ended).startswith(f"error: {start}")


@pytest.mark.slow
def test_no_network(commands: Commands, tmp_path: Path) -> None:
    """The hub is out of reach and the model is not in the cache."""
    pytest.importorskip("diffusers")
    asked = ("--model", "someone/nothing", "--prompt", "a")
    for ended in commands(("generate", *asked), ("image", *asked), HF_HOME=str(tmp_path / "home")):
        start = "error: the hub can't be reached and someone/nothing is not in the cache"
        assert _problem(ended).startswith(start)


NO_ROOM = """
import sys
from webgpu_torch_cli import main
import webgpu_torch as torch
from webgpu_torch_models.pretrained import PreTrainedModel
def fail(*_: object, **__: object) -> None:
    raise MemoryError("WebGPU out of memory")
torch.nn.Module.to = PreTrainedModel.from_pretrained = fail
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "library"), [("auto", ()), ("float16", ()), ("auto", ("--attn", "sdpa"))])
def test_too_large(dtype: str, library: tuple[str, ...], run_python: RunPython, models: Path) -> None:
    """Out of memory: what the weights need, and what to try."""
    asked = ("generate", "--model", models / "causal", "--prompt", "a", "--dtype", dtype, *library)
    said = _problem(run_python("-W", "ignore", "-c", NO_ROOM, *asked))
    need = "KiB as they are stored" if dtype == "auto" else "KiB in float16"
    assert said.startswith(f"error: there is not enough memory for {models / 'causal'}: its ")
    assert " parameters need " in said and need in said and "--device cpu" in said
    assert ("--dtype float16" in said) is (dtype == "auto")
