-- The last four days of each product, at each day.
STAGE recent_sales (
  key (product_id),
  partition (day = partition_day),
  scopes FOR t IN timeseries('1 day', 1), LET partition_day = date_format(t, 'yyyy-MM-dd')
);
SELECT product_id, count(*) AS days, sum(nb_sales) AS nb_sales
FROM products_sales
WHERE products_sales.day BETWEEN date_sub(partition_day, 3) AND partition_day
GROUP BY product_id
