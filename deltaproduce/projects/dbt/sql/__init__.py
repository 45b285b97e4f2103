"""The SQL of a dbt project, as Spark's SQL over stages."""
