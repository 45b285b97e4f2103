select o.order_id, p.total from {{ ref('order') }} o
join {{ ref('payment_totals') }} p using (order_id)
where p.total >= {{ var('least') }}
union all
select order_id, 0 from {{ ref('order') }} where order_id not in (select order_id from {{ ref('payment_totals') }})
