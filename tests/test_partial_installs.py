"""What works where not everything is installed: without the CPU backend, without NumPy, without both."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

#: runs before each program: the distributions and modules named do not exist for it
HIDE = """
import importlib.metadata, sys
everything = importlib.metadata.distributions
importlib.metadata.distributions = lambda **context: [
    each for each in everything(**context) if each.metadata["Name"] not in {hidden!r}
]
for name in {modules!r}:
    sys.modules[name] = None
"""
BACKENDS = ("webgpu-torch-backend-cpu", "webgpu-torch-backend-wgpu")


def run(program: str, hidden=BACKENDS[:1], modules=()) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", HIDE.format(hidden=tuple(hidden), modules=tuple(modules)) + program],
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "WEBGPU_TORCH_DEVICE": "", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


FILES = """
import io, os, tempfile
import webgpu_torch as torch
from webgpu_torch_core.files import load_safetensors, save_safetensors

place = {place!r}
x = torch.tensor([[1.0, 2.0], [3.0, 5.0]], device=place)
file = io.BytesIO()
torch.save({{"x": x, "view": x.t()}}, file)
def again(**options):
    file.seek(0)
    return torch.load(file, **options)
for wanted in (place, torch.device(place), {{"cpu": place}}, lambda storage, where: torch.UntypedStorage(device=place)):
    loaded = again(map_location=wanted)
    assert loaded["x"].device == x.device and loaded["view"].tolist() == [[1.0, 3.0], [2.0, 5.0]]
    loaded["x"][0, 0] = 7
    assert loaded["view"][0, 0].item() == 7
for options in ({{}}, {{"map_location": "cpu"}}, {{"map_location": lambda storage, where: storage}}):
    assert again(**options)["x"].device.type == "python"
path = os.path.join(tempfile.mkdtemp(), "x.safetensors")
save_safetensors({{"x": x}}, path)
assert load_safetensors(path)["x"].device.type == "python"
assert load_safetensors(path, device=place)["x"].tolist() == x.tolist()
layer = torch.nn.Linear(2, 2, device=place)
optimizer = torch.optim.AdamW(layer.parameters())
layer(x).sum().backward()
optimizer.step()
layer.load_state_dict({{key: value.cpu() for key, value in layer.state_dict().items()}})
optimizer.load_state_dict(optimizer.state_dict())
"""


@pytest.mark.parametrize("place", ["webgpu", "python"])
def test_files_without_the_cpu_backend(place):
    run(FILES.format(place=place))


def test_the_host_without_the_cpu_backend():
    run("""
import numpy as np
import webgpu_torch as torch

x = torch.tensor([1.0, 2.0], device="webgpu")
assert x.cpu().device.type == "python" and x.cpu().numpy().tolist() == [1.0, 2.0]
assert np.asarray(x).tolist() == np.add(x, 1).sub(1).tolist() == x.numpy(force=True).tolist() == [1.0, 2.0]
array = np.arange(6, dtype=np.float32).reshape(2, 3).T
for made in (torch.from_numpy(array), torch.from_dlpack(array), torch.asarray(array)):
    assert made.device.type == "python" and made.tolist() == array.tolist()
for made in (torch.as_tensor(array, device="webgpu"), torch.tensor(array), torch.asarray(array, device="webgpu")):
    assert made.device.type == "webgpu" and made.tolist() == array.tolist()
assert torch.frombuffer(bytearray(8), dtype=torch.float32).tolist() == [0.0, 0.0]
torch.manual_seed(3)
state = torch.get_rng_state()
assert len(state) == 5056
drawn = torch.randn(3, device="python").tolist()
torch.set_rng_state(state)
with torch.random.fork_rng():
    assert torch.randn(3, device="python").tolist() == drawn
assert torch.Generator("webgpu").get_state().shape == (16,)
packed = torch.nn.utils.rnn.pack_sequence([torch.zeros(3, 1, device="webgpu"), torch.zeros(2, 1, device="webgpu")])
assert packed.batch_sizes.tolist() == [2, 2, 1]
assert len(list(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), shuffle=True))) == 2
""")


def test_what_needs_the_cpu_backend_says_so_without_a_warning():
    run("""
import webgpu_torch as torch

x = torch.eye(2, device="webgpu")
for attempt in (lambda: torch.linalg.eigvalsh(x), lambda: torch.zeros(2, device="cpu"), lambda: x.to("cpu")):
    try:
        attempt()
    except RuntimeError as error:
        assert "pip install webgpu-torch-backend-cpu" in str(error), error
    else:
        raise AssertionError("not refused")
assert torch.host_fallbacks() == {}
""")


def test_without_numpy_the_command_is_named():
    run("""
import webgpu_torch as torch

x = torch.tensor([1.0, 2.0], device="python")
for attempt in (x.numpy, x.__array__, lambda: x.numpy(force=True)):
    try:
        attempt()
    except ModuleNotFoundError as error:
        assert "pip install numpy" in str(error) and error.name == "numpy"
    else:
        raise AssertionError("not refused")
assert torch.frombuffer(bytearray(8), dtype=torch.float32).tolist() == [0.0, 0.0]
try:
    torch.zeros(2, device="cpu")
except RuntimeError as error:
    assert "webgpu-torch-backend-cpu" in str(error) and "numpy" in str(error), error
else:
    raise AssertionError("not refused")
""", hidden=(), modules=("numpy",))  # fmt: skip


def test_with_the_core_alone():
    run("""
import webgpu_torch as torch

try:
    torch.zeros(2)
except RuntimeError as error:
    assert "pip install webgpu-torch-backend-cpu" in str(error)
else:
    raise AssertionError("not refused")
with torch.device("python"):
    layer = torch.nn.Linear(2, 2)
    layer(torch.ones(1, 2)).sum().backward()
    assert layer.weight.grad.cpu().tolist() == [[1.0, 1.0], [1.0, 1.0]]
""", hidden=BACKENDS)  # fmt: skip
