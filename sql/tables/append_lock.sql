-- Always empty; append() locks it, so that one call runs at a time. It is no advisory lock, because
-- every role that can connect can take those and so stop delivery. This lock needs a right on the
-- table.
create table mqpg.append_lock ();
alter table mqpg.append_lock replica identity full;
