# Read in place of the library, which declares few types of what is used of it.
from typing import Any

def __getattr__(name: str) -> Any: ...
