"""Files written here are read by PyTorch (``weights_only=True``), and PyTorch's are read here."""

from __future__ import annotations

import io
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from ops_oracle import compare, to_ours, to_torch

KINDS = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")


def read_by_oracle(obj: Any) -> Any:
    stream = io.BytesIO()
    ours.save(obj, stream)
    stream.seek(0)
    return torch.load(stream, weights_only=True)


def read_here(obj: Any, **options: Any) -> Any:
    stream = io.BytesIO()
    torch.save(obj, stream)
    stream.seek(0)
    return ours.load(stream, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (0, 2)])
def test_types_and_shapes(kind: str, shape: tuple[int, ...]) -> None:
    values = (torch.arange(torch.Size(shape).numel()) % 5).reshape(shape).to(getattr(torch, kind))
    found = read_by_oracle(to_ours(values, "cpu"))
    assert found.dtype == values.dtype and torch.equal(found, values)
    compare(read_here(values), values)


def test_views_of_one_memory() -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    theirs = {"whole": whole, "column": whole[:, 1], "transposed": whole.t(), "part": whole[1:, ::2]}
    mine = to_ours(whole, "cpu")
    found = read_by_oracle({"whole": mine, "column": mine[:, 1], "transposed": mine.t(), "part": mine[1:, ::2]})
    for name, each in theirs.items():
        assert torch.equal(found[name], each) and found[name].stride() == each.stride()
    found["column"].fill_(9)
    assert found["whole"][0, 1] == 9
    back = read_here(theirs)
    for name, each in theirs.items():
        compare(back[name], each)
        assert back[name].stride() == each.stride() and back[name].storage_offset() == each.storage_offset()
    back["part"].zero_()
    assert back["whole"][1, 0].item() == 0 and back["transposed"][2, 2].item() == 0


def test_parameters_and_gradients() -> None:
    mine = ours.nn.Parameter(ours.ones(2))
    found = read_by_oracle({"p": mine, "leaf": ours.ones(2, requires_grad=True), "plain": ours.ones(2)})
    assert type(found["p"]) is torch.nn.Parameter and found["p"].requires_grad
    assert found["leaf"].requires_grad and not found["plain"].requires_grad
    back = read_here({"p": torch.nn.Parameter(torch.ones(2)), "leaf": torch.ones(2, requires_grad=True)})
    assert type(back["p"]) is ours.nn.Parameter and back["p"].requires_grad
    assert type(back["leaf"]) is ours.Tensor and back["leaf"].requires_grad and back["leaf"].is_leaf


def test_state_dictionaries() -> None:
    ours.manual_seed(3)
    torch.manual_seed(3)
    mine, theirs = (
        library.nn.Sequential(library.nn.Linear(3, 4), library.nn.BatchNorm1d(4)) for library in (ours, torch)
    )
    found = read_by_oracle(mine.state_dict())
    assert isinstance(found, OrderedDict) and list(found) == list(theirs.state_dict())
    theirs.load_state_dict(found)
    mine.load_state_dict(read_here(theirs.state_dict()))
    for name, each in theirs.state_dict().items():
        compare(mine.state_dict()[name], each)
    optimizer = ours.optim.Adam(mine.parameters())
    mine(ours.ones(5, 3)).sum().backward()
    optimizer.step()
    state = read_by_oracle(optimizer.state_dict())
    torch.optim.Adam(theirs.parameters()).load_state_dict(state)


def test_plain_objects() -> None:
    values = {
        "numbers": [1, 2.5, True, None, -(2**70)], "text": "ä", "nested": ({"a": (1, 2)}, []), 3: {4, 5}, "bytes": b"x",
        "size": torch.Size([1, 2]), "type": torch.float16, "device": torch.device("cpu"),
    }  # fmt: skip
    back = read_here({key: each for key, each in values.items() if key != "device"})
    assert (
        back["nested"] == values["nested"]
        and back["numbers"] == values["numbers"]
        and back["size"] == ours.Size([1, 2])
    )
    assert back["type"] is ours.float16
    found = read_by_oracle({"type": ours.bfloat16, "size": ours.Size([3]), "numbers": values["numbers"]})
    assert (
        found["type"] is torch.bfloat16 and found["size"] == torch.Size([3]) and found["numbers"] == values["numbers"]
    )


def test_places() -> None:
    values = {"a": torch.arange(3.0)}
    for place in ("cpu", ours.device("cpu"), {"cpu": "cpu"}, {"cuda:0": "cpu"}, lambda storage, location: storage):
        assert read_here(values, map_location=place)["a"].device == ours.device("cpu")
    assert read_here(values, map_location="meta")["a"].is_meta
    assert read_here(values, map_location={"cpu": "meta"})["a"].is_meta
    heard = []
    read_here(values, map_location=lambda storage, location: heard.append((storage.nbytes(), location)))
    assert heard == [(12, "cpu")]
    with pytest.raises((TypeError, RuntimeError)):
        read_here(values, map_location=3.5)


def test_devices(device: str) -> None:
    tensor = ours.arange(6.0, device=device).reshape(2, 3)
    stream = io.BytesIO()
    ours.save({"t": tensor, "v": tensor[:, 1]}, stream)
    stream.seek(0)
    found = ours.load(stream, map_location=device)
    assert found["t"].device == tensor.device and found["v"].tolist() == [1.0, 4.0]
    found["v"].zero_()
    assert found["t"].tolist() == [[0, 0, 2], [3, 0, 5]]


def test_files_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    ours.save([ours.ones(2)], path)
    assert torch.load(str(path), weights_only=True)[0].tolist() == [1, 1]
    torch.save(torch.ones(3), path)
    assert ours.load(str(path)).tolist() == [1, 1, 1] and ours.load(path, mmap=True).tolist() == [1, 1, 1]
    with open(path, "rb") as file:
        assert ours.load(file).tolist() == [1, 1, 1]
    with pytest.raises(FileNotFoundError):
        ours.load(tmp_path / "missing.pt")
    assert to_torch(ours.load(path)).shape == (3,)
