"""Projects of dbt, carried over: their manifest becomes a project of ours."""
