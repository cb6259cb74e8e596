-- For which failures do retries help? For each reason: how many retries were made, how many of them have ended, how many
-- completed themselves, and how many belong to a chain that completed in the end. A reason whose retries hardly ever
-- complete is no passing one: look at the action or at its max_retries.
--
-- Parameters, in the first line: "window" is how far back to look at the creation of retries, "most" how many of the newest
-- executions are read at all, by the primary key.
with parameter as (select interval '24 hours' as "window", 100000 as most),
newest as (
    select original_execution, retry_count, retry_reason, status, created from execution order by id desc limit (select most from parameter)
)
select n.retry_reason as reason,
       count(*) as retries,
       count(*) filter (where n.status >= 'completed') as ended,
       count(*) filter (where n.status = 'completed') as completed,
       count(c.id) as chain_completed,
       round(100.0 * count(*) filter (where n.status = 'completed') / nullif(count(*) filter (where n.status >= 'completed'), 0), 1) as completed_percent
  from newest n
  -- A chain ends with its first completed row; execution_retry finds the later rows of the chain.
  left join lateral (
      select c.id from execution c
       where c.original_execution = n.original_execution and c.retry_count >= n.retry_count and c.status = 'completed' limit 1
  ) c on true
 where n.retry_count > 0 and n.created >= now() - (select "window" from parameter)
 group by n.retry_reason
 order by retries desc, reason;
