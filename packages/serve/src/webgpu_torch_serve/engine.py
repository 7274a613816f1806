"""One thread that owns the device: it takes requests between its steps and sends tokens to those who wait for them."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from webgpu_torch_models.generation import Request
from webgpu_torch_models.generation.config import GenerationOptions

from webgpu_torch_serve.errors import Busy, Draining, RequestError
from webgpu_torch_serve.metrics import Metrics
from webgpu_torch_serve.models import Served

T = TypeVar("T")


class Job(NamedTuple):
    """A text that is to be continued.

    Fields:
        prompt: its tokens.
        options: of :class:`~webgpu_torch_models.generation.GenerationConfig`.
        seed: of the random numbers, if it matters.
    """

    prompt: list[int]
    options: GenerationOptions
    seed: int | None = None


class Event(NamedTuple):
    """What happened to one of a client's texts.

    Fields:
        number: of the text among the client's.
        tokens: the new ones.
        finish_reason: as a request's; None while it goes on.
        error: why it ends, if something went wrong.
    """

    number: int
    tokens: Sequence[int] = ()
    finish_reason: str | None = None
    error: Exception | None = None


class Texts:
    """The texts that one client waits for, as events in the client's event loop.

    Args:
        engine: continues them.
        jobs: what they are.
    """

    def __init__(self, engine: Engine, jobs: Sequence[Job]) -> None:
        self.engine, self.jobs = engine, jobs
        self.requests: list[Request | None] = [None] * len(jobs)
        self.sent = [0] * len(jobs)
        self.open = set(range(len(jobs)))
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def send(self, event: Event) -> None:
        """Hand an event to the client; called by the engine's thread."""
        if event.finish_reason is not None or event.error is not None:
            if event.number not in self.open:
                return
            self.open.discard(event.number)
            self.engine.leave()
        self._loop.call_soon_threadsafe(self.events.put_nowait, event)

    def cancel(self, number: int | None = None) -> None:
        """Give up one of the texts, or all; their rows and pages are free before the engine's next step."""
        numbers = range(len(self.jobs)) if number is None else [number]
        self.engine.post(lambda: self.engine.cancel(self, numbers))


class Engine:
    """A thread that loads a model and computes for all requests.

    Args:
        load: returns what is served; it is called in the thread.
        queue_size: how many requests may wait, beside those that run.
        metrics: counts what happens.
    """

    def __init__(self, load: Callable[[], Served], queue_size: int = 64, metrics: Metrics | None = None) -> None:
        self._load, self.queue_size = load, queue_size
        self.metrics = metrics or Metrics()
        self.served: Served
        self.draining = False
        self._outstanding = 0
        self._lock = threading.Lock()
        self._posts: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._texts: dict[Request, tuple[Texts, int]] = {}
        self._ready: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="webgpu-torch engine", daemon=True)

    def start(self) -> Engine:
        """Start the thread and wait until the model is loaded.

        Raises:
            Exception: what loading raised.
        """
        self._thread.start()
        error = self._ready.get()
        if error is not None:
            raise error
        return self

    def stop(self) -> None:
        """Give up what runs, and end the thread."""
        self._posts.put(None)
        self._thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether the thread still computes."""
        return self._thread.is_alive()

    @property
    def outstanding(self) -> int:
        """How many requests run or wait."""
        return self._outstanding

    def enter(self, count: int) -> None:
        """Take up so many requests.

        Raises:
            Busy: they are too many for now.
            Draining: there are to be no more.
            RequestError: they are always too many, or the thread has failed.
        """
        if self.draining:
            raise Draining
        if not self.is_alive:
            raise RequestError("the server's engine has failed", 500)
        most = self.served.sizes.most + self.queue_size
        if count > most:
            raise RequestError(f"the request asks for {count} texts; the server takes {most} at once")
        with self._lock:
            if self._outstanding + count > most:
                self.metrics.refused.inc()
                raise Busy(self._outstanding, most)
            self._outstanding += count

    def leave(self) -> None:
        """Note that a request has ended."""
        with self._lock:
            self._outstanding -= 1

    def post(self, function: Callable[[], None]) -> None:
        """Have the thread call a function between two steps."""
        self._posts.put(function)

    async def submit(self, jobs: Sequence[Job]) -> Texts:
        """Have texts continued; return them when all are accepted.

        Raises:
            Busy, Draining: they are not taken.
            ValueError: one of them can not be continued; none of them is, then.
        """
        self.enter(len(jobs))
        texts = Texts(self, jobs)
        accepted: asyncio.Future[None] = texts._loop.create_future()
        self.post(lambda: self._accept(texts, accepted))
        try:
            await accepted
        except asyncio.CancelledError:
            texts.cancel()
            raise
        return texts

    async def call(self, function: Callable[[], T]) -> T:
        """Return what a function returns that computes in the engine's thread.

        Raises:
            Busy, Draining: it is not called.
            Exception: what the function raises.
        """
        self.enter(1)
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()

        def work() -> None:
            try:
                found = function()
            except Exception as error:
                loop.call_soon_threadsafe(_fail, result, error)
            else:
                loop.call_soon_threadsafe(_settle, result, found)
            finally:
                self.leave()

        self.post(work)
        return await result

    # What follows runs in the thread.

    def _run(self) -> None:
        try:
            self.served = self._load()
            self._batch = self.served.new_batch()
        except BaseException as error:
            self._ready.put(error)
            return
        self._ready.put(None)
        reason: Exception = Draining()
        try:
            while self._take_posts():
                self._step()
        except Exception as error:
            reason = error
        self._fail_all(reason)

    def _fail_all(self, error: Exception) -> None:
        """Tell everybody who waits that nothing more comes."""
        for texts, number in self._texts.values():
            texts.send(Event(number, error=error))
        self._texts.clear()

    @property
    def _is_busy(self) -> bool:
        return self._batch is not None and bool(self._batch.waiting or self._batch.running)

    def _take_posts(self) -> bool:
        """Do what was posted, waiting for it where nothing else is to be done; return False at the end."""
        while True:
            try:
                function = self._posts.get(block=not self._is_busy)
            except queue.Empty:
                return True
            if function is None:
                return False
            function()

    def _accept(self, texts: Texts, accepted: asyncio.Future[None]) -> None:
        assert self._batch is not None
        requests: list[Request] = []
        try:
            requests.extend(self._batch.submit(each.prompt, seed=each.seed, **each.options) for each in texts.jobs)
        except Exception as error:
            for each in requests:
                self._batch.cancel(each)
            for _ in texts.jobs:
                self.leave()
            texts._loop.call_soon_threadsafe(_fail, accepted, error)
            return
        for number, request in enumerate(requests):
            texts.requests[number] = request
            self._texts[request] = texts, number
            self.metrics.prompt_tokens.inc(len(request.prompt))
        texts._loop.call_soon_threadsafe(_settle, accepted, None)

    def cancel(self, texts: Texts, numbers: Sequence[int]) -> None:
        """End texts that still go on; called by the thread."""
        for number in numbers:
            request = texts.requests[number]
            if self._batch is not None and request is not None and number in texts.open:
                self._batch.cancel(request)
                self._texts.pop(request, None)
                self.metrics.cancelled.inc()
                texts.send(Event(number, finish_reason="cancelled"))

    def _step(self) -> None:
        if not self._is_busy or self._batch is None:
            return
        try:
            grown = self._batch.step()
        except Exception as error:
            # Nothing is known of the device's state: everybody hears of it, and the next requests begin anew.
            self._fail_all(error)
            self._batch = self.served.new_batch()
            return
        for request in dict.fromkeys(grown):
            found = self._texts.get(request)
            if found is not None:
                self._send_tokens(request, *found)
        batch = self._batch
        self.metrics.show(len(batch.running), len(batch.waiting), len(batch.pool.free))

    def _send_tokens(self, request: Request, texts: Texts, number: int) -> None:
        new = request.tokens[texts.sent[number] :]
        texts.sent[number] += len(new)
        self.metrics.tokens.inc(len(new))
        if request.finish_reason is not None:
            del self._texts[request]
        if request.finish_reason == "overflow":
            texts.send(Event(number, new, error=RequestError("the model's logits overflowed for this text", 500)))
        else:
            texts.send(Event(number, new, request.finish_reason))


def _settle(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[T], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


@contextmanager
def as_request_errors() -> Iterator[None]:
    """Say as an error of the request what a model says of it."""
    try:
        yield
    except ValueError as error:
        raise RequestError(str(error)) from error
