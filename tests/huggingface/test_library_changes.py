"""Libraries that keep tables of device types know of this library's after ``install_as_torch``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

RunCode = Callable[..., str]
INSTALL = "import webgpu_torch; webgpu_torch.install_as_torch(); import torch\n"


def _run(run_code: RunCode, code: str, *arguments: object) -> list[str]:
    import textwrap

    return run_code(INSTALL + textwrap.dedent(code), *arguments).split()


def test_diffusers_asks_no_float64_of_webgpu(run_code: RunCode) -> None:
    pytest.importorskip("diffusers")
    code = """
    from diffusers.utils.torch_utils import maybe_adjust_dtype_for_device
    for device in ("webgpu", "cpu", "mps"):
        print(maybe_adjust_dtype_for_device(torch.float64, torch.device(device)))
    print(maybe_adjust_dtype_for_device(torch.int64, torch.device("webgpu")))
    """
    assert _run(run_code, code) == ["torch.float32", "torch.float64", "torch.float32", "torch.int64"]


def test_safetensors_loads_to_a_device(run_code: RunCode) -> None:
    pytest.importorskip("safetensors")
    code = """
    import inspect
    import safetensors.torch as files
    device = "webgpu" if torch.webgpu.is_available() else "cpu"
    files.save_file({"a": torch.arange(6).reshape(2, 3)}, "a.safetensors")
    for place in (device, "cpu"):
        loaded = files.load_file("a.safetensors", device=place)["a"]
        print(loaded.device.type == place, loaded.tolist() == [[0, 1, 2], [3, 4, 5]])
    print("safe_open" in inspect.getsource(files), type(files.__loader__).__name__, "device" in inspect.signature(files.load_file).parameters)
    """
    assert _run(run_code, code) == ["True", "True", "True", "True", "True", "SourceFileLoader", "True"]


def test_device_modules(run_code: RunCode) -> None:
    code = """
    kinds = torch.get_device_module("cpu") is torch.cpu, torch.get_device_module(torch.device("webgpu")) is torch.webgpu
    torch.get_device_module("cpu").synchronize()
    print(*kinds, torch.get_device_module() in (torch.cpu, torch.webgpu), torch.cpu.current_device(), torch.cpu.device_count())
    for wrong in (3, "hpu"):
        try:
            torch.get_device_module(wrong)
        except RuntimeError as error:
            print("refused")
    """
    assert _run(run_code, code) == ["True", "True", "True", "cpu", "1", "refused", "refused"]
