-- Adds limits of size: the setting max_bytes of the broker, and topic.max_bytes.
-- breaking: no
alter table mqpg.topic add column max_bytes bigint, add column full_of text;
comment on column mqpg.topic.max_bytes is
    'With about so many bytes of messages stored, sends raise MQ028; null: no limit';
comment on column mqpg.topic.full_of is
    'Whose max_bytes was reached when it was last measured: topic | broker; null: neither';
insert into mqpg.settings (name, value, least, most, description) values
('max_bytes', '0', '0', '9223372036854775807',
    'bytes that the tables of the broker may take before sends raise MQ028; 0: no limit');
