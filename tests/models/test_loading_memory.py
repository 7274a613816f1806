"""The memory that loading takes beside the model is that of one shard, however many there are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

PROGRAM = Path(__file__).parent / "loading_memory.py"
SHARD = 20 * 10**6


def said(*given: object) -> str:
    command = [sys.executable, str(PROGRAM), *map(str, given)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_shards_are_read_one_after_the_other(dtype: str, tmp_path: Path) -> None:
    """Three layers more take the memory of three layers more, in the type that is asked for, and of a shard at most."""
    found = []
    for layers in (2, 5):
        folder = tmp_path / str(layers)
        said("write", folder, layers, SHARD)
        assert len(list(folder.glob("*.safetensors"))) >= 2 * layers - 1
        found.append(json.loads(said("load", folder, dtype)))
    less, more = found
    # What is made once, such as compiled kernels, is in both.
    assert more["taken"] - less["taken"] <= more["model"] - less["model"] + SHARD


@pytest.mark.slow
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    layers=st.integers(2, 4),
    megabytes=st.integers(8, 40),
    dtype=st.sampled_from([None, "float16"]),
    quantize=st.sampled_from([None, "int8", "int4"]),
)
@example(layers=3, megabytes=20, dtype=None, quantize=None)
@example(layers=3, megabytes=20, dtype="float16", quantize="int4")
def test_the_host_holds_no_more_than_a_shard(
    layers: int, megabytes: int, dtype: str | None, quantize: str | None, tmp_path: Path
) -> None:
    """While weights go to the GPU, encoded or not, the host never has more of them than 1.2 times the largest shard."""
    folder = tmp_path / f"{layers}-{megabytes}"
    if not folder.exists():
        said("write", folder, layers, megabytes * 10**6)
    largest = max(each.stat().st_size for each in folder.glob("*.safetensors"))
    found = json.loads(said("host", folder, dtype, quantize))
    assert (found["encoded"] > 0) == (quantize is not None)
    assert found["taken"] <= 1.2 * largest
