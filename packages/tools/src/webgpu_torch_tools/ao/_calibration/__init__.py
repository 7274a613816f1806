"""What observers compute: ranges of numbers, and scales that cover them."""
