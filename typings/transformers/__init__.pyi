# Read in place of the library, whose thousands of modules declare few types of what is used of it.
from typing import Any

def __getattr__(name: str) -> Any: ...
