"""``webgpu-torch bench``."""

from __future__ import annotations

import json
from argparse import Namespace

from .models import chosen_dtype


def bench(options: Namespace) -> int:
    """Print how fast a decoder reads and writes on this machine, and what memory it takes."""
    import webgpu_torch_core as torch
    from webgpu_torch_drop_in.libraries import preferred_device

    try:
        from webgpu_torch_models import AutoModelForCausalLM
        from webgpu_torch_models.measuring import measure_decoder
    except ImportError as error:
        raise SystemExit(f'error: bench needs pip install "webgpu-torch[models]" ({error})') from error
    model = AutoModelForCausalLM.from_pretrained(
        options.model,
        dtype=chosen_dtype(torch, options),
        device=options.device or preferred_device(),
        quantize=options.quantize,
    )
    try:
        found = measure_decoder(model, options.prompt_tokens, options.new_tokens, options.batch_size)
    except ValueError as error:
        raise SystemExit(f"error: {error}") from error
    if options.json:
        print(json.dumps({"model": options.model, **found.to_dict()}))
        return 0
    rates, peak = found.to_dict(), found.peak_bytes
    print(f"{options.model}: {found.parameters / 1e6:.1f} million parameters, {found.dtype}, on {found.device}")
    print(f"prefill  {found.prompt_tokens} tokens in {found.prefill_seconds * 1e3:.2f} ms, "
          f"{rates['prefill_tokens_per_second']:.0f} tokens per second")  # fmt: skip
    print(f"decode   {found.token_seconds * 1e3:.2f} ms a token ({found.host_seconds * 1e3:.2f} ms of the program's), "
          f"{rates['tokens_per_second']:.1f} tokens per second")  # fmt: skip
    print(f"memory   {found.weight_bytes / 2**20:.1f} MiB of weights"
          + ("" if peak is None else f", {peak / 2**20:.1f} MiB at most"))  # fmt: skip
    return 0
