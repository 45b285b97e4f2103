{{ config(materialized='incremental', unique_key='visit') }}
select visit, day, day < current_date as is_past, cast(now() as date) > date '2020-01-01' as is_now
from {{ ref('visits') }}
where day >= '{{ var("since") }}' and {{ 'true' if var('nothing', none) is none else 'false' }}
{% if is_incremental() %} and day > (select max(day) from {{ this }}) {% endif %}
