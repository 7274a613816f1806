"""What lies between a call and its operation: overrides, names, autocast, complex rules, and the registry."""
