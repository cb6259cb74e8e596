-- How many executions wait in each worker's queue, and for how long has the first of them waited? A queue that is deep
-- at a worker with free capacity belongs to a worker that does not consume; one that is deep everywhere asks for more
-- workers. The last line, without a worker, is the mean over all workers that are not gone.
--
-- No parameters: it reads what waits or runs, which is the table execution_work, once.
with waiting as (
    select worker, count(*) as depth, max(clock_timestamp() - scheduled_at) as oldest from execution_work where status = 'scheduled' group by worker
)
select w.id as worker,
       w.name,
       i.capacity,
       coalesce(sum(q.depth), 0)::bigint as depth,
       max(q.oldest) as oldest,
       case when w.id is null then round(avg(coalesce(q.depth, 0)), 1) end as mean_depth
  from worker w
  join worker_incarnation i on i.incarnation = w.incarnation and i.lifecycle in ('starting', 'active', 'draining')
  left join waiting q on q.worker = w.id
 group by grouping sets ((w.id, w.name, i.capacity), ())
 order by w.id nulls last;
