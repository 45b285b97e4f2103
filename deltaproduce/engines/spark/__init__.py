"""The Spark engine, and everything that only Spark's ways explain.

All that goes behind PySpark's public interface (`file_systems`, `session`), sets a session's conf
(`settings`, `session`, `delta`) or reads an error's text (`error_texts`, `damage`, `failures`,
`delta`) is in this package, and so is how Delta spells things (`delta`, `log_actions`). No stage,
version or table of a store is known here.
"""
