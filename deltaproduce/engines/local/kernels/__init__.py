"""What `spark.kernels` computes of rows, by Arrow and numpy: each module has its namesake there."""
