{% test total(model, column_name) %}
select sum({{ column_name }}) as n from {{ model }}
{% endtest %}
