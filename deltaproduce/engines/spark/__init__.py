"""The Spark engine, and everything that only Spark's ways explain.

Only this package goes behind PySpark's interface (`file_systems`, `python_workers`,
`sessions.session`, `sessions.remote`), sets a session's conf (`sessions.settings`,
`sessions.session`, `delta`) or reads an error's text (`sessions.error_texts`, `sessions.damage`,
`failures`, `delta`), and only here is how Delta spells things (`delta`, `log_actions`). No stage,
version or table of a store is known here.
"""
