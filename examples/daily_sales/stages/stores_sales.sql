STAGE stores_sales (
  key (product_id),
  partition (day = partition_day, store = partition_store),
  scopes FOR t IN timeseries('1 day', 2),
         LET partition_day = date_format(t, 'yyyy-MM-dd'),
         FOR partition_store IN array('Detroit', 'Paris')
);
SELECT product_id, sum(quantity) AS nb_sales, sum(quantity * price) AS revenue
FROM sales
WHERE sales.day = partition_day AND sales.store = partition_store
GROUP BY product_id
