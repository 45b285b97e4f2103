select id as order_id, customer_id, ordered_at, {{ dbt.date_trunc('month', 'ordered_at') }} as month, status
from {{ source('raw', 'orders') }}
