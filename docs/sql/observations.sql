-- What would the parts that only observe have done, hour by hour? Parts observe while executor.timeout_monitor or
-- executor.health_probes is set to observe. "changes" are dispatches that would have been taken back or ended, or outages
-- of workers' health endpoints that began; "longest" is the longest of these outages, up to now if it lasts. "overtaken"
-- counts dispatches that went on without the part: a claim, a result, or another part's take-back came. Where that is most
-- of "changes", the deadline is too short for this load. GET /api/v1/observations lists them one by one.
--
-- Parameters, in the first line: "period" is the width of a line of the answer, "window" how far back to look. The index
-- observation_age finds the window. Observations are deleted after message_queue.rabbitmq.dead_letter.ttl_ms.
with parameter as (select interval '1 hour' as period, interval '24 hours' as "window")
select date_bin((select period from parameter), o.at, timestamptz 'epoch') as period_begins,
       o.part,
       o.would,
       o.reason,
       count(*) as changes,
       count(distinct o.execution) as executions,
       count(distinct o.worker) as workers,
       max(coalesce(o.ended_at, now()) - o.at) filter (where o.execution is null) as longest,
       count(*) filter (where e.epoch <> o.epoch or e.status not in ('scheduled', 'running', 'canceling')
                           or e.status = 'running' and o.reason = 'dispatch_timeout') as overtaken
  from observation o
  left join execution e on e.id = o.execution
 where o.at >= (select now() - "window" from parameter)
 group by 1, 2, 3, 4
 order by 1 desc, 5 desc, 2, 3, 4;
