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
    from webgpu_torch_core.backend.python_device import PythonBackend

    (program,) = [each for each in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S) if "run_kernel" in each]
    exec(program, {"device": PythonBackend().open(0)})
    assert "Pointwise(" in capsys.readouterr().out
