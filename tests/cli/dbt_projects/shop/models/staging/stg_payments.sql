{{ config(materialized='ephemeral') }}
select order_id, code, amount, amount * 100 as cents from {{ ref('payments') }}
