-- In what condition are the workers? One line for each combination of lifecycle, condition and health that some worker is in.
-- "eligible" counts those of the view healthy_workers: work may be handed to them now. Health is what the workers' own runs
-- say; executors also count what died in a worker's queue and ask its health endpoint, see GET /api/v1/workers.
--
-- No parameters: it reads one row for each worker name ever seen.
select i.lifecycle,
       case when w.cordoned_at is not null then 'cordoned'
            when clock_timestamp() > i.lease_expires_at then 'stale heartbeat'
            when not i.consumer_alive then 'does not consume'
            else 'live' end as condition,
       coalesce(i.capabilities #>> '{health,status}', 'healthy') as health,
       count(*) as workers,
       count(h.id) as eligible,
       round(100.0 * count(*) / sum(count(*)) over (), 1) as percent
  from worker w
  join worker_incarnation i on i.incarnation = w.incarnation
  left join healthy_workers h on h.id = w.id
 group by 1, 2, 3
 order by 1, 2, 3;
