{{ config(tags=['nightly']) }}
select customer_id, concat(name, '/', country) as label, name || country as joined,
  case when vip then 'vip' else 'other' end as kind, upper(coalesce(name, 'nobody')) as loud
from {{ ref('stg_customers') }} qualify row_number() over (partition by country order by customer_id) = 1
