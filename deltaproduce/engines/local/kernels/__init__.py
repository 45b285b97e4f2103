"""The computations of `spark.kernels` in Arrow and NumPy: each module has its namesake there."""
