"""``torch.backends.cpu``: what the processor can do."""


def get_cpu_capability() -> str:
    """Return ``"DEFAULT"``: NumPy chooses its own instructions."""
    return "DEFAULT"
