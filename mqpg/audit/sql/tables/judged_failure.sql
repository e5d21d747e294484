-- Failed deliveries whose offsets may be in the judged part, of messages that are open or not judged.
create temp table judged_failure (subscription_id int not null, message_id bigint not null, action text not null);
