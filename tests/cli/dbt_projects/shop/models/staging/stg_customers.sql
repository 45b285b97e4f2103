select id as customer_id, name, country, joined_on, vip, score
from {{ source('raw', 'customers') }}
