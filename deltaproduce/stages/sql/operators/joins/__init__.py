"""What puts rows of two inputs side by side: joins, and what subqueries have for each row."""
