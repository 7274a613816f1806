"""How fast a decoder reads and writes on this machine, and what memory it takes."""

from __future__ import annotations

import dataclasses
import statistics
import time

import webgpu_torch_core as torch
from webgpu_torch_core.record.devices import engine_for, is_accelerator, synchronize

from webgpu_torch_models.causal import CausalLM
from webgpu_torch_models.generation import Decoder
from webgpu_torch_models.generation.loop import check_length


@dataclasses.dataclass
class DecoderSpeed:
    """What was measured.

    Attributes:
        device, dtype: where, and of what type the weights are.
        parameters: how many numbers the network has, tied ones once; those in a few bits are not counted.
        weight_bytes: what its weights take.
        peak_bytes: the most memory in use at once, or None where the device does not say.
        batch_size, prompt_tokens, new_tokens: sequences, tokens read and tokens written of each.
        prefill_seconds: for reading a prompt, the median of several.
        token_seconds: for a token of each sequence, the median of several texts.
        host_seconds: how much of it the program takes to tell the device what to do.
    """

    device: str
    dtype: str
    parameters: int
    weight_bytes: int
    peak_bytes: int | None
    batch_size: int
    prompt_tokens: int
    new_tokens: int
    prefill_seconds: float
    token_seconds: float
    host_seconds: float

    def to_dict(self) -> dict[str, object]:
        """Return what was measured by name, and tokens per second."""
        tokens, prompt = self.batch_size / self.token_seconds, self.batch_size * self.prompt_tokens
        rates = {"prefill_tokens_per_second": prompt / self.prefill_seconds, "tokens_per_second": tokens}
        return {**dataclasses.asdict(self), **rates}


def measure_decoder(
    model: CausalLM, prompt_tokens: int = 512, new_tokens: int = 64, batch_size: int = 1, repeats: int = 3
) -> DecoderSpeed:
    """Measure a decoder: prompts of token 0, then tokens one after the other, as :func:`generate` works.

    Args:
        model: in evaluation mode.
        prompt_tokens, new_tokens, batch_size: what is measured.
        repeats: how many texts are measured, after one to warm up: while the first go on, the kernels that are captured get
            text of their own.

    Raises:
        ValueError: a number is not positive, or the model has not so many positions.
    """
    for name, value in (("prompt_tokens", prompt_tokens), ("new_tokens", new_tokens), ("batch_size", batch_size)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    device, warm = model.device, 4
    capacity = prompt_tokens + warm + new_tokens
    check_length(model, prompt_tokens, warm + new_tokens)
    ids = torch.zeros((batch_size, prompt_tokens), dtype=torch.int64, device=device)
    config = model.generation_config.changed(do_sample=False, num_beams=1)
    prefills, tokens, hosts = [], [], []
    with torch.no_grad():
        for _ in range(repeats + 1):
            decoder = Decoder(model, config, batch_size, capacity, compile=is_accelerator(device))
            synchronize(device)
            started = time.perf_counter()
            token = decoder.prefill(ids)
            synchronize(device)
            prefills.append(time.perf_counter() - started)
            for _ in range(warm):
                token = decoder.advance(token)
            synchronize(device)
            started = time.perf_counter()
            for _ in range(new_tokens):
                token = decoder.advance(token)
            hosts.append((time.perf_counter() - started) / new_tokens)
            synchronize(device)
            tokens.append((time.perf_counter() - started) / new_tokens)
    peak = engine_for(device).device.max_memory_allocated() or None
    weights = [*model.parameters(), *model.buffers()]
    return DecoderSpeed(
        str(device), str(model.dtype).removeprefix("torch."), model.num_parameters(), sum(each.nbytes for each in weights),
        peak, batch_size, prompt_tokens, new_tokens, statistics.median(prefills[1:]),
        statistics.median(tokens[1:]), statistics.median(hosts[1:]),
    )  # fmt: skip
