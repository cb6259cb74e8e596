-- To whom could work of a runtime be handed now, and how much does each have waiting? An empty answer is why executions fail
-- with "No workers available". It leaves out unhealthy workers, to whom executors still give work if no other one is left.
--
-- Parameter, in the first line: "runtime". get_worker_queue_depth reads the executions that are scheduled, once for each
-- worker of the answer; for a large fleet take queue_depth.sql, which reads them once for all.
with parameter as (select 'shell' as runtime)
select h.id as worker, h.name, h.health, h.capacity, get_worker_queue_depth(h.id) as queue_depth, h.last_heartbeat, h.lease_expires_at
  from healthy_workers h
 where (select runtime from parameter) = any (h.runtimes)
 order by queue_depth, h.id;
