-- +goose Up

-- Which of timeout_seconds, dispatch_timeout_seconds and max_retries the request set for its execution itself; null for
-- none. Their values stand in the columns of those names, and the rest are the action's as it was at the creation.
-- Without the names nobody could tell a request that is repeated under its idempotency key from another one.
alter table execution add column own_limits text[];
-- Not validated: the columns of existing rows come from actions, whose table has the same checks, and the scan would
-- lock the table.
alter table execution add constraint execution_own_limits check (
    own_limits <@ array['timeout_seconds', 'dispatch_timeout_seconds', 'max_retries']
    and timeout_seconds > 0 and dispatch_timeout_seconds > 0 and max_retries >= 0
) not valid;

-- +goose Down

alter table execution drop constraint execution_own_limits;
alter table execution drop column own_limits;
