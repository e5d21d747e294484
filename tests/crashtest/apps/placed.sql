create table placed (order_id text);
