{% snapshot names %}
{{ config(unique_key='id', strategy='timestamp', updated_at='updated_at') }}
select * from {{ ref('customer_history') }}
{% endsnapshot %}
