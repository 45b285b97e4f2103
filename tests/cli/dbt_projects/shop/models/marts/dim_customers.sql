{{ config(alias='customers') }}
with orders as (select * from {{ ref('stg_orders') }}),
per_customer as (
  select customer_id, min(ordered_at) as first_at, max(ordered_at) as last_at, count(*) as orders,
    date_diff('month', min(ordered_at), max(ordered_at)) as months,
    date_diff('day', min(ordered_at), max(ordered_at)) as days
  from orders group by customer_id)
select c.customer_id, c.name, c.country = '{{ var("country") }}' as is_home, p.first_at, p.last_at,
  coalesce(p.orders, 0) as orders, p.months, p.days,
  row_number() over (partition by c.country order by c.joined_on desc, c.customer_id) as place
from {{ ref('stg_customers') }} c left join per_customer p on p.customer_id = c.customer_id
