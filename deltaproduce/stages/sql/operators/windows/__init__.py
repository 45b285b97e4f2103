"""Window functions: partitions in order, the frames of their rows, and functions over them."""
