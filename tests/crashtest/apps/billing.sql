create schema billing;
create table bill (order_id int);
