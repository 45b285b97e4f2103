select * from {{ ref('payment_totals') }} where total < 0
