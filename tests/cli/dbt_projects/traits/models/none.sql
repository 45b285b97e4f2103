select visit, score from {{ ref('visits') }} limit 0
