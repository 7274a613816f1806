"""What the transforms of ``torch.func`` do with the numbers of arguments."""

from __future__ import annotations

from webgpu_torch_core.func.derivatives import argument_numbers


def _slice_argnums(args: tuple[object, ...], argnums: int | tuple[int, ...], as_tuple: bool = True) -> object:
    """Return the arguments of some numbers: a tuple, unless one is asked for alone.

    Raises:
        RuntimeError: no ints, the same one twice, or none that is there.
    """
    found = tuple(args[each] for each in argument_numbers(argnums, args))
    return found[0] if isinstance(argnums, int) and not as_tuple else found
