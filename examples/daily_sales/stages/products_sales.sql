STAGE products_sales (
  key (product_id),
  partition (day = partition_day),
  scopes FOR t IN timeseries('1 day', 2), LET partition_day = date_format(t, 'yyyy-MM-dd'),
  retention keep
);
SELECT product_id, sum(nb_sales) AS nb_sales, sum(revenue) AS revenue
FROM stores_sales
WHERE stores_sales.day = partition_day
GROUP BY product_id
