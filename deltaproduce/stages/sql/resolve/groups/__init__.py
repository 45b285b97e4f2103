"""GROUP BY: keys, grouping sets, calls of aggregate functions, and what PIVOT makes of them."""
