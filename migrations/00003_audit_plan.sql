-- +goose Up

-- The insert of audit_transition has no parameters, so a session plans it once, at the first firing,
-- and keeps the plan whatever plan_cache_mode says. The first firing may be one for no row at all, and
-- for no row a nested loop looks best: from then on a statement for n rows compared n × n pairs (10,000
-- rows took 5 s instead of 50 ms). Without nested loops the plan that is kept is a hash join, or a merge
-- join, and both stay in proportion to the rows. To plan anew at every firing (execute) was measured too:
-- it is as safe, and dearer for small batches.
alter function audit_transition() set enable_nestloop = off;

-- +goose Down

alter function audit_transition() reset enable_nestloop;
