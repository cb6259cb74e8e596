-- Which dispatches die, why, and in whose queue, over time? Many of one worker point to that worker, many of one action to
-- its dispatch timeout or its runtime, many of all to the broker or to workers that are overloaded. Messages that are no
-- dispatch of an execution have neither action nor worker. GET /api/v1/dead-letters/summary answers the same.
--
-- Parameters, in the first line: "period" is the width of a line of the answer, "window" how far back to look. The index
-- dead_letter_received finds the window. Dead letters are deleted after message_queue.rabbitmq.dead_letter.ttl_ms.
with parameter as (select interval '1 hour' as period, interval '24 hours' as "window")
select date_bin((select period from parameter), d.received_at, timestamptz 'epoch') as period_begins,
       d.reason,
       d.action_ref as action,
       d.worker,
       count(*) as dead_letters,
       count(*) filter (where d.handled_at is null) as open
  from dead_letter d
 where d.received_at >= (select now() - "window" from parameter)
 group by 1, 2, 3, 4
 order by 1 desc, 5 desc, 2, 3, 4;
