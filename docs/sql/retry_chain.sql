-- What became of an execution, attempt by attempt? All rows of the chain that it belongs to, the first one first: where each
-- ran, how it ended, why a retry followed and when it was due. GET /api/v1/executions/{id}/chain answers the same.
--
-- Parameter, in the first line: "id", any execution of the chain. The primary key finds the first row, and the index
-- execution_retry the others.
with parameter as (select 1::bigint as id),
chain as (
    select coalesce(e.original_execution, e.id) as first from execution e where e.id = (select id from parameter)
)
select e.id, e.retry_count, e.max_retries, e.status, e.failure_reason, e.retry_reason, e.worker, e.epoch,
       e.created, e.retry_at, e.started_at, e.ended, e.result ->> 'error' as error
  from execution e
 where e.id = (select first from chain)
union all
select e.id, e.retry_count, e.max_retries, e.status, e.failure_reason, e.retry_reason, e.worker, e.epoch,
       e.created, e.retry_at, e.started_at, e.ended, e.result ->> 'error'
  from execution e
 where e.original_execution = (select first from chain)
 order by retry_count;
