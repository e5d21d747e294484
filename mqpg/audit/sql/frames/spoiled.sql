-- The record batches whose contents do not match their checksum. What else they say proves nothing.
select distinct b.batch_id from body as b where not b.intact
