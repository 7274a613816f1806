"""The GPU below the backend: one interface, and the runtimes behind it."""
