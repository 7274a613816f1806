"""Unmodified transformers in a page."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib import metadata, util
from pathlib import Path
from typing import Any

import pytest
import webgpu_torch as torch
from engines import PROGRAMS, Python

#: what transformers imports of what is Python only, and what makes it find this library
PACKAGES = (
    "transformers", "huggingface_hub", "filelock", "tqdm", "packaging", "pyyaml", "jinja2", "markupsafe", "typing_extensions",
    "httpx2", "httpcore2", "h11", "anyio", "sniffio", "idna", "truststore", "webgpu-torch-drop-in",
)  # fmt: skip
#: of transformers' models only these, for there are hundreds
MODELS = ("__init__.py", "auto/", "llama/")
PROGRAM = "transformers_tiny.py"


def files_of(distribution: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names and bytes of an installed package's Python, its data and what tells its version."""
    found = metadata.distribution(distribution)
    name = distribution.replace("-", "_")
    module = {"pyyaml": "yaml"}.get(name, name)
    yield f"{name}-{found.version}.dist-info/METADATA", (found.read_text("METADATA") or "").encode()
    spec = util.find_spec(module)
    assert spec is not None and spec.origin is not None
    if not spec.submodule_search_locations:
        yield f"{module}.py", Path(spec.origin).read_bytes()
        return
    root = Path(spec.origin).parent
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        unused = name.startswith("models/") and not name.removeprefix("models/").startswith(MODELS)
        if path.suffix in (".py", ".xz", ".bin") and not (module == "transformers" and unused):
            yield f"{module}/{name}", path.read_bytes()


@pytest.mark.slow
def test_a_tiny_llama_of_transformers(opened: Callable[[str], Any], site: Path) -> None:
    pytest.importorskip("transformers")
    with zipfile.ZipFile(site / "packages.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for distribution in PACKAGES:
            for name, data in files_of(distribution):
                archive.writestr(name, data)
    page = opened("index.html")
    python = Python(page)
    python.run_file("stand_ins.py")
    page.evaluate("document.getElementById('output').replaceChildren()")
    python.run_file(PROGRAM)
    here = json.loads(page.inner_text("#output").strip().splitlines()[-1])
    command = [sys.executable, str(PROGRAMS / PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    natively = json.loads(done.stdout.strip().splitlines()[-1])
    assert here["device"] == "webgpu" and here["tokens"] == natively["tokens"]
    torch.testing.assert_close(torch.tensor(here["logits"]), torch.tensor(natively["logits"]), rtol=1e-4, atol=1e-5)
    assert page.problems == []
    page.close()
