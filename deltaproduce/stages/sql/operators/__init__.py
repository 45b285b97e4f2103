"""The operators of the algebra over Arrow tables on the driver, a module each.

The invariant: `evaluation.rows_of` returns the rows that Spark returns in ANSI mode, in any order,
apart from a sum of doubles, which is the double nearest to the exact sum. A module's function
`whole` returns all rows of an operator from all rows of its inputs.
"""
