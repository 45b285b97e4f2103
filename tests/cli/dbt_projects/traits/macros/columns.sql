{% macro listed(relation, left_out=[]) %}{{ traits._joined(adapter.get_columns_in_relation(relation), left_out) }}{% endmacro %}
{% macro _joined(columns, left_out) %}
{%- for column in columns if column.name not in left_out -%}
{{ adapter.quote(column.name) }}{{ ", " if not loop.last }}
{%- endfor -%}
{% endmacro %}
