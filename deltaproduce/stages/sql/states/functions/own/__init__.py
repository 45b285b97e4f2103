"""User-defined aggregate functions: the state that each keeps, and the value of a state.

This code runs in worker processes. It may not check or describe the user's definition, which is
`states.own_aggregates`, or decide where it runs.
"""
