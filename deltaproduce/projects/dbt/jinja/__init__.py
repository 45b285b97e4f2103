"""The Jinja of a dbt project, as far as it needs no database."""
