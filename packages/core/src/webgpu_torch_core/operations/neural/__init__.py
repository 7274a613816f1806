"""What networks are made of: softmax, normalisation, attention, losses."""
