-- Returns a delivery unprocessed: any consumer may receive it at once, and the attempt does not
-- count. The receipt is spent.
-- Arguments:
--   receipt: the receipt of the delivery.
-- Locks: the queue's cursor lock, waited for up to the setting lock_timeout.
-- Cost: one cursor version.
-- Errors: MQ001, MQ007 (malformed receipt), MQ008 (spent), MQ009 (stale), 55P03, 40001.
create function mqpg.release(receipt text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v record;
begin
    select o.* into v from mqpg._claim_of_receipt(release.receipt) o;
    perform mqpg._write_cursor(
        v.last_version, mqpg._action('release'), (v.claim).epoch, (v.last_version).claimed, (v.last_version).owner,
        mqpg._free_claim(v.claim, v.last_version, (v.claim).attempt - 1) || v.rest);
end
$$;
