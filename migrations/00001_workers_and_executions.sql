-- +goose Up

-- Names stand in the database as enums: four bytes that compare like integers and cannot be
-- misspelt, and a row still reads in psql, in a constraint and in a trigger as it reads in the code.
create type execution_status as enum (
    'requested', 'scheduling', 'scheduled', 'running', 'canceling',
    'completed', 'failed', 'cancelled', 'timeout', 'abandoned'
);

create type failure_reason as enum (
    'worker_unavailable', 'no_workers', 'queue_timeout', 'dispatch_timeout', 'unroutable',
    'worker_lost', 'worker_shutdown', 'heartbeat_stale', 'run_timeout', 'transient', 'connection',
    'validation', 'permission', 'action_not_found', 'invalid_parameters', 'rejected',
    'cancelled', 'parent_failed', 'unknown'
);

create type part as enum (
    'api', 'scheduler', 'execution_timeout_monitor', 'dead_letter_handler',
    'reconciler', 'retry_manager', 'execution_manager', 'worker'
);

create type worker_lifecycle as enum ('starting', 'active', 'draining', 'stopped', 'lost');

create table action (
    id                       bigint generated always as identity primary key,
    ref                      text not null unique,
    runtime                  text not null,
    entrypoint               text not null,
    timeout_seconds          double precision check (timeout_seconds > 0),
    dispatch_timeout_seconds double precision check (dispatch_timeout_seconds > 0),
    max_retries              integer not null check (max_retries >= 0),
    concurrency              integer check (concurrency > 0)
);

-- The limit of concurrency of an action is so many rows, and not a number to count up to: two who count at
-- the same moment both find room, two who lock a row do not. Rows beyond a limit that was lowered stay
-- and are not given out.
create table concurrency_slot (
    action    bigint not null references action,
    number    integer not null check (number > 0),
    execution bigint,
    taken_at  timestamptz,
    primary key (action, number),
    constraint taken_by_somebody check ((execution is null) = (taken_at is null))
) with (fillfactor = 50); -- rewritten with every execution

create unique index concurrency_slot_execution on concurrency_slot (execution) where execution is not null;
create index concurrency_slot_free on concurrency_slot (action, number) where execution is null;

-- A worker is a name; everything that a registration brings belongs to the incarnation.
create table worker (
    id          bigint generated always as identity primary key,
    name        text not null unique,
    -- The newest registration. All older ones are stopped or lost: registering sees to it in the
    -- same transaction, so "active" alone means "active and current".
    incarnation bigint not null,
    -- An operator's word; it outlives the incarnation, as the reason to keep work away mostly does.
    cordoned_at   timestamptz,
    cordon_reason text not null default ''
);

-- Incarnations stay: a reclaim of running work asks when the lease of just that incarnation ended.
-- Numbered by a sequence across all workers, so that a greater number is a later registration.
create table worker_incarnation (
    incarnation      bigserial primary key,
    worker           bigint not null references worker,
    process          bigint not null,
    attempt          bigint not null,
    lifecycle        worker_lifecycle not null default 'starting',
    runtimes         text[] not null,
    capacity         integer not null check (capacity >= 0),
    lease_expires_at timestamptz not null,
    last_heartbeat   timestamptz,
    beat             bigint not null default 0 check (beat >= 0),
    consumer_alive   boolean not null default false,
    -- What the worker reports of itself; capabilities.health are the figures of its last heartbeat.
    -- Of what executors derive from them only the worker's own opinion, status, stands here.
    capabilities     jsonb not null default '{}',
    health_url       text not null default '',
    drain_requested  boolean not null default false,
    registered_at    timestamptz not null
) with (fillfactor = 50); -- rewritten at every heartbeat, in place

alter table worker add constraint worker_incarnation_exists
    foreign key (incarnation) references worker_incarnation deferrable initially deferred;

-- Dispatches that stayed unclaimed past their deadline at a worker that stayed active, as by a dead
-- letter or by the timeout monitor: the part of the evidence for a
-- worker's health that the worker itself can't report.
create table worker_expiry (
    incarnation bigint not null,
    at          timestamptz not null
);
create index worker_expiry_incarnation on worker_expiry (incarnation, at desc);

-- There are no foreign keys from this table. The statement that writes a reference has the row it
-- refers to joined or locked already, nothing is ever deleted from those tables, and a key would
-- lock one action's or one worker's row anew for every execution.
create table execution (
    id                       bigint generated by default as identity primary key,

    -- The action as it was when the execution was created.
    action                   bigint not null,
    action_ref               text not null,
    runtime                  text not null,
    entrypoint               text not null,
    timeout_seconds          double precision,
    dispatch_timeout_seconds double precision,
    max_retries              integer not null,
    concurrency              integer,

    -- json and not jsonb: what came in goes out byte for byte, and nothing here looks inside.
    parameters               json,
    status                   execution_status not null default 'requested',
    worker                   bigint,
    incarnation              bigint,
    epoch                    bigint not null default 0 check (epoch >= 0),
    dispatches               integer not null default 0 check (dispatches >= 0),
    avoid_worker             bigint,
    pinned_worker            bigint,
    dispatch_deadline        timestamptz,
    run_deadline             timestamptz,
    result                   json,
    failure_reason           failure_reason,
    original_execution       bigint,
    retry_count              integer not null default 0,
    retry_reason             failure_reason,
    -- When a requested row may be scheduled again; null for at once. due_at is the same as a moment
    -- that always exists, so that "oldest due first" is the order of an index.
    retry_at                 timestamptz,
    due_at                   timestamptz not null,
    -- The first row of the chain that this one is a workflow child of. A child that waits for its end is due
    -- at infinity.
    parent                   bigint,
    awaits_parent            boolean not null generated always as (due_at = 'infinity') stored,
    -- Whoever creates a child writes here, under the lock of the row: so whoever handles the end of the
    -- chain knows, from the lock alone, whether it has to look for children.
    has_children             boolean not null default false,
    -- Of a chain, on its first row.
    cancel_requested_at      timestamptz,
    idempotency_key          text,

    created                  timestamptz not null,
    unschedulable_since      timestamptz,
    scheduling_at            timestamptz,
    scheduling_by            text,
    scheduling_expires_at    timestamptz,
    scheduled_at             timestamptz,
    published_at             timestamptz,
    started_at               timestamptz,
    claim_beat               bigint,
    canceling_at             timestamptz,
    ended                    timestamptz,
    orchestrated_at          timestamptz,

    -- Who wrote the status last, for the audit trigger: the part, the incarnation where a worker
    -- wrote, the epoch that the writer's guard named, and its reason. They travel in the row because
    -- one statement writes many rows, each at an epoch of its own; a setting of the transaction
    -- holds one value and costs a round trip.
    written_by               part not null,
    written_incarnation      bigint,
    written_epoch            bigint not null default 0,
    written_reason           failure_reason,

    constraint worker_with_incarnation check ((worker is null) = (incarnation is null)),
    constraint unowned_before_dispatch check (
        status not in ('requested', 'scheduling')
        or incarnation is null and dispatch_deadline is null and scheduled_at is null and started_at is null
    ),
    constraint claimed_for_scheduling check (
        status <> 'scheduling'
        or scheduling_at is not null and scheduling_by is not null and scheduling_expires_at is not null
    ),
    constraint owned_from_dispatch check (
        status not in ('scheduled', 'running', 'canceling')
        or incarnation is not null and epoch > 0 and scheduled_at is not null and dispatch_deadline is not null
    ),
    constraint started_when_claimed check (
        status not in ('running', 'canceling') or started_at is not null and run_deadline is not null and claim_beat is not null
    ),
    constraint canceling_since check (status <> 'canceling' or canceling_at is not null),
    constraint waits_before_scheduling check (status = 'requested' or due_at < 'infinity'),
    constraint waits_for_a_parent check (parent is not null or due_at < 'infinity'),
    constraint limit_of_concurrency check (concurrency > 0),
    constraint ended_when_terminal check ((ended is not null) = (status >= 'completed')),
    constraint orchestrated_after_end check (orchestrated_at is null or ended is not null),
    constraint retry_of_something check ((original_execution is not null) = (retry_count > 0) and retry_count >= 0)
) with (
    -- Room on the page for the next version of a row: recording a publish stays there entirely.
    fillfactor = 70,
    -- A row dies several times on its way; dead versions are collected at two in a hundred.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- One index for each list that a part asks for, holding only the rows in it: a row stands in the
-- primary key and in one or two of these.
create index execution_due on execution (runtime, due_at, id) where status = 'requested' and concurrency is null;
create index execution_due_limited on execution (action, due_at, id) where status = 'requested' and concurrency is not null;
create index execution_children on execution (parent, id) where status = 'requested' and awaits_parent;
create index execution_canceling on execution (canceling_at, id) where status = 'canceling';
create index execution_keyed on execution (created, id) where idempotency_key is not null;
create index execution_claim_expiry on execution (scheduling_expires_at, id) where status = 'scheduling';
create index execution_scheduled on execution (scheduled_at, id) where status = 'scheduled';
create index execution_run_deadline on execution (run_deadline, id) where status in ('running', 'canceling');
create index execution_held on execution (incarnation, id) where status in ('scheduled', 'running', 'canceling');
create index execution_unorchestrated on execution (ended, id) where status >= 'completed' and orchestrated_at is null;

create unique index execution_idempotency on execution (idempotency_key) where idempotency_key is not null;
create unique index execution_retry on execution (original_execution, retry_count) where original_execution is not null;

create table dead_letter (
    id          bigint generated always as identity primary key,
    execution   bigint,
    epoch       bigint,
    queue       text not null,
    reason      text not null,
    x_death     json,
    body        bytea,
    outcome     text not null,
    received_at timestamptz not null,
    -- Null for as long as it waits for an operator.
    handled_at  timestamptz
);

create index dead_letter_received on dead_letter (received_at);
create index dead_letter_open on dead_letter (id) where handled_at is null;

create table refused_result (
    id          bigint generated always as identity primary key,
    execution   bigint not null,
    epoch       bigint not null,
    worker      bigint not null,
    incarnation bigint not null,
    status      execution_status not null,
    reason      failure_reason,
    result      json,
    received_at timestamptz not null
);

-- What the scheduler may choose from, with the worker's state on one line. Health is as the worker
-- itself judges its runs; executors judge anew, with their own thresholds and what died in its queue.
create view healthy_workers as
select w.id, w.name, w.incarnation, i.runtimes, i.capacity, i.lifecycle, i.lease_expires_at, i.last_heartbeat, i.consumer_alive,
       i.capabilities, i.health_url, coalesce(i.capabilities #>> '{health,status}', 'healthy') as health
  from worker w
  join worker_incarnation i on i.incarnation = w.incarnation
 where i.lifecycle = 'active' and i.consumer_alive and w.cordoned_at is null and clock_timestamp() <= i.lease_expires_at
   and coalesce(i.capabilities #>> '{health,status}', 'healthy') <> 'unhealthy';

-- How many dispatches wait for this worker, at whichever of its incarnations.
create function get_worker_queue_depth(worker_id bigint) returns bigint
language sql stable as $$
    select count(*) from execution e where e.status = 'scheduled' and e.worker = worker_id
$$;

-- How many executions an incarnation holds: dispatched to it, or claimed by it. Volatile, so that a dispatch
-- that has waited for another one's end counts what that one did.
create function held_by(holder bigint) returns bigint
language sql volatile as $$
    select count(*) from execution e where e.incarnation = holder and e.status in ('scheduled', 'running', 'canceling')
$$;

-- Whether a new row may follow this one: it ended for a passing reason and has attempts left.
create function is_execution_retriable(execution_id bigint) returns boolean
language sql stable as $$
    select coalesce((
        select e.status in ('failed', 'timeout', 'abandoned')
               and e.failure_reason <= 'connection' and e.retry_count < e.max_retries
          from execution e where e.id = execution_id
    ), false)
$$;

-- +goose Down

drop function is_execution_retriable(bigint);
drop function held_by(bigint);
drop function get_worker_queue_depth(bigint);
drop view healthy_workers;
drop table refused_result;
drop table dead_letter;
drop table execution;
drop table worker_expiry;
alter table worker drop constraint worker_incarnation_exists;
drop table worker_incarnation;
drop table worker;
drop table concurrency_slot;
drop table action;
drop type worker_lifecycle;
drop type part;
drop type failure_reason;
drop type execution_status;
