{% snapshot name_states %}
{{ config(unique_key=['customer', 'name'], strategy='timestamp', updated_at='changed',
  dbt_valid_to_current="cast('9999-12-31' as timestamp)",
  snapshot_meta_column_names={'dbt_valid_from': 'since', 'dbt_valid_to': 'until'}) }}
with named as (select id as customer, name, updated_at, upper(name) as loud from {{ ref('customer_history') }})
select customer, name, loud, updated_at as changed from named where name <> 'nobody'
{% endsnapshot %}
