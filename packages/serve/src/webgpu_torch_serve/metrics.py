"""What the server counts, in Prometheus' form."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

#: upper ends of classes of seconds
SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


class Metrics:
    """Counters of one server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def name(text: str) -> str:
            return f"webgpu_torch_{text}"

        self.answers = Counter(name("http_requests"), "Answered requests", ["path", "status"], registry=registry)
        self.seconds = Histogram(
            name("http_request_seconds"),
            "Time until an answer is whole, or a stream begins",
            ["path"],
            registry=registry,
            buckets=SECONDS,
        )
        self.first = Histogram(
            name("time_to_first_token_seconds"), "Time until the first token", registry=registry, buckets=SECONDS
        )
        self.tokens = Counter(name("generated_tokens"), "Tokens that were generated", registry=registry)
        self.prompt_tokens = Counter(name("prompt_tokens"), "Tokens that were read", registry=registry)
        self.refused = Counter(name("refused_requests"), "Requests beyond the queue's bound", registry=registry)
        self.cancelled = Counter(name("cancelled_requests"), "Texts that nobody waited for", registry=registry)
        self.running = Gauge(name("running_requests"), "Texts in the running batch", registry=registry)
        self.waiting = Gauge(name("waiting_requests"), "Texts that wait for room", registry=registry)
        self.free_pages = Gauge(name("free_pages"), "Free pages of the key-value cache", registry=registry)

    def show(self, running: int, waiting: int, free_pages: int) -> None:
        """Note how full the batch is."""
        self.running.set(running)
        self.waiting.set(waiting)
        self.free_pages.set(free_pages)

    def text(self) -> bytes:
        """Return all numbers."""
        return generate_latest(self.registry)
