with stg_orders as (select * from {{ ref('stg_orders') }}),
payments as (select * from {{ ref('stg_payments') }})
select stg_orders.order_id, count(*) as payments, sum(amount) as total, avg(amount) as mean,
  sum(amount) / 3 as third, {{ rounded('sum(cast(cents as bigint))') }} as rounded
from stg_orders join payments on payments.order_id = stg_orders.order_id
group by 1
