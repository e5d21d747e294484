create table bill (order_id int);
