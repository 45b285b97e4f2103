"""Sources whose rows the user gives: the accepted batches, and what is refused in them."""
