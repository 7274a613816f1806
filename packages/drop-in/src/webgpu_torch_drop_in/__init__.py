"""``import torch`` as this library: unmodified PyTorch programs, transformers and diffusers run on it."""

from __future__ import annotations


def install_as_torch() -> None:
    """Make ``import torch``, its submodules and the metadata of its distribution resolve to this library.

    Call it before anything imports ``torch``. ``torch is webgpu_torch`` afterwards; what PyTorch has and this library does
    not is there by name where libraries import it, and raises ``NotImplementedError`` when called. Calling it again
    changes nothing.

    Raises:
        RuntimeError: PyTorch itself is already imported.
    """
    from .install import install

    install()
