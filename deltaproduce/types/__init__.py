"""Types: the columns of rows, and the values of each type in DDL, Arrow, Python and JSON.

New data types are added here. Nothing here knows a stage, a table or a session.
"""
