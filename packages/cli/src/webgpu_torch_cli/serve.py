"""``webgpu-torch serve``: a model behind OpenAI's HTTP interface."""

from __future__ import annotations

import json
import math
from argparse import ArgumentParser, Namespace


def add_options(command: ArgumentParser) -> None:
    """Add what stands on the line."""
    command.add_argument("model", help="a folder with a checkpoint, or an id on the Hugging Face hub")
    command.add_argument("--host", default="127.0.0.1", help="0.0.0.0 for every machine that reaches this one")
    command.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    command.add_argument("--name", help="what requests call the model; the folder's name, or the id")
    command.add_argument("--device", help="cpu, webgpu or webgpu:N; the GPU if there is a real one")
    command.add_argument("--dtype", default="auto", help="float32, float16, bfloat16, or auto for the checkpoint's own")
    command.add_argument("--quantize", choices=("int8", "int4", "nf4", "fp8"), help="keep weights in so few bits")
    command.add_argument("--api-key", help="what clients must send; without one everybody may ask")
    command.add_argument("--batch", type=int, default=32, help="how many texts run at once")
    command.add_argument("--queue", type=int, default=64, help="how many requests may wait; those beyond get 429")
    command.add_argument("--cache-tokens", type=int, default=8192, help="tokens that all running texts have together")
    command.add_argument("--patience", type=float, default=30, help="seconds that running requests have at the end")


def run_server(options: Namespace) -> int:
    """Serve until interrupted."""
    import webgpu_torch as torch
    from webgpu_torch_drop_in.libraries import preferred_device

    from .models import chosen_dtype

    try:
        from webgpu_torch_serve import CacheSizes, Served, load, serve
    except ModuleNotFoundError as error:
        raise SystemExit(f"error: {error.name} is not installed: pip install 'webgpu-torch[serve]'") from error
    for name in ("batch", "cache_tokens"):
        if getattr(options, name) < 1:
            raise SystemExit(f"error: --{name.replace('_', '-')} must be at least 1, got {getattr(options, name)}")
    sizes = CacheSizes(math.ceil(options.cache_tokens / CacheSizes.page_size), most=options.batch)
    device, dtype = options.device or preferred_device(), chosen_dtype(torch, options)

    def loaded() -> Served:
        return load(
            options.model, name=options.name, device=device, dtype=dtype, quantize=options.quantize, sizes=sizes
        )

    def started(served: Served, address: str) -> None:
        found = {"name": served.name, "kind": served.kind, "device": str(device), "address": address}
        said = f"Serving {served.name} ({served.kind}) on {device} at {address} – Ctrl+C ends it"
        print(json.dumps(found) if options.json else said, flush=True)

    try:
        serve(
            loaded, host=options.host, port=options.port, api_key=options.api_key, queue_size=options.queue,
            patience=options.patience, started=started,
        )  # fmt: skip
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise SystemExit(f"error: port {options.port} cannot be served: {error}; another one: --port N") from error
    return 0
