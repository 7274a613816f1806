"""Texts and chats: what is asked for, and the answers whole or as a stream of events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator

from starlette.requests import Request as HTTPRequest
from starlette.responses import JSONResponse, Response, StreamingResponse

from webgpu_torch_serve.engine import Engine, Event, Job, Texts, as_request_errors
from webgpu_torch_serve.errors import RequestError
from webgpu_torch_serve.parameters import Fields, prompts, sampling
from webgpu_torch_serve.texts import AnswerText

JSON = dict[str, object]
#: how many tokens a text gets where nobody says
COMPLETION_TOKENS, CHAT_TOKENS = 16, 512
#: how many answers one request may ask for
MOST_CHOICES = 32


class Asked:
    """What a request asks for.

    Args:
        engine: answers it.
        fields: of the request.
        is_chat: whether it is a conversation.

    Raises:
        RequestError: something is wrong with a field.
    """

    def __init__(self, engine: Engine, fields: Fields, is_chat: bool) -> None:
        self.engine, self.is_chat = engine, is_chat
        self.id = f"{'chatcmpl' if is_chat else 'cmpl'}-{uuid.uuid4().hex}"
        self.created = int(time.time())
        rows = self._conversation(fields) if is_chat else self._texts(fields)
        self.options = sampling(fields)
        self.count = fields.integer("n", 1, MOST_CHOICES, 1) or 1
        self.seed = fields.integer("seed", 0, 2**63 - 1)
        self.streams = fields.flag("stream")
        self.with_usage = self._stream_options(fields)
        most = fields.integer("max_tokens", 1)
        if is_chat:
            most = fields.integer("max_completion_tokens", 1, default=most)
        _refuse(fields)
        fields.end()
        self.prompt_tokens = sum(map(len, rows))
        self.jobs = [self._job(row, number, most) for row in rows for number in range(self.count)]

    def _job(self, row: list[int], number: int, most: int | None) -> Job:
        if most is None:
            usual = CHAT_TOKENS if self.is_chat else COMPLETION_TOKENS
            most = max(1, min(usual, self.engine.served.room(len(row))))
        seed = None if self.seed is None else self.seed + number
        return Job(row, {**self.options, "max_new_tokens": most}, seed)

    def _texts(self, fields: Fields) -> list[list[int]]:
        tokenizer = self.engine.served.tokenizer
        assert tokenizer is not None
        with as_request_errors():
            return [each if isinstance(each, list) else tokenizer.encode(each) for each in prompts(fields, "prompt")]

    def _conversation(self, fields: Fields) -> list[list[int]]:
        tokenizer = self.engine.served.tokenizer
        assert tokenizer is not None
        none: list[object] = []
        messages = fields.take(
            "messages", "a list of messages, each with a role", lambda each: isinstance(each, list) and each != [],
            none, required=True,
        )  # fmt: skip
        if tokenizer.chat_template is None:
            raise RequestError(
                "the model has no chat template: it was not made for conversations; use /v1/completions",
                param="messages",
            )
        plain = [_plain(each, number) for number, each in enumerate(messages)]
        with as_request_errors():
            return [tokenizer.encode(tokenizer.apply_chat_template(plain), add_special_tokens=False)]

    def _stream_options(self, fields: Fields) -> bool:
        options = Fields(fields.take("stream_options", "an object", lambda each: isinstance(each, dict), JSON()))
        found = options.flag("include_usage")
        options.refuse(include_obfuscation="streams are sent as they are")
        options.end()
        return found

    # Answers

    def chunk(self, choices: list[JSON], usage: dict[str, int] | None = None) -> JSON:
        """Return an answer, or a part of one, as JSON."""
        kind = "text_completion"
        if self.is_chat:
            kind = "chat.completion.chunk" if self.streams else "chat.completion"
        result = {"id": self.id, "object": kind, "created": self.created, "model": self.engine.served.name}
        return {**result, "choices": choices, **({} if usage is None else {"usage": usage})}

    def choice(self, number: int, text: str | None, reason: str | None) -> JSON:
        """Return one of the answers as JSON; in a stream, what is new of it: "" is its beginning."""
        said: JSON = {"text": text or ""}
        if self.is_chat and self.streams:
            role = {"role": "assistant"} if text == "" else {}
            said = {"delta": role if text is None else {**role, "content": text}}
        elif self.is_chat:
            said = {"message": {"role": "assistant", "content": text, "refusal": None}}
        return {"index": number, **said, "logprobs": None, "finish_reason": reason}

    def usage(self, tokens: int) -> dict[str, int]:
        """Return how many tokens were read and generated."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": tokens,
            "total_tokens": self.prompt_tokens + tokens,
        }


def _plain(message: object, number: int) -> dict[str, object]:
    """Return a message whose content is a text."""
    where = f"messages[{number}]"
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise RequestError(f"{where} must be an object with a role, got {message!r:.80}", param=where)
    content = message.get("content")
    if isinstance(content, list):
        parts = [
            each.get("text") if isinstance(each, dict) and each.get("type") == "text" else None for each in content
        ]
        content = None if None in parts else "".join(map(str, parts))
    if not isinstance(content, str):
        raise RequestError(f"{where}.content must be a text, got {message.get('content')!r:.80}", param=where)
    return {**message, "content": content}


def _refuse(fields: Fields) -> None:
    once, calls = "a token's alternatives are not kept", "the model calls no functions"
    fields.refuse(
        logprobs=once, top_logprobs=once, logit_bias="no token has a bias", best_of="use n", echo="the prompt is not repeated",
        suffix="texts are continued only", presence_penalty="use repetition_penalty",
        frequency_penalty="use repetition_penalty", tools=calls, tool_choice=calls, functions=calls,
    )  # fmt: skip
    form = fields.take("response_format", "an object", lambda each: isinstance(each, dict), {"type": "text"})
    if form.get("type") != "text":
        raise RequestError(f"response_format={form!r:.80} is not supported: answers are texts", param="response_format")


async def follow(asked: Asked, texts: Texts) -> AsyncIterator[tuple[Event, str]]:
    """Give the events of texts, with what is new of the text; "stop" and "length" are the only reasons to finish.

    Raises:
        RequestError: something went wrong in the engine.
    """
    served, stops = asked.engine.served, asked.options.get("stop_strings") or ()
    assert served.tokenizer is not None
    answers = [AnswerText(served.tokenizer, stops) for _ in texts.jobs]
    left = set(range(len(answers)))
    started = time.perf_counter()
    while left:
        event = await texts.events.get()
        if event.number not in left:
            continue
        if event.error is not None:
            known = isinstance(event.error, RequestError)
            raise event.error if known else RequestError(f"the model could not go on: {event.error}", 500)
        if started and event.tokens:
            asked.engine.metrics.first.observe(time.perf_counter() - started)
            started = 0.0
        answer = answers[event.number]
        said = answer.put(event.tokens, event.finish_reason is not None)
        if answer.is_over:
            # The text may end before the engine has seen it.
            texts.cancel(event.number)
            event = event._replace(finish_reason="stop")
        if event.finish_reason is not None:
            left.discard(event.number)
        yield event, said


@contextlib.asynccontextmanager
async def given_up_with(request: HTTPRequest, texts: Texts) -> AsyncIterator[None]:
    """Give texts up when the block is left, or when the client is gone."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        texts.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        texts.cancel()


async def _whole(request: HTTPRequest, asked: Asked, texts: Texts) -> Response:
    said, reasons, tokens = [""] * len(asked.jobs), [""] * len(asked.jobs), 0
    async with given_up_with(request, texts):
        async for event, text in follow(asked, texts):
            said[event.number] += text
            tokens += len(event.tokens)
            reasons[event.number] = event.finish_reason or ""
    choices = [asked.choice(number, *each) for number, each in enumerate(zip(said, reasons, strict=True))]
    return JSONResponse(asked.chunk(choices, asked.usage(tokens)))


async def _events(request: HTTPRequest, asked: Asked, texts: Texts) -> AsyncIterator[str]:
    tokens = 0
    try:
        async with given_up_with(request, texts):
            if asked.is_chat:
                for number in range(len(asked.jobs)):
                    yield _line(asked.chunk([asked.choice(number, "", None)]))
            async for event, text in follow(asked, texts):
                tokens += len(event.tokens)
                if text:
                    yield _line(asked.chunk([asked.choice(event.number, text, None)]))
                if event.finish_reason is not None:
                    yield _line(asked.chunk([asked.choice(event.number, None, event.finish_reason)]))
    except RequestError as error:
        yield _line(error.body())
        return
    if asked.with_usage:
        yield _line(asked.chunk([], asked.usage(tokens)))
    yield "data: [DONE]\n\n"


def _line(value: JSON) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


async def _answer(request: HTTPRequest, asked: Asked) -> Response:
    with as_request_errors():
        texts = await asked.engine.submit(asked.jobs)
    if asked.streams:
        return StreamingResponse(_events(request, asked, texts), media_type="text/event-stream")
    return await _whole(request, asked, texts)


async def complete(request: HTTPRequest, engine: Engine, fields: Fields) -> Response:
    """Answer a request for texts that continue others.

    Raises:
        RequestError: it cannot be answered.
    """
    return await _answer(request, Asked(engine, fields, False))


async def chat(request: HTTPRequest, engine: Engine, fields: Fields) -> Response:
    """Answer a request for a conversation's next message.

    Raises:
        RequestError: it cannot be answered.
    """
    return await _answer(request, Asked(engine, fields, True))
