select *, row_number() over (partition by person order by day desc, visit desc) as place
from {{ ref('visits') }} qualify place = 1
