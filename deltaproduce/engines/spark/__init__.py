"""The Spark engine, and everything that only Spark's ways explain.

All that goes behind PySpark's public interface (`file_systems`, `session`), sets a session's conf
(`settings`, `session`) or reads an error's text (`error_texts`, `damage`, `failures`) is in this
package. No stage, version or table of a store is known here.
"""
