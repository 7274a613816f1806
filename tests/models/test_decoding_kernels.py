"""A captured token takes few kernels for each layer: starting them is what it waits for on fast GPUs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "decoding_kernels.py"
#: most kernels of a layer: the projections of attention and two of the MLP, each with the norm or gate before it, where queries
#: and keys are rotated, one for that, which stores keys and values, too (else the projections do), attention in two passes, its
#: output; norms and gates by themselves where threads of the host compute
MOST = {
    "discrete": {"gpt2": 6, "llama": 7, "qwen2": 7, "qwen3": 7, "gemma3": 11, "phi3": 7, "qwen3 int4": 8},
    "default": {"gpt2": 6, "llama": 7, "qwen2": 7, "qwen3": 9, "gemma3": 13, "phi3": 7, "qwen3 int4": 10},
    "llvmpipe": {"gpt2": 9, "llama": 11, "qwen2": 11, "qwen3": 11, "gemma3": 13, "phi3": 11, "qwen3 int4": 12},
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
