"""Sources whose rows the user gives: the batches that are taken, and what is refused of them."""
