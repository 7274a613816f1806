"""The memory that loading takes beside the model is that of one shard, however many there are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "loading_memory.py"
SHARD = 20 * 10**6


def said(*given: object) -> str:
    command = [sys.executable, str(PROGRAM), *map(str, given)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow_on("float32")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_shards_are_read_one_after_the_other(dtype: str, tmp_path: Path) -> None:
    """Three layers more take the memory of three layers more, in the type that is asked for, and of a shard at most."""
    found = []
    for layers in (2, 5):
        folder = tmp_path / str(layers)
        said("write", folder, layers)
        assert len(list(folder.glob("*.safetensors"))) >= 2 * layers - 1
        found.append(json.loads(said("load", folder, dtype)))
    less, more = found
    # What is made once, such as compiled kernels, is in both.
    assert more["taken"] - less["taken"] <= more["model"] - less["model"] + SHARD
