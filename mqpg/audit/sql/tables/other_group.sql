-- Consumer groups that are not audited.
create temp table other_group (consumer_group text not null);
