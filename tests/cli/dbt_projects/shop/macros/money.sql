{% macro rounded(column) %}{{ return(adapter.dispatch('rounded', 'shop')(column)) }}{% endmacro %}
{% macro default__rounded(column) %}cast({{ column }} as numeric){% endmacro %}
{% macro duckdb__rounded(column) %}cast({{ column }} / 100 as decimal(12, 2)){% endmacro %}
{% test at_least(model, column_name, least) %}
select * from {{ model }} where {{ column_name }} < {{ least }}
{% endtest %}
