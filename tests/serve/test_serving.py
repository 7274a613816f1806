"""What the server does besides texts: keys, health, embeddings, images, and an end that loses nothing."""

from __future__ import annotations

import base64
import io
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from servers import Server, serving, write_encoder

openai = pytest.importorskip("openai")


def status_of(address: str) -> int:
    try:
        with urllib.request.urlopen(address) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.slow
def test_keys_and_the_end(text_folder: Path) -> None:
    """Only who has the key is answered; at a signal, what runs goes on to its end and nothing new begins."""
    with serving(text_folder, "--api-key", "opensesame", "--name", "mine", "--patience", "60") as server:
        assert status_of(f"{server.address}health") == status_of(server.address) == 200
        with server.client() as stranger, pytest.raises(openai.AuthenticationError):
            stranger.models.list()
        with server.client(api_key="opensesame") as client:
            options: dict[str, Any] = {"model": "mine", "prompt": "a", "seed": 1, "extra_body": {"top_k": 0}}
            whole: list[Any] = []
            client.completions.create(max_tokens=1, **options)
            running = client.completions.create(max_tokens=150, stream=True, **options)
            parts = iter(running)
            first = next(parts)
            server.process.send_signal(signal.SIGTERM)
            end = time.monotonic() + 20
            while status_of(f"{server.address}health") == 200 and time.monotonic() < end:
                time.sleep(0.01)
            with pytest.raises(openai.InternalServerError, match="shutting down") as refused:
                client.completions.create(**options)
            assert refused.value.status_code == 503 and refused.value.response.headers["retry-after"] == "1"
            whole = [first, *parts]
        assert whole[-1].choices[0].finish_reason in ("length", "stop")
        assert server.process.wait(timeout=30) == 0


@pytest.mark.slow
def test_an_end_without_patience(text_folder: Path) -> None:
    with serving(text_folder, "--patience", "0.1") as server, server.client() as client:
        options: dict[str, Any] = {"seed": 1, "extra_body": {"top_k": 0}, "max_tokens": 8000}
        parts = iter(client.completions.create(model="letters", prompt="a", stream=True, **options))
        next(parts)
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(openai.APIError, match="shutting down"):
            list(parts)
        assert server.process.wait(timeout=30) == 0


@pytest.mark.slow
def test_embeddings(tmp_path: Path) -> None:
    import webgpu_torch_core as torch
    from webgpu_torch_models import AutoModel, AutoTokenizer
    from webgpu_torch_models.bert import mean_pooling

    folder = write_encoder(tmp_path / "vectors")
    texts = ["hello", "hi", "a longer text"]
    model, tokenizer = AutoModel.from_pretrained(folder, device="cpu"), AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        ids = [torch.tensor([tokenizer.encode(each)]) for each in texts]
        wanted = [mean_pooling(model(each).last_hidden_state, torch.ones_like(each))[0].tolist() for each in ids]
    with serving(folder) as server, server.client() as client:
        # The client asks for base64 by itself.
        for form in ({}, {"encoding_format": "float"}):
            found = client.embeddings.create(model="vectors", input=texts, **form)
            for row, each in zip(wanted, found.data, strict=True):
                assert each.embedding == pytest.approx(row, abs=1e-5)
        assert found.usage.prompt_tokens == 20
        with pytest.raises(openai.BadRequestError, match="40 positions are more than the model's"):
            client.embeddings.create(model="vectors", input="a" * 40)
        with pytest.raises(openai.BadRequestError, match="dimensions=4 is not supported"):
            client.embeddings.create(model="vectors", input="a", dimensions=4)
        with pytest.raises(openai.BadRequestError, match="vectors is for embeddings, not for text"):
            client.completions.create(model="vectors", prompt="a")


@pytest.mark.slow
def test_images(tmp_path: Path) -> None:
    Image = pytest.importorskip("PIL.Image")
    sys.path.insert(0, str(Path(__file__).parent.parent / "models"))
    from test_diffusion_pipelines import folder_of

    (tmp_path / "pictures").mkdir()
    with serving(folder_of("pipeline", tmp_path / "pictures")) as server, server.client() as client:
        options: dict[str, Any] = {"model": "pictures", "prompt": "a red cat", "size": "16x16"}
        extra = {"steps": 2, "seed": 1}
        found = [client.images.generate(**options, n=2, extra_body=extra).data for _ in range(2)]
        images = [Image.open(io.BytesIO(base64.b64decode(each.b64_json))) for each in found[0]]
        assert [image.size for image in images] == [(16, 16)] * 2 and images[0].tobytes() != images[1].tobytes()
        assert [each.b64_json for each in found[0]] == [each.b64_json for each in found[1]]
        with pytest.raises(openai.BadRequestError, match='size must be a size such as "512x512"'):
            client.images.generate(**{**options, "size": "large"})
        with pytest.raises(openai.BadRequestError, match="must be multiples of"):
            client.images.generate(**{**options, "size": "17x16"})


def test_what_cannot_be_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from webgpu_torch_cli import main

    assert main(["serve", str(tmp_path / "nowhere"), "--device", "cpu", "--port", "0"]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_a_taken_port(text_server: Server, text_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from webgpu_torch_cli import main

    port = text_server.address.rstrip("/").rpartition(":")[2]
    assert main(["serve", str(text_folder), "--device", "cpu", "--port", port]) == 1
    assert f"port {port} cannot be served" in capsys.readouterr().err


@pytest.mark.slow
def test_a_minute_of_32_streams(text_folder: Path, alone: Any) -> None:
    """No error, no token lost or out of order, every text the one it has alone, and no memory that grows."""
    jobs = [(f"{chr(97 + number)} prompt of letters"[: 3 + number], number, 20 + 3 * number) for number in range(16)]
    wanted = {number: alone(prompt, count, number) for prompt, number, count in jobs}
    done, problems, sizes = [0] * 32, [], []
    with serving(text_folder) as server:
        end = time.monotonic() + 60

        def ask(thread: int) -> None:
            with server.client(timeout=120) as client:
                while time.monotonic() < end:
                    prompt, number, count = jobs[(thread + 5 * done[thread]) % len(jobs)]
                    try:
                        parts = client.completions.create(
                            model="letters", prompt=prompt, seed=number, max_tokens=count, stream=True
                        )
                        text = "".join(part.choices[0].text for part in parts)
                    except openai.OpenAIError as error:
                        problems.append(repr(error))
                        return
                    if text != wanted[number]:
                        problems.append(f"{text!r} is not {wanted[number]!r}")
                    done[thread] += 1

        threads = [threading.Thread(target=ask, args=[number]) for number in range(32)]
        for each in threads:
            each.start()
        while any(each.is_alive() for each in threads):
            status = Path(f"/proc/{server.process.pid}/status").read_text()
            sizes.append(int(status.split("VmRSS:")[1].split()[0]) / 1024)
            time.sleep(2)
        tokens = server.metric("generated_tokens_total")
        assert server.metric("free_pages") == 512
    print(f"\n{sum(done)} texts, {tokens:.0f} tokens; MiB resident: {[round(each) for each in sizes]}")
    assert not problems, problems[:3]
    assert min(done) >= 1
    # After the first third, everything that is kept has been made.
    assert max(sizes[len(sizes) // 3 :]) <= 1.1 * sizes[len(sizes) // 3]
