"""``torch.hub`` keeps what it downloads; operations of ``torch.library`` are found by name."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import webgpu_torch as torch
from webgpu_torch import hub, library


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(hub, "_dir", str(tmp_path / "hub"))
    return tmp_path


def test_checkpoints_are_downloaded_once(folder: Path) -> None:
    torch.save({"weight": torch.arange(3)}, folder / "model.pt")
    content = (folder / "model.pt").read_bytes()
    named = f"model-{hashlib.sha256(content).hexdigest()[:8]}.pt"
    (folder / named).write_bytes(content)
    address = (folder / named).as_uri()
    assert hub.load_state_dict_from_url(address, check_hash=True)["weight"].tolist() == [0, 1, 2]
    (folder / named).unlink()
    assert hub.load_state_dict_from_url(address)["weight"].tolist() == [0, 1, 2]
    assert [each.name for each in (folder / "hub" / "checkpoints").iterdir()] == [named]


def test_a_wrong_sum_leaves_nothing(folder: Path) -> None:
    (folder / "model-00000000.pt").write_bytes(b"other")
    with pytest.raises(RuntimeError, match='invalid hash value \\(expected "00000000", got "d9298a10'):
        hub.load_state_dict_from_url((folder / "model-00000000.pt").as_uri(), check_hash=True)
    with pytest.raises(OSError):
        hub.load_state_dict_from_url((folder / "missing.pt").as_uri())
    assert list((folder / "hub" / "checkpoints").iterdir()) == []


def test_models_of_a_folder(folder: Path) -> None:
    (folder / "hubconf.py").write_text(
        'def small(size):\n    """A small one."""\n    return [size]\n\n_hidden = print\n'
    )
    assert hub.list(str(folder)) == ["small"] and hub.help(str(folder), "small") == "A small one."
    assert hub.load(str(folder), "small", 3, source="local") == [3]
    with pytest.raises(RuntimeError, match="Cannot find callable large in hubconf"):
        hub.load(str(folder), "large", source="local")
    with pytest.raises(NotImplementedError, match="does not run code from the network"):
        hub.load("owner/name", "small")
    with pytest.raises(FileNotFoundError, match=r"hubconf\.py is not there"):
        hub.load(str(folder / "none"), "small", source="local")


def test_folder_of_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_dir", None)
    monkeypatch.setenv("TORCH_HOME", "/somewhere")
    assert hub.get_dir() == "/somewhere/hub"
    hub.set_dir("/else")
    assert hub.get_dir() == "/else"


def test_libraries() -> None:
    made = library.Library("house", "DEF")
    assert made.define("triple(Tensor x) -> Tensor") == "triple"
    with pytest.raises(NotImplementedError, match="house::triple has no function yet"):
        torch.ops.house.triple(torch.ones(1))
    made.impl("triple", lambda x: 3 * x, "CompositeExplicitAutograd")
    made.impl("house::triple", lambda x: x.new_empty(x.shape), "Meta")
    assert torch.ops.house.triple.default(torch.ones(2)).tolist() == [3, 3]
    made.impl("triple", lambda x: 3 * x + 1, "CPU")
    assert torch.ops.house.triple(torch.ones(1)).item() == 4
    made.impl("triple", lambda x: torch.full_like(x, 7), "AutocastCPU")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.ops.house.triple(torch.ones(1)).item() == 7
    library.register_autograd("house::triple", lambda ctx, grad: grad * 3)
    x = torch.ones(2, requires_grad=True)
    torch.ops.house.triple(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3, 3]
    with pytest.raises(ValueError, match="Unsupported library kind: OTHER"):
        library.Library("house", "OTHER")
    with pytest.raises(ValueError, match="IMPL defines no operations"):
        library.Library("house", "IMPL").define("x() -> ()")
    with pytest.raises(RuntimeError, match="operator house::none does not exist"):
        made.impl("none", print)


def test_functions_of_an_operation() -> None:
    library.define("house::halve", "(Tensor x) -> Tensor")

    @library.impl("house::halve", "default")
    def halve(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    assert torch.ops.house.halve(torch.ones(1)).item() == 0.5
    with pytest.raises(ValueError, match="should be 'namespace::name', got 'halve'"):
        library.define("halve", "() -> ()")


def test_types_of_tensors() -> None:
    assert torch.arange(2).type(torch.FloatTensor).dtype is torch.float32
    assert torch.arange(2).type("torch.DoubleTensor").dtype is torch.float64
    assert torch.arange(2).type(torch.int8).dtype is torch.int8
    assert (torch.arange(2) < 1).type(torch.Tensor).dtype is torch.arange(2).type("torch.Tensor").dtype is torch.float32
    with pytest.raises(ValueError, match="invalid type: 'list'"):
        torch.arange(2).type(list)


def test_arguments_of_to_are_read_as_modules_read_them() -> None:
    from webgpu_torch._C import _nn

    assert _nn._parse_to("cpu", torch.float16) == (torch.device("cpu"), torch.float16, False, None)
    found = _nn._parse_to(torch.ones(1, dtype=torch.float64), True, memory_format=torch.channels_last)
    assert found == (torch.device("cpu"), torch.float64, True, torch.channels_last)
    assert _nn._parse_to(1.5)[1] is torch.float64


def test_a_function_that_is_mapped_can_tell() -> None:
    from webgpu_torch import _C

    told: list[bool] = []

    def double(x: torch.Tensor) -> torch.Tensor:
        told.append(_C._are_functorch_transforms_active())
        return 2 * x

    assert torch.vmap(double)(torch.ones(2)).tolist() == [2, 2]
    assert told == [True] and not _C._are_functorch_transforms_active()
