-- Which failures had attempts left and were not followed by a retry? In a system at rest there are none: each is a chain
-- that is being cancelled, an end that waits to be handled (see the alert orchestration_lag), or retry.enabled is false.
--
-- Parameters, in the first line: "window" is how far back to look, "most" how many of the newest executions are read at
-- all, by the primary key. The index execution_retry finds the retry that followed.
with parameter as (select interval '24 hours' as "window", 100000 as most),
newest as (
    select id, original_execution, retry_count, max_retries, action_ref, status, failure_reason, ended, orchestrated_at
      from execution order by id desc limit (select most from parameter)
)
select n.id, n.action_ref, n.status, n.failure_reason, n.retry_count, n.max_retries, n.ended, n.orchestrated_at is not null as handled
  from newest n
 where n.status in ('failed', 'timeout', 'abandoned') and n.ended >= now() - (select "window" from parameter)
   and is_execution_retriable(n.id)
   and not exists (
       select from execution r where r.original_execution = coalesce(n.original_execution, n.id) and r.retry_count = n.retry_count + 1)
 order by n.id desc;
