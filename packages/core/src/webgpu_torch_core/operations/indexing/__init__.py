"""Reading and writing at positions: subscripts, gather, scatter."""
