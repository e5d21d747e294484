-- Extends the lease of a delivery (a heartbeat).
-- Arguments:
--   receipt: the receipt of the delivery.
--   lease: how long from now the lease lasts, at least 10 ms.
-- Locks: the queue's cursor lock, waited for up to the setting lock_timeout.
-- Cost: one cursor version.
-- Errors: MQ001 (lease), MQ007 (malformed receipt), MQ008 (spent), MQ009 (stale), 55P03, 40001.
create function mqpg.extend(receipt text, lease interval) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v record;
    v_claim mqpg.claim;
begin
    perform mqpg._require_interval('lease', extend.lease, '10 milliseconds');
    select o.* into v from mqpg._claim_of_receipt(extend.receipt) o;
    v_claim := v.claim;
    v_claim.lease_until := clock_timestamp() + mqpg._seconds(extend.lease);
    perform mqpg._write_cursor(
        v.last_version, mqpg._action('extend'), v_claim.epoch, (v.last_version).claimed, (v.last_version).owner,
        v_claim || v.rest);
end
$$;
