{{ config(materialized='view') }}
select id as order_id, customer_id, ordered_on, {{ in_euros('cents') }} as amount
from {{ ref('raw_orders') }}
