with _visits as (select * from {{ ref('visits') }}),
"order" as (select person, count(*) as "select", max(score) as "from" from _visits group by 1)
select p.id, p."group", p."order", o."select", o."from", p._loaded_at, p._letters as "where"
from {{ ref('stg_people') }} p left join "order" o on o.person = p.id
