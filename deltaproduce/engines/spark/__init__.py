"""The Spark engine, and all code that depends on how Spark works.

Only this package goes behind PySpark's interface (`checkpoints`, `file_systems`,
`executors.python_workers`, `sessions.session`, `sessions.remote`), sets a session's conf
(`sessions.settings`, `sessions.session`, `delta`) or reads an error's text (`sessions.error_texts`,
`sessions.damage`, `executors`, `delta`), and only here is Delta's spelling of operations (`delta`,
`log_actions`). It knows no stage, version or table of a store.
"""
