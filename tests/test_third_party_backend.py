"""The example backend, installed as its author's users would install it, is found and computes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples" / "third-party-backend"


def run(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def python_path(tmp_path_factory):
    """Install the distribution into a folder of its own; return the module search path with it."""
    pytest.importorskip("hatchling")
    target = tmp_path_factory.mktemp("site")
    # Built from a copy, so that nothing lands beside the sources.
    source = tmp_path_factory.mktemp("source") / "backend"
    shutil.copytree(FOLDER, source, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--no-deps", "--no-build-isolation", "--target", str(target), str(source)]
    # Asked in a process of its own: looking for pip here would let setuptools replace distutils.
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
        run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options])
    else:
        run(["uv", "pip", "install", "--quiet", "--python", sys.executable, *options])
    return os.pathsep.join([str(target), *(each for each in sys.path if each)])


PROGRAM = """
import webgpu_torch_core as torch
from webgpu_torch_core.backend.plugins import describe, registry

print(describe())
x = torch.arange(6, dtype=torch.float32, device="example").reshape(2, 3)
y = torch.softmax(x, dim=1) @ x.t() + torch.relu(x - 2).sum()
print(y.device, y.shape, [round(each, 4) for row in y.tolist() for each in row])
print(registry.device("example", 0).description())
"""


def test_installed_backend_is_found_and_computes(python_path):
    lines = run([sys.executable, "-W", "error", "-c", PROGRAM], PYTHONPATH=python_path).splitlines()
    (found,) = [line for line in lines if line.startswith("device type example:")]
    assert "webgpu-torch-backend-example 0.1.0 (webgpu_torch_backend_example.plugin), 1 device(s)" in found
    # softmax of three consecutive numbers, against the rows 0 1 2 and 3 4 5, plus 1 + 2 + 3
    weights = [0.09003057, 0.24472847, 0.66524096]
    mean = weights[1] + 2 * weights[2]
    expected = [round(each + 6, 4) for each in (mean, mean + 3, mean, mean + 3)]
    assert lines[-2] == f"example:0 torch.Size([2, 2]) {expected}"
    assert lines[-1] == "{'adapter': 'Python loops'}"


FACTS = """
import io
import warnings

import webgpu_torch as torch
from webgpu_torch_core.backend.interface import Facts
from webgpu_torch_core.backend.plugins import hookimpl, registry
from webgpu_torch_backend_example.plugin import ExampleBackend


class Fast(ExampleBackend):
    device_type = "fast"
    facts = Facts(autocast_types=(torch.float32, torch.bfloat16), dlpack_type=12)


class Plugin:
    @hookimpl
    def webgpu_torch_backends(self):
        return [Fast()]


def refused(error, action):
    try:
        action()
    except error as found:
        return str(found)
    raise AssertionError(f"no {error.__name__}")


def drawn(place):
    torch.manual_seed(3)
    x = torch.full((4,), 0.5, device=place)
    made = [torch.rand(4, device=place), torch.randn(20, device=place), torch.randint(0, 9, (5,), device=place), x.bernoulli(),
            torch.randperm(6, device=place), torch.multinomial(x, 3), torch.empty(3, device=place).geometric_(0.3),
            torch.nn.functional.dropout(x)]
    return [each.tolist() for each in made]


registry.register(Plugin())
# The host's: streams, lists of functions, no accelerator.
assert drawn("example") == drawn("cpu") and drawn("fast") != drawn("cpu")
assert torch.Generator("example").get_state().shape == torch.Generator().get_state().shape
assert torch.Generator("fast").get_state().shape == (16,)
assert torch.rand(2, device="example", generator=torch.Generator().manual_seed(1)).device.type == "example"
refused(RuntimeError, lambda: torch.rand(2, device="fast", generator=torch.Generator()))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    region = torch.autocast("example")
assert "Disabling" in str(caught[0].message) and not torch.amp.is_autocast_available("example")
assert not torch.amp.is_autocast_available("cuda") and torch.amp.is_autocast_available("fast")
assert "fast" in refused(RuntimeError, lambda: torch.autocast("nope"))
assert torch.get_autocast_dtype("fast") is torch.float32 and torch.get_autocast_dtype("cpu") is torch.bfloat16
with torch.autocast("fast"), torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(frozenset({"AutocastCPU"}))):
    assert not torch.is_autocast_enabled("fast")
with torch.autocast("fast"):
    assert torch.is_autocast_enabled("fast") and not torch.is_autocast_enabled("cpu")
    assert (torch.ones(2, 2, device="fast") @ torch.ones(2, 2, device="fast")).dtype is torch.float32
counted = torch.ones(2, device="example").apply_(lambda each: each + 1)
assert counted.tolist() == [2, 2] and (counted[0] + torch.tensor(1.0)).device.type in ("cpu", "example")
refused(TypeError, lambda: torch.ones(2, device="fast").apply_(lambda each: each))
tall, columns = torch.tensor([[1.0, 0], [0, 1], [1, 1]]), torch.tensor([[1.0], [2], [4]])
residuals = [torch.linalg.lstsq(tall.to(each), columns.to(each)).residuals.numel() for each in ("cpu", "example", "fast")]
assert residuals == [0, 0, 1], residuals
# Modules of devices and what asks for the accelerator.
place = torch.accelerator.current_accelerator()
assert place.type in ("webgpu", "fast") and torch.device(0).type == place.type and torch.accelerator.is_available()
for kind in ("fast", "example"):
    module = torch.get_device_module(kind)
    assert module is torch.get_device_module(torch.device(kind, 0)) and module.device_count() == 1 and module.is_available()
    module.manual_seed(5)
    state = module.get_rng_state()
    first = torch.rand(3, device=kind).tolist()
    module.set_rng_state(state)
    assert torch.rand(3, device=kind).tolist() == first and module.memory_allocated() == 0
    module.synchronize()
    module.empty_cache()
    with torch.random.fork_rng():
        torch.rand(3, device=kind)
    assert module.get_device_name(0) == "Python loops"
numbers, states = torch.utils.checkpoint.get_device_states(torch.ones(2), torch.ones(2, device="fast"))
assert numbers == [0] and states[0].shape == (16,)
torch.utils.checkpoint.set_device_states(numbers, states, device_type="fast")
# Memory that others may reach, or not.
assert torch.ones(2, device="fast").__dlpack_device__() == (12, 0)
refused(ValueError, lambda: torch.ones(2, device="example").__dlpack_device__())
refused(BufferError, lambda: torch.ones(2, device="fast").__dlpack__())
# Files, copies, models.
file = io.BytesIO()
torch.save({"a": torch.arange(3, device="fast")}, file)
for wanted in ("example", "cpu", "fast"):
    file.seek(0)
    found = torch.load(file, map_location=wanted)["a"]
    assert found.device.type == wanted and found.tolist() == [0, 1, 2]
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.GELU(), torch.nn.Linear(4, 2)).to("fast")
loss = torch.nn.functional.cross_entropy(model(torch.ones(2, 3, device="fast")), torch.tensor([0, 1], device="fast"))
loss.backward()
torch.optim.AdamW(model.parameters()).step()
assert all(each.grad.device.type == "fast" for each in model.parameters())
with torch.device("example"):
    assert torch.zeros(2).device == torch.device("example", 0)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as watched:
    (torch.ones(3, device="example") + 1).tolist()
assert watched.key_averages()
with torch.autograd.profiler.profile(use_device="fast") as watched:
    (torch.ones(3, device="fast") + 1).tolist()
assert watched.use_device == "fast" and watched.key_averages().table(sort_by="fast_time_total")
print("every fact holds")
"""


def test_facts_are_declared_and_none_is_by_name(python_path):
    assert run([sys.executable, "-c", FACTS], PYTHONPATH=python_path).splitlines()[-1] == "every fact holds"


def test_installed_backend_passes_conformance(python_path):
    report = run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", str(FOLDER),
         "--import-mode", "importlib", str(FOLDER / "tests")],
        PYTHONPATH=python_path, PYTHONDONTWRITEBYTECODE="1",
    )  # fmt: skip
    assert " passed" in report and "failed" not in report
    assert int(report.rsplit(" passed")[0].split()[-1]) > 300


GUIDE = FOLDER.parent.parent / "docs" / "writing-a-backend.md"


def test_guide_shows_files_that_exist():
    found = re.findall(r"```\{literalinclude\} (\S+)\n((?::.*\n)*)", GUIDE.read_text())
    assert len(found) >= 5
    for path, options in found:
        text = (GUIDE.parent / path).read_text()
        for anchor in re.findall(r":(?:start-at|end-before): (.*)", options):
            assert anchor.strip('"') in text, (path, anchor)


def test_guide_runs_a_kernel(capsys):
    (program,) = [each for each in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S) if "run_kernel" in each]
    exec(program, {})
    assert "def kernel(" in capsys.readouterr().out
