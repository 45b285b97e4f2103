{% macro in_euros(column) %}cast({{ column }} * 0.01 as decimal(12, 2)){% endmacro %}
