-- Which share of what ends is retried, over time? A rise says that something fails for passing reasons: workers that go
-- away, queues that expire, connections. The alerts retry_rate and retry_rate_critical watch the same share over 5 minutes.
--
-- Parameters, in the first lines: "period" is the width of a line of the answer, "window" how far back to look, "most" how
-- many of the newest executions are read at all. No index has the end of executions, since each would pay for it; so the
-- primary key bounds the query, and the oldest period is incomplete where "most" was reached.
with parameter as (select interval '5 minutes' as period, interval '24 hours' as "window", 100000 as most),
newest as (
    select id, original_execution, retry_count, ended from execution order by id desc limit (select most from parameter)
)
select date_bin(p.period, n.ended, timestamptz 'epoch') as period_begins,
       count(*) as ended,
       count(r.id) as retried,
       round(100.0 * count(r.id) / count(*), 1) as retried_percent
  from parameter p
  join newest n on n.ended >= now() - p."window"
  -- The unique index execution_retry finds the retry that followed.
  left join lateral (
      select r.id from execution r
       where r.original_execution = coalesce(n.original_execution, n.id) and r.retry_count = n.retry_count + 1
  ) r on true
 group by 1
 order by 1 desc;
