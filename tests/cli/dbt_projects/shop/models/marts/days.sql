with days as (
  select cast('2024-01-01' as date) as day union all select cast('2024-01-02' as date))
select day from days
