-- +goose Up

-- Which action a dead message was about, and to which worker it had been sent; null where it was no dispatch of a known
-- execution. The execution's row forgets its worker when it is taken back, and is joined to no figure over time: the
-- summary of dead letters groups by these columns without reading it.
alter table dead_letter add column action_ref text;
alter table dead_letter add column worker bigint;

-- +goose Down

alter table dead_letter drop column worker;
alter table dead_letter drop column action_ref;
