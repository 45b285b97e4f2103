"""Types: the columns of rows, and what a value of each type is in DDL, Arrow, Python and JSON.

A new data type is added here. Nothing here knows a stage, a table or a session.
"""
