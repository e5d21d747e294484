create schema mqpg_demo;
create table mqpg_demo.mqpg_bills (order_id int);
