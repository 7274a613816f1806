"""The server answers OpenAI's own client with texts and chats: the same text as the model gives by itself."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

openai = pytest.importorskip("openai")


def wait_for(condition: Any, patience: float = 20.0) -> None:
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "it did not come so far"
        time.sleep(0.02)


def test_models(client: Any) -> None:
    assert [each.id for each in client.models.list()] == ["letters"]
    assert client.models.retrieve("letters").owned_by == "webgpu-torch"


def test_completions(client: Any, alone: Any) -> None:
    found = client.completions.create(model="letters", prompt="The sea", temperature=0, max_tokens=12)
    assert found.choices[0].text == alone("The sea", 12)
    assert found.choices[0].finish_reason == "length"
    assert (found.usage.prompt_tokens, found.usage.completion_tokens, found.usage.total_tokens) == (7, 12, 19)
    # Several prompts, several answers of each; seeds go up.
    found = client.completions.create(
        model="letters", prompt=["ab", "c"], n=2, seed=5, max_tokens=6, extra_body={"top_k": 20}
    )
    wanted = [alone(prompt, 6, seed, top_k=20) for prompt in ("ab", "c") for seed in (5, 6)]
    assert [each.text for each in found.choices] == wanted
    assert [each.index for each in found.choices] == [0, 1, 2, 3]
    tokens = client.completions.create(model="letters", prompt=[52, 72, 69], temperature=0).choices[0].text
    assert tokens == alone("The", 16)


@pytest.mark.slow
def test_chats(client: Any, alone: Any) -> None:
    messages: list[Any] = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
    ]
    found = client.chat.completions.create(
        model="letters", messages=messages, seed=3, temperature=0.7, top_p=0.9, max_completion_tokens=9
    )
    wanted = alone("system: be brief;user: hello;assistant:", 9, 3, temperature=0.7, top_p=0.9)
    assert found.choices[0].message.content == wanted and found.choices[0].message.role == "assistant"


def test_streams(client: Any, alone: Any) -> None:
    wanted = alone("user: hi;assistant:", 10)
    parts = list(
        client.chat.completions.create(
            model="letters", messages=[{"role": "user", "content": "hi"}], temperature=0, max_tokens=10, stream=True,
            stream_options={"include_usage": True},
        )
    )  # fmt: skip
    assert parts[0].choices[0].delta.role == "assistant"
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == wanted
    assert [part.choices[0].finish_reason for part in parts if part.choices][-1] == "length"
    assert parts[-1].usage.completion_tokens == 10 and not parts[-1].choices
    said = client.completions.create(model="letters", prompt="The", temperature=0, max_tokens=10, stream=True)
    assert "".join(part.choices[0].text for part in said) == alone("The", 10)


@pytest.mark.parametrize("stream", [pytest.param(False, marks=pytest.mark.slow), True])
def test_stop_texts_are_cut_off(client: Any, alone: Any, stream: bool) -> None:
    text = alone("The sea", 12)
    stop = text[5:8]
    found = client.completions.create(
        model="letters", prompt="The sea", temperature=0, max_tokens=12, stop=[stop, "none of it"], stream=stream
    )
    choices = [part.choices[0] for part in found] if stream else found.choices
    assert "".join(each.text for each in choices) == text[: text.find(stop)]
    assert choices[-1].finish_reason == "stop"


@pytest.mark.parametrize(
    ("options", "param", "message"),
    [
        ({"temperature": 3}, "temperature", "temperature must be a number from 0 to 2, got 3"),
        ({"top_p": "half"}, "top_p", "top_p must be a number from 0 to 1, got 'half'"),
        ({"n": 0}, "n", "n must be an integer from 1 to 32, got 0"),
        ({"max_tokens": -1}, "max_tokens", "max_tokens must be an integer of at least 1, got -1"),
        ({"logprobs": 3}, "logprobs", "logprobs=3 is not supported"),
        ({"stop": ["a", ""]}, "stop", "stop must be a text or a list of texts"),
        ({"prompt": {"a": 1}}, "prompt", "prompt must be a text, a list of texts"),
        ({"prompt": [500]}, None, "token 500 is none of the model's 96"),
        ({"max_tokens": 5000}, None, "need 313 pages of the key-value cache"),
        ({"extra_body": {"temprature": 1}}, "temprature", "there is no field temprature here, got temprature=1"),
        ({"extra_body": {"repetition_penalty": 0}}, "repetition_penalty", "must be a number greater than 0, got 0"),
    ],
)
def test_mistakes(client: Any, options: dict[str, Any], param: str | None, message: str) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.completions.create(**{"model": "letters", "prompt": "a", **options})
    assert message in raised.value.body["message"]
    assert (raised.value.param, raised.value.type) == (param, "invalid_request_error")


def test_other_mistakes(client: Any, text_server: Any) -> None:
    with pytest.raises(openai.NotFoundError, match="served is letters"):
        client.completions.create(model="other", prompt="a")
    with pytest.raises(openai.BadRequestError, match="letters is for text, not for embeddings"):
        client.embeddings.create(model="letters", input="a")
    with pytest.raises(openai.BadRequestError, match=r"messages\[0\].content must be a text"):
        image = {"type": "image_url", "image_url": {"url": "https://example.org"}}
        client.chat.completions.create(model="letters", messages=[{"role": "user", "content": [image]}])
    with pytest.raises(openai.BadRequestError, match="the body is no JSON"):
        client.post("/completions", body=None, content=b'{"model": ', cast_to=object)
    with pytest.raises(openai.NotFoundError):
        client.get("/nothing", cast_to=object)


def test_beyond_the_bound(client: Any, text_server: Any) -> None:
    """Seven texts run or wait; the eighth client is turned away, and those before it get all of theirs."""
    options = {"model": "letters", "temperature": 0, "max_tokens": 120, "extra_body": {"repetition_penalty": 1.01}}
    begun = [client.completions.create(prompt=f"text {number}", stream=True, **options) for number in range(7)]
    with pytest.raises(openai.RateLimitError, match="has 7 requests and takes 7 at once") as raised:
        client.completions.create(prompt="a", **options)
    assert raised.value.response.headers["retry-after"] == "1"
    for each in begun:
        each.close()
    wait_for(lambda: text_server.metric("running_requests") == 0)
    assert text_server.metric("free_pages") == 256
    assert text_server.metric("refused_requests_total") >= 1


@pytest.mark.parametrize("stream", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_clients_that_leave(client: Any, text_server: Any, stream: bool) -> None:
    """A client that leaves frees its row and pages at once, long before its text would have been whole."""
    before = text_server.metric("generated_tokens_total")
    cancelled = text_server.metric("cancelled_requests_total")
    options: dict[str, Any] = {"model": "letters", "prompt": "Once", "max_tokens": 4000, "stream": stream}
    options |= {"seed": 1, "extra_body": {"top_k": 0}}
    if stream:
        with client.completions.create(**options) as parts:
            next(iter(parts))
    else:
        with pytest.raises(openai.APITimeoutError):
            client.completions.create(timeout=0.4, **options)
    wait_for(lambda: text_server.metric("cancelled_requests_total") == cancelled + 1)
    wait_for(lambda: text_server.metric("free_pages") == 256)
    assert text_server.metric("generated_tokens_total") - before < 300


@pytest.mark.slow
def test_many_at_once(client: Any, alone: Any) -> None:
    found: dict[int, str] = {}

    def ask(seed: int) -> None:
        parts = client.completions.create(model="letters", prompt="abc" * seed, seed=seed, max_tokens=8, stream=True)
        found[seed] = "".join(part.choices[0].text for part in parts)

    threads = [threading.Thread(target=ask, args=[seed]) for seed in range(1, 7)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == {seed: alone("abc" * seed, 8, seed) for seed in range(1, 7)}
