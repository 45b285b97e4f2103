"""Views: stages that are any SELECT over other stages, computed as a whole when a feeder changes.

The rows are compared with the stored ones, so a change reaches the next stage only where rows
differ, and updates are exact. The driver computes a view over Arrow tables if it has all its
operators and expressions; else Spark does, by the query's own text.
"""
