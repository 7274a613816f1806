"""``torch.hub``: checkpoints by address, kept in a folder, and models of a folder's ``hubconf.py``."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from webgpu_torch_core import load as load_file
from webgpu_torch_core.files.host_tensors import AtomicFile

__all__ = [
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir",
]  # fmt: skip

#: What stands before the suffix of a file that is named after its contents.
HASH = re.compile(r"-([a-f0-9]*)\.")
_BLOCK = 1 << 20
_dir: str | None = None


def _get_torch_home() -> str:
    """Return ``TORCH_HOME``, else ``torch`` in the user's folder of caches."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """Return the folder that downloads are kept in: :func:`set_dir`'s, else ``hub`` in ``TORCH_HOME`` or ``~/.cache/torch``."""
    return os.path.join(_get_torch_home(), "hub") if _dir is None else _dir


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder that downloads are kept in."""
    global _dir
    _dir = os.path.expanduser(d)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download a file; it is in its place only when all of it has come.

    Args:
        url: of HTTP, HTTPS or a local file.
        dst: where the file shall be.
        hash_prefix: how the SHA-256 sum of its bytes begins, in hexadecimal.
        progress: accepted.

    Raises:
        OSError: it cannot be had.
        RuntimeError: the sum begins otherwise.
    """
    request = urllib.request.Request(url, headers={"User-Agent": "webgpu-torch.hub"})
    place = Path(os.path.expanduser(dst))
    digest = hashlib.sha256()
    with urllib.request.urlopen(request) as answer, AtomicFile(place) as part:
        while block := answer.read(_BLOCK):
            part.write(block)
            digest.update(block)
        found = digest.hexdigest()
        if hash_prefix and not found.startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: object = None, progress: bool = True, check_hash: bool = False,
    file_name: str | None = None, weights_only: bool = True,
) -> Any:  # fmt: skip
    """Return what a checkpoint holds; it is downloaded once and then read from the folder, without the network.

    Args:
        url: of the checkpoint.
        model_dir: the folder; ``checkpoints`` in :func:`get_dir` if None.
        map_location, weights_only: as of :func:`torch.load`.
        progress: accepted.
        check_hash: the name ends in ``-`` and how the sum of its bytes begins, which is checked.
        file_name: under which it is kept; the address's last part if None.

    Raises:
        OSError: it is not in the folder and cannot be had.
        RuntimeError: the sum begins otherwise.
    """
    folder = Path(os.path.join(get_dir(), "checkpoints") if model_dir is None else os.path.expanduser(model_dir))
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / (file_name or os.path.basename(urlparse(url).path))
    if not place.exists():
        named = HASH.search(place.name) if check_hash else None
        download_url_to_file(url, str(place), named[1] if named else None, progress)
    return load_file(str(place), map_location=map_location, weights_only=weights_only)


def _configuration(repo_or_dir: str, source: str) -> Any:
    if source != "local":
        raise NotImplementedError(
            f"torch.hub does not run code from the network ({repo_or_dir!r}): clone the repository and pass its folder with "
            "source='local'"
        )
    place = Path(repo_or_dir) / "hubconf.py"
    if not place.is_file():
        raise FileNotFoundError(f"{place} is not there: a repository for torch.hub has a hubconf.py")
    specification = importlib.util.spec_from_file_location("hubconf", place)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.path.insert(0, str(place.parent))
    try:
        specification.loader.exec_module(module)
    finally:
        sys.path.remove(str(place.parent))
    return module


def _entry(repo_or_dir: str, model: str, source: str) -> Callable[..., object]:
    found = getattr(_configuration(repo_or_dir, source), model, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return found


def list(github: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: object = None, verbose: bool = True, *, source: str = "local") -> Any:  # fmt: skip
    """Return the names of the models that a folder's ``hubconf.py`` offers.

    Raises:
        FileNotFoundError: there is no ``hubconf.py``.
    """
    module = _configuration(github, source)
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def help(github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: object = None, *, source: str = "local") -> Any:  # fmt: skip
    """Return the docstring of a model of a folder's ``hubconf.py``.

    Raises:
        RuntimeError: there is no such model.
    """
    return _entry(github, model, source).__doc__


def load(
    repo_or_dir: str, model: str, *args: object, source: str = "github", trust_repo: object = None, force_reload: bool = False,
    verbose: bool = True, skip_validation: bool = False, **kwargs: object,
) -> Any:  # fmt: skip
    """Return a model that a folder's ``hubconf.py`` makes.

    Args:
        repo_or_dir: the folder.
        model: its name there; further arguments are the model's.
        source: ``"local"``; code is not fetched from the network.

    Raises:
        NotImplementedError: another source.
        RuntimeError: there is no such model.
    """
    return _entry(repo_or_dir, model, source)(*args, **kwargs)
