select kind, any_value(kind) as same, count(*) as visits, max(score) as best
from {{ ref('visits') }} group by kind limit 1000
