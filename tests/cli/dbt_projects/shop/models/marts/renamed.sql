select id, count(*) as states, max(dbt_valid_from) as since
from {{ ref('names') }} group by id
