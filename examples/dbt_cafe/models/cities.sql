{{ config(tags=['nightly']) }}
select city, count(*) as customers, sum(amount) as amount
from {{ ref('customers') }}
group by city
