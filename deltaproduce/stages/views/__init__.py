"""Views: stages that are any SELECT over other stages.

A view follows the changes of the stages that it reads, if all its operators have rules for that:
then a change costs what it touches. If not, it runs as a whole when a stage changes, and its rows
are compared with the stored ones. Either way its updates are exact. The driver computes a view over
Arrow tables if it has all its operators and expressions; else Spark does, by the query's own text,
or from the view's hidden tables.
"""
