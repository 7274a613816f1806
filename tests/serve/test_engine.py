"""The engine's thread: what fails there is told to those who wait, and the next requests are served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from webgpu_torch_models import TextStream, Tokenizer
from webgpu_torch_models.generation import ContinuousBatch
from webgpu_torch_serve import CacheSizes, Engine, load
from webgpu_torch_serve.engine import Event, Job
from webgpu_torch_serve.errors import Busy, RequestError
from webgpu_torch_serve.texts import AnswerText


def run(folder: Path, work: Callable[[Engine], Coroutine[Any, Any, None]]) -> None:
    sizes = CacheSizes(pages=16, most=2)
    engine = Engine(lambda: load(folder, device="cpu", sizes=sizes), queue_size=1).start()
    try:
        asyncio.run(work(engine))
        assert engine.outstanding == 0
    finally:
        engine.stop()


async def finished(engine: Engine, *jobs: Job) -> list[Event]:
    """Return the last event of each text."""
    texts = await engine.submit(jobs)
    found: dict[int, Event] = {}
    while len(found) < len(jobs):
        event = await texts.events.get()
        if event.error is not None or event.finish_reason is not None:
            found[event.number] = event
    return [found[number] for number in range(len(jobs))]


JOB = Job([1, 2, 3], {"max_new_tokens": 3, "do_sample": False, "num_beams": 1})


def test_a_failing_step(text_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = ContinuousBatch.step

    def failing(batch: ContinuousBatch) -> Any:
        monkeypatch.setattr(ContinuousBatch, "step", step)
        raise RuntimeError("the device is lost")

    async def work(engine: Engine) -> None:
        assert [each.finish_reason for each in await finished(engine, JOB)] == ["length"]
        monkeypatch.setattr(ContinuousBatch, "step", failing)
        assert [str(each.error) for each in await finished(engine, JOB, JOB)] == ["the device is lost"] * 2
        assert [each.finish_reason for each in await finished(engine, JOB)] == ["length"]

    run(text_folder, work)


def test_bounds(text_folder: Path) -> None:
    """A request that is wrong takes no place; one beyond the bound is turned away."""

    async def work(engine: Engine) -> None:
        with pytest.raises(ValueError, match="token 96 is none of the model's 96"):
            await engine.submit([JOB, JOB._replace(prompt=[96])])
        with pytest.raises(RequestError, match="asks for 4 texts; the server takes 3 at once"):
            await engine.submit([JOB] * 4)
        long = JOB._replace(options={**JOB.options, "max_new_tokens": 120, "eos_token_id": None})
        texts = await engine.submit([long, long])
        with pytest.raises(Busy, match="has 2 requests and takes 3 at once"):
            await engine.submit([JOB, JOB])
        texts.cancel()
        assert [(await finished(engine, JOB))[0].finish_reason] == ["length"]

    run(text_folder, work)


def test_a_thread_that_failed(text_folder: Path) -> None:
    async def work(engine: Engine) -> None:
        def fail() -> None:
            raise MemoryError("no memory")

        engine.post(fail)
        engine._thread.join()
        with pytest.raises(RequestError, match="engine has failed"):
            await engine.submit([JOB])

    run(text_folder, work)


class Letters:
    """A tokenizer whose tokens are letters."""

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return "".join(map(chr, ids))


@pytest.mark.parametrize(
    ("stops", "given", "wanted"),
    [
        ([], "abc", ["a", "b", "c"]),
        (["bc"], "abcd", ["a", "", "", ""]),
        (["bd"], "abcd", ["a", "", "bc", "d"]),
        (["abab!"], "ababab!c", ["", "", "", "", "ab", "", "", ""]),
        (["cd", "bcx"], "abcd", ["a", "", "", "b"]),
        (["xyz"], "axy", ["a", "", "xy"]),
    ],
)
def test_stop_texts(stops: list[str], given: str, wanted: list[str]) -> None:
    tokenizer: Tokenizer = Letters()  # type: ignore[assignment]
    tokenizer.stream = lambda: TextStream(tokenizer)  # type: ignore[method-assign]
    answer = AnswerText(tokenizer, stops)
    found = [answer.put([ord(each)], number + 1 == len(given)) for number, each in enumerate(given)]
    assert found == wanted
