"""The public namespaces beside ``torch`` itself, and the signatures that type checkers read."""
