"""A captured token takes few kernels for each layer: starting them is what it waits for on fast GPUs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "decoding_kernels.py"
#: most kernels of a layer: two norms, the projections of attention, what writes keys and values, attention in two passes, its
#: output, three of the MLP, and where queries and keys are rotated, one for that
MOST = {
    "discrete": {"gpt2": 8, "llama": 10, "qwen2": 10, "qwen3": 11, "gemma3": 13, "phi3": 10, "qwen3 int4": 14},
    "default": {"gpt2": 8, "llama": 10, "qwen2": 10, "qwen3": 13, "gemma3": 17, "phi3": 10, "qwen3 int4": 16},
    "llvmpipe": {"gpt2": 10, "llama": 12, "qwen2": 12, "qwen3": 13, "gemma3": 15, "phi3": 12, "qwen3 int4": 16},
}


@pytest.mark.slow
def test_kernels_of_a_layer() -> None:
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    more = {
        f"{family} on {profile}": (found[profile][family], most)
        for profile, families in MOST.items()
        for family, most in families.items()
        if found[profile][family] > most
    }
    assert not more
