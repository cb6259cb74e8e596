-- +goose Up

-- What a part of the executor that only observes would have done: executor.timeout_monitor or executor.health_probes set
-- to observe. A row is about one dispatch of an execution, or about one outage of a worker's health endpoint.
create table observation (
    id          bigint generated always as identity primary key,
    part        text not null check (part in ('execution_timeout_monitor', 'health_prober')),
    -- Null for a worker's outage.
    execution   bigint,
    epoch       bigint,
    -- The owner of the dispatch, or the worker whose endpoint did not answer that it is ready.
    worker      bigint,
    incarnation bigint,
    -- The status that the execution would have been given, or unreachable.
    would       text not null,
    reason      text not null,
    at          timestamptz not null,
    -- When the endpoint answered again; null while the outage lasts, and for executions.
    ended_at    timestamptz,
    check ((part = 'health_prober') = (execution is null) and (execution is null) = (epoch is null)),
    check (execution is not null or worker is not null and incarnation is not null)
);

-- Two executors, and one that was started again, say the same thing once.
create unique index observation_dispatch on observation (execution, epoch, part) where execution is not null;
create unique index observation_outage on observation (incarnation) where execution is null and ended_at is null;
create index observation_age on observation (at);

-- +goose Down

drop table observation;
