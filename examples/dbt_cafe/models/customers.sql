select c.id as customer_id, c.name, c.city, count(o.order_id) as orders,
  coalesce(sum(o.amount), 0) as amount, max(o.ordered_on) as last_on
from {{ ref('raw_customers') }} c
left join {{ ref('stg_orders') }} o on o.customer_id = c.id
group by c.id, c.name, c.city
