"""dbt's target: the database in which dbt keeps its tables, and how they differ from stages."""
