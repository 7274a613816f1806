"""The package safetensors in Python writes and reads what the compiled one reads and writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import webgpu_torch as torch
from webgpu_torch_core.files.safetensors import SafetensorError
from webgpu_torch_drop_in import safetensors_twin as twin

compiled = pytest.importorskip("safetensors.numpy")

#: run where there is no safetensors: what libraries find instead
WITHOUT = """
import importlib.machinery, importlib.metadata, importlib.util, sys
real, found = importlib.machinery.PathFinder.find_spec, importlib.metadata.MetadataPathFinder.find_distributions
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] == "safetensors" else real(name, path, target)
importlib.machinery.PathFinder.find_spec = find_spec
importlib.metadata.MetadataPathFinder.find_distributions = lambda context=importlib.metadata.DistributionFinder.Context(): (
    each for each in found(context) if (each.name or "").lower() != "safetensors")
assert importlib.util.find_spec("safetensors") is None
import webgpu_torch
webgpu_torch.install_as_torch()
from safetensors import safe_open
from safetensors.torch import load_file
print(importlib.metadata.version("safetensors"), importlib.util.find_spec("safetensors").name)
print(load_file(sys.argv[1])["whole"].tolist())
"""


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    whole = torch.arange(12.0).reshape(3, 4)
    return {
        "whole": whole,
        "turned": whole.t(),
        "half": whole.half(),
        "counts": torch.tensor([1, -(2**40)]),
        "one": torch.ones(()),
    }


def test_what_it_writes_is_read(tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    twin.save_file(tensors, path, {"format": "pt"})
    for found in (
        compiled.load_file(path),
        compiled.load(twin.save(tensors)),
        twin.load_file(path),
        twin.load(path.read_bytes()),
    ):
        assert found.keys() == tensors.keys()
        for name, each in tensors.items():
            assert found[name].tolist() == each.tolist() and tuple(found[name].shape) == tuple(each.shape)


def test_files_are_open_until_they_are_not(tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    twin.save_file(tensors, path, {"format": "pt"})
    with twin.safe_open(path, framework="pt") as file:
        assert set(file.keys()) == tensors.keys() and file.metadata() == {"format": "pt"}
        part = file.get_slice("turned")
        assert part.get_shape() == [4, 3] and part.get_dtype() == "F32" and part[1:3, 0].tolist() == [1.0, 2.0]
        assert file.get_tensor("half").dtype is torch.float16
        with pytest.raises(SafetensorError, match="File does not contain tensor none"):
            file.get_tensor("none")
    assert twin.storage_ptr(tensors["whole"]) == twin.storage_ptr(tensors["turned"])
    assert twin.storage_size(tensors["whole"]) == 48


@pytest.mark.slow
def test_libraries_find_it_where_there_is_no_other(tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    twin.save_file(tensors, path)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(path)], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines() == [f"{twin.VERSION} safetensors", str(tensors["whole"].tolist())]
