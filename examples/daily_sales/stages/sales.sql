-- What the stores report, a file a day.
EXTERNAL sales (
  columns (day string, store string, sale_id bigint, product_id bigint, quantity bigint, price decimal(12, 2)),
  key (day, store, sale_id),
  partition (day, store)
);
