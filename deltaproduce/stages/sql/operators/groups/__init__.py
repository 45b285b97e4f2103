"""GROUP BY: of the rows of each group, and of states that its changed rows are added to."""
