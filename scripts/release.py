"""Rehearses a release: builds wheels and sources of every distribution, checks them, and tries each by itself.

    python scripts/release.py            build, check, install each wheel in an environment of its own, run it
    python scripts/release.py --no-try   without the last two

Nothing is uploaded and no tag is set: the last lines say how, when everything passed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

DIST = Path("dist")
BIN = Path(sys.executable).parent
#: import name -> what a fresh environment with that wheel alone must be able to do
SMOKE = {
    "webgpu_torch_core": "import webgpu_torch_core as t; assert (t.ones(2, device='python') + 1).tolist() == [2.0, 2.0]",
    "webgpu_torch_backend_cpu": "import webgpu_torch_core as t; assert (t.ones(2) + 1).tolist() == [2.0, 2.0]",
    "webgpu_torch_backend_wgpu": "import webgpu_torch_core as t; t.webgpu.is_available()",
    "webgpu_torch": "import webgpu_torch as t; assert t.nn.Linear(2, 1, device='meta').weight.shape == (1, 2)",
    "webgpu_torch_cli": "import webgpu_torch_cli as c; assert c.main(['info']) == 0",
    "webgpu_torch_tools": "import webgpu_torch.testing as t; t.assert_close(1.0, 1.0)",
}


def run(*command: str | Path) -> None:
    """Run a command; its failure ends the rehearsal."""
    print("$", *(str(each).rpartition("/")[2] for each in command[:4]), flush=True)
    subprocess.run([str(each) for each in command], check=True)


def tried(wheel: Path) -> None:
    """Install a wheel with what it depends on into a fresh environment, and run it."""
    name = wheel.name.partition("-")[0]
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "bin" / "python"
        run(BIN / "uv", "venv", "--quiet", "--python", sys.executable, folder)
        run(BIN / "uv", "pip", "install", "--quiet", "--python", python, "--find-links", DIST, wheel)
        subprocess.run([str(python), "-c", SMOKE.get(name, f"import {name}")], check=True, cwd=folder)
        print(f"{name}: installs and runs by itself", flush=True)


def main() -> int:
    """Run the rehearsal."""
    version = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["release"]["version"]
    shutil.rmtree(DIST, ignore_errors=True)
    run(BIN / "uv", "build", "--quiet", "--all-packages", "--out-dir", DIST)
    wheels, sources = sorted(DIST.glob("*.whl")), sorted(DIST.glob("*.tar.gz"))
    count = len(list(Path("packages").glob("*/pyproject.toml")))
    if not len(wheels) == len(sources) == count:
        print(f"{count} packages gave {len(wheels)} wheels and {len(sources)} archives of sources")
        return 1
    run(sys.executable, "scripts/pack_wheels.py", *wheels)
    run(BIN / "twine", "check", "--strict", *wheels, *sources)
    run(BIN / "check-wheel-contents", *wheels)
    for wheel in wheels if "--no-try" not in sys.argv else ():
        tried(wheel)
    run(BIN / "towncrier", "build", "--draft", "--version", version)
    print(f"{count} distributions of version {version} are ready. What is left, by hand:")
    print(f"  towncrier build --version {version} && git commit && git tag v{version} && twine upload dist/*")
    return 0


if __name__ == "__main__":
    sys.exit(main())
